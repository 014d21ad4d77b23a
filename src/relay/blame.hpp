#pragma once
// Whose fault a failed message is, and what follows for its event.
//
// Faults. The sink says which one a failure is (Verdict):
//   moment       unreachable, throttled, no leader: the same message may be taken in a moment
//   destination  login or right refused; topic, stream, exchange, queue or inbox missing; a forbidden
//   address:
//                nothing is taken until somebody mends the cause
//   event        this message will never be taken: too large, malformed, refused for its content
//
// Rulings. "Others went": the sink took another event since the last try of this event, so the sink is up.
// This counts only for the first event of a key: the events behind it fail together with it.
//
//   fault        others went  and                                                    ruling
//   moment       no           fewer than `attempts` tries                            await_sink
//   moment       no           more tries, and nothing else is there to compare with  ask_sink
//   destination  no           however often, however long                            await_sink
//   moment or    yes          fewer than `attempts` times                            wait
//   destination  yes          as often as `attempts`                                 park
//   event        either                                                              bury
//
// When many events in a row are given up (parked or buried) and none is delivered in between, the events are
// not to blame: there is a mistake in the settings or at the destination, whatever the sink says. After
// `give_up_limit` such events, park and bury become
//
//   any          either       `give_up_limit` given up in a row                      stop
//
// and no more events are given up until one event is delivered, or an operator starts the pipeline anew.
//
// Where no table keeps events that are given up (`keeps_trying`), no event is given up.

#include <cstdint>
#include <string>

namespace baton::relay {

enum class Fault : std::uint8_t { moment, destination, event };
const char* name_of(Fault fault);

enum class Ruling : std::uint8_t {
    await_sink,  // try again; once the sink takes something, at once
    ask_sink,    // park the event when nothing else can be tried and the sink says that it is up; else
                 // await_sink
    wait,        // try again after the event's own pause; the try counts against the event
    park,        // give the event up for now
    bury,        // give the event up for good
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
    // What an operator needs to know when the limit is reached.
    std::string words() const;

  private:
    unsigned limit_;
    unsigned count_ = 0;
    std::string why_;  // the last one
};

// What is known of one event.
struct Record {
    std::uint32_t attempts = 0;  // failed tries that count against the event
    std::uint32_t tries = 0;     // tries since the sink was back last
    std::uint32_t outage = 0;    // how many outages were over when the event failed last
    std::uint64_t progress = 0;  // how much was delivered when the event was tried last
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

    // Judge an event whose messages came back. `first`: no earlier event of its key waits.
    Ruling judge(Record& record, Fault fault, bool first);
    // The ruling after ask_sink, when the sink said that it is up.
    Ruling sink_is_up() const { return unless_stopped(Ruling::park); }

  private:
    Ruling unless_stopped(Ruling ruling) const { return streak_.full() ? Ruling::stop : ruling; }

    BlameRules rules_;
    Streak streak_;
    std::uint64_t progress_ = 0;  // messages delivered
    std::uint32_t outages_ = 0;   // outages that are over
};

}  // namespace baton::relay
