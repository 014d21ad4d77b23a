#pragma once
// Drives a sink as a pipeline does, several sends before each collect, and holds it to its contract: every
// message is reported exactly once;
// what is to be retried is sent again in the order of its key; one message per key is in flight unless the
// sink's traits allow more, and then none may overtake one that failed.

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "relay/io.hpp"

namespace baton::test {

class Driver {
  public:
    explicit Driver(relay::Sink& sink, std::size_t max_in_flight = 256);

    // Take messages; what they point to must outlive the driver. Tickets are given here.
    void give(std::vector<Message> messages);
    // Go on until everything is delivered or rejected; `between` runs after every round.
    // Throws Error when the sink breaks its contract, or when nothing at all moves for a long time.
    void run(const std::function<void()>& between = {});
    // Go on until the condition holds or everything is done.
    void run_until(const std::function<bool()>& condition);

    // Send what may go now, without looking what became of it.
    void fill();

    bool done() const { return delivered_ + rejected_.size() == messages_.size(); }
    std::size_t delivered() const { return delivered_; }
    std::size_t retries() const { return retries_; }
    std::size_t shut() const { return shut_; }  // of those, how many the destination was to blame for
    std::size_t in_flight() const { return in_flight_; }
    // Message id and the sink's words.
    const std::map<std::string, std::string>& rejected() const { return rejected_; }
    const std::string& last_error() const { return last_error_; }

  private:
    using Clock = std::chrono::steady_clock;
    struct Lane {
        std::deque<std::size_t> waiting;
        std::set<std::size_t> flying;
        std::size_t last_delivered = 0;  // one past
        bool failed = false;             // waits until nothing of it flies, then begins again
        Clock::time_point not_before{};
    };

    void round();
    void take(const relay::Delivery& delivery);
    bool may_send(const Lane& lane) const;

    relay::Sink& sink_;
    std::size_t max_in_flight_;
    bool many_per_key_;
    std::vector<Message> messages_;
    std::map<std::string, Lane> lanes_;
    std::map<std::uint64_t, std::pair<std::size_t, Lane*>> tickets_;
    std::uint64_t next_ticket_ = 1;
    std::size_t in_flight_ = 0;
    std::size_t delivered_ = 0;
    std::size_t retries_ = 0;
    std::size_t shut_ = 0;
    std::map<std::string, std::string> rejected_;
    std::string last_error_;
    Clock::time_point moved_at_ = Clock::now();
};

}  // namespace baton::test
