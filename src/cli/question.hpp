#pragma once
// A question to the database for which nobody waits longer than a moment. It has a thread and a connection of
// its own, and is asked only when somebody wants to know.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "baton/error.hpp"
#include "postgres/connection.hpp"

namespace baton::cli {

template <class Answer>
class Question {
  public:
    using Clock = std::chrono::steady_clock;
    using Ask = std::function<Answer(postgres::Connection&)>;

    struct Outcome {
        std::shared_ptr<const Answer> answer;  // the last one; null when there is none
        Clock::duration age{};                 // time since it was asked for
        std::string error;                     // why the answer is not as new as wanted; empty when it is
        bool failed = false;                   // the last attempt failed, rather than that it takes long
    };

    Question(std::string db, std::string application_name, std::chrono::milliseconds limit, Ask ask)
        : db_(std::move(db)),
          application_name_(std::move(application_name)),
          patience_(std::make_shared<postgres::Patience>(limit)),
          ask_(std::move(ask)),
          thread_([this](const std::stop_token& stop) { answer_on(stop); }) {}
    ~Question() { request_stop(); }
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;

    // End what is under way. The destructor waits for the thread.
    void request_stop() {
        patience_->end_by(Clock::now());
        thread_.request_stop();
    }

    // Get an answer that was asked for at most `age` ago, or the last one there is. Waits for a moment.
    Outcome get(Clock::duration age) {
        std::unique_lock lock(mutex_);
        const auto now = Clock::now();
        const auto oldest = now - age;
        wanted_ = std::max(wanted_, oldest);
        changed_.notify_all();
        // A look that is under way for long says enough: nobody waits for another.
        const bool stuck = asking_since_ && now - *asking_since_ > moment;
        if (!stuck)
            changed_.wait_for(lock, moment, [&] { return answered_at_ >= oldest || failed_at_ >= oldest; });
        Outcome outcome{answer_, Clock::now() - answered_at_, {}, false};
        if (answered_at_ >= oldest) return outcome;
        outcome.failed = failed_at_ >= oldest;
        outcome.error = outcome.failed ? error_
                                       : "the database has not answered for " +
                                             postgres::in_words(Clock::now() - asking_since_.value_or(now));
        return outcome;
    }

  private:
    static constexpr std::chrono::seconds moment{1};

    void answer_on(const std::stop_token& stop) {
        std::optional<postgres::Connection> db;
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [this] { return wanted_ > std::max(answered_at_, failed_at_); })) {
            const auto asked = Clock::now();
            asking_since_ = asked;
            lock.unlock();
            std::shared_ptr<const Answer> found;
            std::string why;
            try {
                if (!db || !db->alive()) db.emplace(db_, application_name_, patience_);
                found = std::make_shared<const Answer>(ask_(*db));
            } catch (const std::exception& error) {
                why = error.what();
                db.reset();
            }
            lock.lock();
            asking_since_.reset();
            (found ? answered_at_ : failed_at_) = asked;
            if (found) answer_ = std::move(found);
            error_ = why;
            changed_.notify_all();
        }
    }

    const std::string db_;
    const std::string application_name_;
    const std::shared_ptr<postgres::Patience> patience_;
    const Ask ask_;

    std::mutex mutex_;  // guards what follows
    std::condition_variable_any changed_;
    Clock::time_point wanted_{};  // an older answer is not good enough
    std::shared_ptr<const Answer> answer_;
    Clock::time_point answered_at_{};  // when the answer was asked for
    Clock::time_point failed_at_{};
    std::optional<Clock::time_point> asking_since_;
    std::string error_;

    std::jthread thread_;
};

}  // namespace baton::cli
