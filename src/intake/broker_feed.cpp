#include "intake/broker_feed.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace baton::intake {

using namespace std::chrono_literals;

BrokerFeed::Pace BrokerFeed::Pace::read(const relay::Settings& settings) {
    Pace pace;
    pace.ack_interval = settings.duration("ack_interval", pace.ack_interval);
    pace.ack_timeout = settings.span("ack_timeout", pace.ack_timeout);
    if (pace.ack_interval < 0ms) settings.refuse("ack_interval", "must not be negative");
    pace.batch = settings.count("batch", pace.batch, 100'000);
    pace.batch_bytes = settings.count("batch_bytes", pace.batch_bytes);
    return pace;
}

BrokerFeed::BrokerFeed(Pace pace) : pace_(pace), wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (wake_fd_ < 0) throw Error("cannot make an eventfd");
}

BrokerFeed::~BrokerFeed() {
    ::close(wake_fd_);
}

template <class Step>
auto BrokerFeed::guarded(const Step& step) {
    try {
        return step();
    } catch (const std::exception& error) {
        const std::lock_guard lock(mutex_);
        failure_ = error.what();
        written_.notify_all();
        throw;
    }
}

relay::BatchPtr BrokerFeed::read(milliseconds patience) {
    return guarded([&]() -> relay::BatchPtr {
        const auto deadline = Clock::now() + patience;
        for (;;) {
            acknowledge_noted(false);
            if (auto batch = receive(next_chore(deadline)); batch && !batch->events.empty()) {
                batch->number = next_number_++;
                return batch;
            }
            if (interrupted_.exchange(false) || Clock::now() >= deadline) return nullptr;
        }
    });
}

void BrokerFeed::tend(milliseconds patience) {
    guarded([&] {
        const auto deadline = Clock::now() + patience;
        do {
            acknowledge_noted(false);
            if (interrupted_.exchange(false)) return;
            idle(next_chore(deadline));
        } while (Clock::now() < deadline);
    });
}

void BrokerFeed::close() {
    guarded([&] {
        acknowledge_noted(true);
        leave();
    });
}

void BrokerFeed::interrupt() {
    interrupted_ = true;
    wake();
}

void BrokerFeed::wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto ignored = ::write(wake_fd_, &one, sizeof one);
}

bool BrokerFeed::wait(int descriptor, short events, Clock::time_point until) const {
    std::array<pollfd, 2> waiting{{{wake_fd_, POLLIN, 0}, {descriptor, events, 0}}};
    const auto time = std::chrono::ceil<milliseconds>(until - Clock::now());
    ::poll(waiting.data(), waiting.size(),
           static_cast<int>(std::clamp<milliseconds::rep>(time.count(), 0, 60'000)));
    std::uint64_t count = 0;
    if (waiting[0].revents != 0) [[maybe_unused]]
        const auto ignored = ::read(wake_fd_, &count, sizeof count);
    return waiting[1].revents != 0;
}

void BrokerFeed::settle(const relay::BatchPtr& batch, std::size_t done,
                        std::vector<relay::Failure> failures) {
    if (!failures.empty())
        throw Error("message " + std::string(failures.front().event->source_id) +
                    " cannot be parked, a broker has no room for that: " + failures.front().error);
    const std::lock_guard lock(mutex_);
    const bool first = notes_.empty();
    notes_.push_back({std::static_pointer_cast<const BrokerBatch>(batch), done});
    ++settled_;
    if (first) wake();
}

void BrokerFeed::flush() {
    std::unique_lock lock(mutex_);
    const auto wanted = settled_;
    hurry_ = true;
    wake();
    written_.wait(lock, [&] { return acknowledged_ >= wanted || !failure_.empty(); });
    hurry_ = false;
    if (acknowledged_ < wanted) throw ConnectionError("the last messages were not acknowledged: " + failure_);
}

std::string BrokerFeed::trouble() const {
    const std::lock_guard lock(mutex_);
    return trouble_;
}

void BrokerFeed::set_trouble(std::string words) {
    const std::lock_guard lock(mutex_);
    trouble_ = std::move(words);
}

void BrokerFeed::take_notes() {
    std::deque<Note> notes;
    {
        const std::lock_guard lock(mutex_);
        notes.swap(notes_);
    }
    for (const auto& note : notes) {
        if (current_ != note.batch->number) {
            current_ = note.batch->number;
            current_done_ = 0;
        }
        if (note.done > current_done_) acknowledge(*note.batch, current_done_, note.done);
        current_done_ = note.done;
        ++taken_;
    }
    if (taken_ > sent_ && !unsent_since_) unsent_since_ = Clock::now();
}

// Let the broker know, unless it was told a moment ago.
void BrokerFeed::acknowledge_noted(bool at_once) {
    take_notes();
    if (!unsent_since_) return;
    {
        const std::lock_guard lock(mutex_);
        at_once = at_once || hurry_;
    }
    if (!at_once && Clock::now() < last_sent_ + pace_.ack_interval) return;
    last_sent_ = Clock::now();
    const bool all = send_acknowledgements();
    if (!all && Clock::now() > *unsent_since_ + pace_.ack_timeout)
        throw ConnectionError("the broker takes no acknowledgements: " + trouble());
    if (!all) return;
    sent_ = taken_;
    unsent_since_.reset();
    const std::lock_guard lock(mutex_);
    acknowledged_ = sent_;
    written_.notify_all();
}

BrokerFeed::Clock::time_point BrokerFeed::next_chore(Clock::time_point until) const {
    if (!unsent_since_) return until;
    return std::min(until, std::max(last_sent_ + pace_.ack_interval, Clock::now() + 1ms));
}

}  // namespace baton::intake
