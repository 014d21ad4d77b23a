#pragma once
// The work of a worker: the events of a group, or the messages of an inbox. The engine knows only this
// interface.
//
// Statements run on the given connection, in the transaction that is open there, if there is one.

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "baton/event.hpp"
#include "postgres/connection.hpp"
#include "postgres/doorbell.hpp"

namespace baton::client {

// A lease and its deliveries, in the order in which they are to be handled.
struct Batch {
    std::string token;
    std::vector<Delivery> deliveries;
};

struct Failure {
    std::string error;
    bool permanent = false;
    std::chrono::milliseconds after{-1};  // negative: by backoff
};

// What became of a failed delivery, and which other deliveries may not be handled now because of it.
struct Parked {
    bool dead = false;
    std::vector<std::int64_t> held_back;  // their positions
};

// How a queue is called in traces.
struct QueueNames {
    std::string destination;  // the outbox or inbox
    std::string group;        // empty for an inbox
};

class Queue {
  public:
    using Connection = postgres::Connection;

    virtual ~Queue() = default;

    // Check on a new connection that the group or inbox exists and is of the right kind.
    virtual void open(Connection& db) = 0;
    // Lease the next deliveries; empty when there are none.
    virtual Batch take(Connection& db) = 0;
    // Settle the first deliveries that are left of a lease. Throws LeaseLost when they are not ours any more.
    virtual void settle(Connection& db, const std::string& token, std::span<const Delivery> done) = 0;
    // Settle a delivery as failed.
    virtual Parked fail(Connection& db, const std::string& token, const Delivery& delivery,
                        const Failure& failure) = 0;
    // Give back deliveries that were not begun.
    virtual void release(Connection& db, const std::string& token, std::span<const Delivery> left) = 0;
    // Keep a lease for longer. Called on another connection, by another thread.
    virtual void extend(Connection& db, const std::string& token, std::span<const EventId> ids) const = 0;
    // True when a lease is whole or lost: who loses one delivery of it loses all.
    virtual bool one_lease_for_all() const = 0;
    // Known once open() was called.
    virtual QueueNames names() const = 0;
    // Wakes an idle worker. Null when a worker can only look again and again.
    virtual std::unique_ptr<postgres::Doorbell> doorbell() const { return nullptr; }
};

// What both kinds of queue need to know.
struct QueueOptions {
    std::string conninfo;
    std::string name;    // the group or the inbox
    std::string worker;  // who takes the leases
    int batch;
    int lease_seconds;
    std::string tier = {};  // of an inbox with priorities
};

std::unique_ptr<Queue> make_group_queue(QueueOptions options);
std::unique_ptr<Queue> make_inbox_queue(QueueOptions options);

// Milliseconds as an interval, or NULL when negative.
postgres::Param interval_or_null(std::chrono::milliseconds time);
// A JSON object's members as texts; an empty map for NULL.
std::map<std::string, std::string> read_headers(const postgres::Result& rows, int row, int column);

}  // namespace baton::client
