#include "brokers/kafka/openings.hpp"

#include <functional>
#include <utility>

namespace baton::brokers {

namespace {

constexpr std::chrono::hours known_for{1};
constexpr std::size_t most_known = 1'000'000;

// What a key's place is called: its topic and itself.
std::string place_of(const Message& message) {
    std::string place = message.destination;
    place += '\0';
    return place += message.key;
}

}  // namespace

KafkaOpenings::Turn KafkaOpenings::enter(const Message& message, Clock::time_point now) {
    std::string place = place_of(message);
    if (const auto found = behind_.find(place); found != behind_.end()) {
        found->second.push_back(message);
        return Turn::waits;
    }
    const auto known = known_.find(std::hash<std::string>{}(place));
    if (known != known_.end() && now < known->second) return Turn::goes;
    openers_.emplace(message.ticket, place);
    behind_.try_emplace(std::move(place));
    return Turn::opens;
}

std::vector<Message> KafkaOpenings::end(std::uint64_t ticket, bool delivered, Clock::time_point now) {
    const auto opener = openers_.find(ticket);
    if (opener == openers_.end()) return {};
    const std::string place = std::move(opener->second);
    openers_.erase(opener);
    const auto found = behind_.find(place);
    std::vector<Message> behind = std::move(found->second);
    behind_.erase(found);
    if (delivered) {
        if (known_.size() >= most_known) known_.clear();
        known_[std::hash<std::string>{}(place)] = now + known_for;
    }
    return behind;
}

}  // namespace baton::brokers
