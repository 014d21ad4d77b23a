#pragma once
// The judge: what was committed against what arrived. Knows neither database nor broker.
//
// Copies.  A message that arrived more than once is explained when a fault hit while it may have been under
//          way: it was committed before the fault was over, and it had not arrived long before the fault
//          began. Copies that no fault explains are a finding.
// Order.   Within each key, first arrivals must be in the order of their numbers. With the copies left in, a
//          sequence may go back (it is delivered again from an earlier place), and each of these deliveries
//          may only go on one by one; two of them may alternate, as when a relay that was stopped wakes up. A
//          leap over something is a finding.

#include "audit/events.hpp"

namespace baton::audit {

// Something that was done to the relay, to a server or to a connection.
struct FaultTime {
    std::string name;
    Clock::time_point began;
    Clock::time_point ended;
};

struct Facts {
    Names names{""};
    std::vector<std::string> keys;  // what Event::key stands for
    Events events;
    Arrivals arrived;
    std::deque<Clock::time_point> seen;  // first arrivals by event; `never` when nobody saw it come
    std::vector<FaultTime> faults;
    Clock::duration recovery =
        std::chrono::seconds(10);  // time from the end of a fault until all is as before
    Clock::duration unsettled = std::chrono::seconds(3);  // how long an arrival may be without a checkpoint
    bool ordered = true;                                  // the broker keeps the order of a key
    bool ghosts_judged = true;                            // nothing may be sent that the database loses later
    bool deduplicates = false;                            // the broker keeps one copy of an id

    long count(Fate fate) const;
    Clock::time_point seen_at(Index index) const { return index < seen.size() ? seen[index] : never; }
};

struct Latency {
    long events = 0;
    double p50 = 0, p99 = 0, p999 = 0, longest = 0;  // milliseconds
};

struct Judgement {
    long committed = 0;
    long rolled_back = 0;
    long arrived = 0;  // with copies
    long copies = 0;
    long rewinds = 0;  // places where a key's sequence went back
    Finding lost;
    Finding phantom;             // rolled back, but arrived
    Finding unknown;             // arrived, but nobody wrote it
    long taken_back = 0;         // committed, and lost by the database
    Finding ghosts;              // committed and lost by the database, but arrived
    Finding out_of_order;        // first arrivals
    Finding leaps;               // misordered arrivals, copies included
    Finding unexplained_copies;  // no fault explains them, or the broker should have dropped them
    bool ordered = true;
    bool ghosts_judged = true;
    Latency calm;  // from commit to arrival, for events that no fault touched
    Latency all;

    bool good() const;
    // Copies for each arrival.
    double copy_rate() const;
};

Judgement judge(const Facts& facts);

}  // namespace baton::audit
