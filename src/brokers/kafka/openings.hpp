#pragma once
// Lets the first message of each key go to Kafka alone.
//
// A broker numbers what a producer sends to a partition, and refuses what comes after a gap: when a message
// is refused for good, those behind it that are under way already are refused too. But a broker that has
// nothing of a producer yet takes any number. So the first message of a key is waited for; once it is there,
// the broker knows the producer, and many may be under way.
//
//   state of a key   a message comes           the first one is delivered   ... is not
//   unknown          it opens: opening
//   opening          it waits                  known; those behind it go    unknown; they come back too
//   known            it goes
//
// A key is known for an hour after it was opened: a broker forgets a producer that is silent for a day. A new
// producer is known nowhere.

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

    // What a message with a key is to do. One that waits is kept here.
    Turn enter(const Message& message, Clock::time_point now = Clock::now());
    // A message has come back; returns those that waited for it.
    std::vector<Message> end(std::uint64_t ticket, bool delivered, Clock::time_point now = Clock::now());
    // There is a new producer. Nothing may be under way.
    void forget_all() { known_.clear(); }

  private:
    std::unordered_map<std::size_t, Clock::time_point> known_;      // by place, until when
    std::unordered_map<std::string, std::vector<Message>> behind_;  // by place
    std::unordered_map<std::uint64_t, std::string> openers_;        // ticket, place
};

}  // namespace baton::brokers
