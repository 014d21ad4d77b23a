#include "conformance/driver.hpp"

#include <algorithm>
#include <thread>

#include "baton/error.hpp"

namespace baton::test {

using namespace std::chrono_literals;
using relay::Verdict;

namespace {

// A dispatcher sends whenever it has a portion together, and collects when there is no more to send.
constexpr std::size_t portion = 7;

}  // namespace

Driver::Driver(relay::Sink& sink, std::size_t max_in_flight)
    : sink_(sink), max_in_flight_(max_in_flight), many_per_key_(sink.traits().keeps_order_after_failure) {}

void Driver::give(std::vector<Message> messages) {
    for (auto& message : messages) {
        const std::size_t number = messages_.size();
        // Without a key each message is a lane of its own.
        const std::string lane =
            message.key.empty() ? "\x01" + std::to_string(number) : "k" + std::string(message.key);
        lanes_[lane].waiting.push_back(number);
        messages_.push_back(std::move(message));
    }
}

bool Driver::may_send(const Lane& lane) const {
    if (lane.waiting.empty() || lane.failed) return false;
    if (!lane.flying.empty() && !many_per_key_) return false;
    return Clock::now() >= lane.not_before;
}

// Send what may go now, in the order in which it was given within each lane.
void Driver::fill() {
    std::vector<Message> group;
    bool found = true;
    while (found && in_flight_ < max_in_flight_) {
        found = false;
        for (auto& [name, lane] : lanes_) {
            if (in_flight_ >= max_in_flight_ || !may_send(lane)) continue;
            const std::size_t number = lane.waiting.front();
            lane.waiting.pop_front();
            lane.flying.insert(number);
            messages_[number].ticket = next_ticket_++;
            tickets_[messages_[number].ticket] = {number, &lane};
            group.push_back(messages_[number]);
            ++in_flight_;
            found = true;
        }
    }
    for (std::size_t from = 0; from < group.size(); from += portion)
        sink_.send({group.data() + from, std::min(portion, group.size() - from)});
}

void Driver::take(const relay::Delivery& delivery) {
    const auto found = tickets_.find(delivery.ticket);
    if (found == tickets_.end())
        throw Error("the sink reported ticket " + std::to_string(delivery.ticket) +
                    ", which is not in flight");
    const auto [number, lane] = found->second;
    tickets_.erase(found);
    lane->flying.erase(number);
    --in_flight_;
    if (delivery.verdict == Verdict::delivered) {
        ++delivered_;
        if (lane->failed && !lane->waiting.empty() && lane->waiting.front() < number)
            throw Error("a message overtook one of its key that had failed");
        lane->last_delivered = std::max(lane->last_delivered, number + 1);
        moved_at_ = Clock::now();
    } else if (delivery.verdict == Verdict::rejected) {
        rejected_[messages_[number].message_id] = delivery.error;
        last_error_ = delivery.error;
        moved_at_ = Clock::now();
    } else {
        ++retries_;
        if (delivery.verdict == Verdict::shut) ++shut_;
        last_error_ = delivery.error;
        if (lane->last_delivered > number) throw Error("a message overtook one of its key that failed");
        lane->waiting.insert(std::lower_bound(lane->waiting.begin(), lane->waiting.end(), number), number);
        lane->failed = true;
        lane->not_before =
            Clock::now() + std::min<std::chrono::milliseconds>(delivery.retry_after.value_or(50ms), 500ms);
    }
    if (lane->flying.empty()) lane->failed = false;
}

void Driver::round() {
    fill();
    std::vector<relay::Delivery> deliveries;
    sink_.collect(deliveries, in_flight_ > 0 ? 20ms : 0ms);
    for (const auto& delivery : deliveries) take(delivery);
    if (in_flight_ == 0 && deliveries.empty()) std::this_thread::sleep_for(1ms);
    if (Clock::now() > moved_at_ + 90s)
        throw Error("nothing was delivered for a long time; " + std::to_string(delivered_) + " delivered, " +
                    std::to_string(in_flight_) + " in flight, last error: " + last_error_);
}

void Driver::run_until(const std::function<bool()>& condition) {
    moved_at_ = Clock::now();
    while (!done() && !condition()) round();
}

void Driver::run(const std::function<void()>& between) {
    run_until([&between] {
        if (between) between();
        return false;
    });
}

}  // namespace baton::test
