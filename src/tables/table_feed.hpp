#pragma once
// The common part of all sources that are tables of PostgreSQL. Only the thread that reads talks to the
// server; settle() leaves a note and wakes this thread. A session ends before its lease ends (lease.hpp).
// When a step fails, threads that wait for positions are told.

#include <memory>
#include <type_traits>

#include "postgres/patience.hpp"
#include "relay/io.hpp"
#include "tables/load_limit.hpp"
#include "tables/wakeup.hpp"

namespace baton::tables {

// The relay or consumer that has the table.
struct Holder {
    std::string by;
    std::string until;
};

class TableFeed : public relay::Feed {
  public:
    using Clock = std::chrono::steady_clock;

    void tend(relay::milliseconds patience) override {
        guarded([&] {
            const auto deadline = Clock::now() + patience;
            do {
                do_chores();
                if (wakeup_.interrupted()) return;
                wait(deadline);
            } while (Clock::now() < deadline);
        });
    }
    void interrupt() override { wakeup_.interrupt(); }
    void end_by(Clock::time_point end) override { patience_->end_by(end); }
    bool may_send() const override { return !patience_->over(); }
    void load_at_most(std::size_t bytes) override { load_limit_.sink_takes(bytes); }

  protected:
    using PatiencePtr = std::shared_ptr<postgres::Patience>;

    TableFeed(PatiencePtr patience, std::size_t max_event_bytes)
        : patience_(std::move(patience)), load_limit_(max_event_bytes) {}

    // Write positions, renew the lease. Throws when the session must be over.
    virtual void do_chores() = 0;
    // Wait for a note or for the server, at most until the next chore is due.
    virtual void wait(Clock::time_point until) = 0;
    // A step failed: nothing more will be written.
    virtual void give_up(const std::string& why) = 0;

    // Run a step of the thread that reads. After a failure the session is over.
    template <class Step>
    std::invoke_result_t<Step> guarded(const Step& step) {
        try {
            return step();
        } catch (const std::exception& error) {
            patience_->end_by(Clock::now());
            give_up(error.what());
            throw;
        }
    }

    PatiencePtr patience_;  // ends before the lease
    LoadLimit load_limit_;
    Wakeup wakeup_;
};

}  // namespace baton::tables
