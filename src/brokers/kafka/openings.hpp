#pragma once
// Lets the first message of each key go to Kafka alone.
//
// A broker numbers the messages that a producer sends to a partition, and refuses a message after a gap. So
// when a message is refused for good, later messages that are under way are refused too. But a broker that
// has nothing of a producer yet takes any number. So the sink waits for the first message of a key. Once it
// is there, the broker knows the producer, and many messages may be under way.
//
//   state of a key   a message comes           the first is delivered       the first is not delivered
//   unknown          goes first: opening
//   opening          waits                     known; those behind it go    unknown; those behind it come
//   back known            goes
//
// A key stays known for an hour: a broker forgets a producer that is silent for a day. For a new producer no
// key is known.

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "event/event.hpp"

namespace baton::brokers {

class KafkaOpenings {
  public:
    using Clock = std::chrono::steady_clock;
    enum class Turn { goes, opens, waits };

    // Say whether a message with a key goes, goes first, or waits. A message that waits is kept here.
    Turn enter(const Message& message, Clock::time_point now = Clock::now());
    // A message has come back. Returns the messages that waited for it.
    std::vector<Message> end(std::uint64_t ticket, bool delivered, Clock::time_point now = Clock::now());
    // There is a new producer. Nothing may be under way.
    void forget_all() { known_.clear(); }

  private:
    std::unordered_map<std::size_t, Clock::time_point> known_;      // by place, until when
    std::unordered_map<std::string, std::vector<Message>> behind_;  // by place
    std::unordered_map<std::uint64_t, std::string> openers_;        // ticket, place
};

}  // namespace baton::brokers
