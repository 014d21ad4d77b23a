#pragma once
// What a GroupConsumer and an InboxWorker have in common: options, what they report, and how they run.
//
// A worker leases a batch, runs the handler over it in a transaction that also settles it, commits, and goes
// on; when there is nothing it sleeps until something comes. While a handler takes long the lease is extended
// from a second connection. A lease that is lost all the same (the process was stopped for minutes, say)
// cannot be settled: the transaction is rolled back, and whoever holds the lease now does the work. So any
// number of workers share the work, and any of them may die at any instant.
//
// A broken connection is made again, for as long as it takes. An error that will not go away by itself, such
// as a missing group or privilege, is thrown from run().

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "baton/export.hpp"
#include "baton/handler.hpp"

namespace baton {

// Something a worker dealt with, for your log. The texts live as long as the call.
struct Incident {
    enum class Kind {
        failed,           // the handler failed; the delivery comes again
        rejected,         // the delivery is a dead letter now (an inbox tells only when it was rejected)
        lease_lost,       // somebody else has the work; what was done is undone
        connection_lost,  // and will be made again
    };
    Kind kind;
    const Delivery* delivery;  // null where it is about none in particular
    std::string what;
};

struct WorkOptions {
    std::string conninfo = {};  // as libpq reads it: "host=... dbname=..." or "postgresql://..."

    // This worker's name, unique among those who share the work; empty: made of host, process and chance.
    std::string name = {};

    // How many deliveries are leased, and share a transaction, at most. The server keeps track of up to 64
    // savepoints per transaction without extra cost to others.
    int batch = 50;

    // How long the work is this worker's when nobody hears of it any more.
    std::chrono::seconds lease{30};

    // The longest time between two looks when nothing comes. New events of an outbox wake the consumer at
    // once; this is for retries that fall due, and for inboxes.
    std::chrono::milliseconds idle{500};

    // Of an inbox with priorities: the one tier that this worker takes from; empty: the earliest due of all.
    std::string tier = {};

    // Called from the worker's thread, and for connection_lost also from that of the second connection. Must
    // not throw.
    std::function<void(const Incident&)> on_incident = {};
};

// How many deliveries had which end, since the worker was made.
struct WorkCounts {
    std::uint64_t handled = 0;
    std::uint64_t failed = 0;
    std::uint64_t rejected = 0;
    std::uint64_t leases_lost = 0;
};

namespace client {
class Engine;
}

// The common part; make a GroupConsumer or an InboxWorker. One thread runs it; counts() may be asked by any.
class BATON_API Worker {
  public:
    Worker(Worker&&) noexcept;
    Worker& operator=(Worker&&) noexcept;
    virtual ~Worker();

    // Work until asked to stop. Then the handler that runs is waited for, what it did is committed, what was
    // leased and not begun is given back, and run() returns.
    void run(std::stop_token stop);

    // Work until nothing is offered, then return how many deliveries were handled. What failed and is due
    // later, and what others hold, is not waited for. Unlike run() it throws when the connection breaks.
    std::uint64_t drain(std::stop_token stop = {});

    WorkCounts counts() const;

  protected:
    explicit Worker(std::unique_ptr<client::Engine> engine);

  private:
    std::unique_ptr<client::Engine> engine_;
};

}  // namespace baton
