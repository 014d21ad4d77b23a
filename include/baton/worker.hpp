#pragma once
// What a GroupConsumer and an InboxWorker have in common: options, what they report, and how they run.
//
// A worker leases a batch, runs the handler over the batch, settles the batch in the same transaction,
// commits, and goes on. When there is nothing to do, the worker sleeps until something comes. While a handler
// takes long, a second connection extends the lease. A lease can be lost all the same (the process was
// stopped for minutes, for example). Then the worker cannot settle: its transaction is rolled back, and the
// new holder of the lease does the work. So any number of workers share the work, and each may die at any
// moment.
//
// A worker whose connection broke connects again, for as long as that takes. run() throws errors that do not
// go away by themselves, such as a missing group or privilege.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "baton/export.hpp"
#include "baton/handler.hpp"

namespace baton {

// Something that happened to a worker, for your log. The texts live as long as the call.
struct Incident {
    enum class Kind {
        failed,           // the handler failed; the delivery comes again
        rejected,         // the delivery is a dead letter now (an inbox tells only when it was rejected)
        lease_lost,       // somebody else has the work; what was done is undone
        connection_lost,  // and will be made again
    };
    Kind kind;
    const Delivery* delivery;  // null when the incident is about no single delivery
    std::string what;
};

struct WorkOptions {
    std::string conninfo = {};  // as libpq reads it: "host=... dbname=..." or "postgresql://..."

    // This worker's name, unique among the workers that share the work. Empty: a name is made of host,
    // process and chance.
    std::string name = {};

    // How many deliveries are leased, and share a transaction, at most. The server keeps track of up to 64
    // savepoints per transaction without extra cost to others.
    int batch = 50;

    // How long the leased work stays with a worker of whom nothing is heard.
    std::chrono::seconds lease{30};

    // The longest time between two looks for work. New events of an outbox wake the consumer at once; this
    // time is for retries that fall due, and for inboxes.
    std::chrono::milliseconds idle{500};

    // For an inbox with priorities: this worker takes messages of this tier only. Empty: of all tiers, the
    // earliest due first.
    std::string tier = {};

    // Called from the worker's thread; for connection_lost also from the thread of the second connection.
    // Must not throw.
    std::function<void(const Incident&)> on_incident = {};
};

// How many deliveries ended in which way since the worker was made.
struct WorkCounts {
    std::uint64_t handled = 0;
    std::uint64_t failed = 0;
    std::uint64_t rejected = 0;
    std::uint64_t leases_lost = 0;
};

namespace client {
class Engine;
}

// The common part of GroupConsumer and InboxWorker. One thread runs a worker; any thread may call counts().
class BATON_API Worker {
  public:
    Worker(Worker&&) noexcept;
    Worker& operator=(Worker&&) noexcept;
    virtual ~Worker();

    // Work until asked to stop. Then wait for the handler that runs, commit its work, give back what was
    // leased and not begun, and return.
    void run(std::stop_token stop);

    // Work until nothing is offered, then return how many deliveries were handled. drain() does not wait for
    // deliveries that are due later or that others hold. Unlike run() it throws when the connection breaks.
    std::uint64_t drain(std::stop_token stop = {});

    WorkCounts counts() const;

  protected:
    explicit Worker(std::unique_ptr<client::Engine> engine);

  private:
    std::unique_ptr<client::Engine> engine_;
};

}  // namespace baton
