#pragma once
// Whose fault it is that a message did not get through, and what follows from that for its event.
//
// Faults. The sink says which one a failure is (Verdict):
//   moment       unreachable, throttled, no leader: the same message may be taken in a moment
//   destination  login or right refused; topic, stream, exchange, queue or inbox missing; an address that
//                may not be connected to: nothing is taken until somebody mends that
//   event        this message will never be taken: too large, malformed, refused for its content
//
// Rulings. "Others went": the sink took something else since this event was tried before, so the sink is up.
// Only the first event of its key is judged by that: those behind it fail with it.
//
//   fault        others went  and                                                    ruling
//   moment       no           fewer than `attempts` tries                            await_sink
//   moment       no           more tries, and nothing else is there to compare with  ask_sink
//   destination  no           however often, however long                            await_sink
//   moment or    yes          fewer than `attempts` times                            wait
//   destination  yes          as often as `attempts`                                 park
//   event        either                                                              bury
//
// A streak of events that were given up (parked or buried) without one delivered in between is nobody's
// poison but a mistake in the settings or at the destination, whatever the sink says. After `give_up_limit`
// of them, park and bury become
//
//   any          either       `give_up_limit` given up in a row                      stop
//
// and nothing more is given up until one event is delivered, or an operator starts the pipeline anew.
//
// Where nothing keeps what is given up (`keeps_trying`), every event is waited for.

#include <cstdint>
#include <string>

namespace baton::relay {

enum class Fault : std::uint8_t { moment, destination, event };
const char* name_of(Fault fault);

enum class Ruling : std::uint8_t {
    await_sink,  // try again; once the sink takes something, at once
    ask_sink,    // park it when nothing else can be tried and the sink says that it is up; else await_sink
    wait,        // try again after its own pause; it counts against the event
    park,        // give it up for now
    bury,        // give it up for good
    stop         // as await_sink, and the pipeline says that it is stopped
};

// How many events were given up since one was delivered.
class Streak {
  public:
    // `limit` 0: there is none.
    explicit Streak(unsigned limit = 0) : limit_(limit) {}

    bool full() const { return limit_ > 0 && count_ >= limit_; }
    void delivered() { count_ = 0; }
    void gave_up(const std::string& why) {
        ++count_;
        why_ = why;
    }
    // What an operator needs to know when it is full.
    std::string words() const;

  private:
    unsigned limit_;
    unsigned count_ = 0;
    std::string why_;  // the last one
};

// What is known of one event.
struct Record {
    std::uint32_t attempts = 0;  // that count against it
    std::uint32_t tries = 0;     // that were made since the sink was back last
    std::uint32_t outage = 0;    // how many outages had been over when it failed last
    std::uint64_t progress = 0;  // how much had been delivered when it was tried last
};

struct BlameRules {
    unsigned attempts = 8;
    unsigned give_up_limit = 20;
    bool keeps_trying = false;
};

class Blame {
  public:
    explicit Blame(BlameRules rules) : rules_(rules), streak_(rules.give_up_limit) {}

    // Go on with the streak of an earlier session.
    void resume(const Streak& streak) { streak_ = streak; }
    const Streak& streak() const { return streak_; }

    void sent(Record& record) const {
        if (record.tries++ == 0) record.progress = progress_;
    }
    void delivered() {
        ++progress_;
        streak_.delivered();
    }
    void outage_is_over() { ++outages_; }
    void gave_up(const std::string& why) { streak_.gave_up(why); }

    // Judge an event whose messages came back. `first`: none of its key waits before it.
    Ruling judge(Record& record, Fault fault, bool first);
    // What follows when the sink was asked, after ask_sink, and said that it is up.
    Ruling sink_is_up() const { return unless_stopped(Ruling::park); }

  private:
    Ruling unless_stopped(Ruling ruling) const { return streak_.full() ? Ruling::stop : ruling; }

    BlameRules rules_;
    Streak streak_;
    std::uint64_t progress_ = 0;  // messages delivered
    std::uint32_t outages_ = 0;   // that are over
};

}  // namespace baton::relay
