#pragma once
// Writers of every kind, on an outbox of their own. They keep books about what they did.
//
// Transactions are short, slow, aborted, rolled back in part, bulk, or held open for long. Each event carries
// a key and a number of this key, from a row that the transaction has locked. So transactions on one key see
// each other, and the numbers of a key are the order in which its events must arrive. Events are published as
// users do: by a statement of their own, by publish_many() and by COPY. The same transactions write a ledger.
// When the answer to a commit was lost, the ledger says whether the commit took place.

#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "audit/judge.hpp"
#include "postgres/connection.hpp"

namespace baton::audit {

struct LoadPlan {
    int writers = 4;
    int keys = 20;
    double rate = 500;        // events per second, all writers together
    int payload_bytes = 200;  // about
    int burst = 1;            // half of the transactions have up to this many times as many events
    unsigned seed = std::random_device{}();
    std::chrono::milliseconds retention{
        0};  // of the outbox, and the age at which the outbox begins a new partition
    bool database_may_lose =
        false;  // commits that were answered, in a failover without synchronous replication
};

class Load {
  public:
    // `name` becomes a schema, with the outbox NAME.events in it.
    Load(std::string db, std::string name, LoadPlan plan);
    ~Load();

    void create();
    void remove();
    std::string outbox() const { return name_ + ".events"; }

    void start();
    // Let every writer finish its transaction, and wait for the writers.
    void stop();

    long committed() const { return committed_; }
    // What broke although no fault explains it; empty when nothing did.
    std::string failure() const;
    const Names& names() const { return names_; }
    // Hand over what was committed and what was rolled back. Throws Error when a committed event is not in
    // the ledger: then the database has lost it. The plan may allow for such losses.
    void testify(Facts& facts);

  private:
    struct Draft;  // a transaction's events
    struct Range {
        Index first;
        Index count;
    };
    enum class Way { insert, publish_many, copy };
    void write(unsigned number);
    void hold_open();
    void transact(postgres::Connection& db, std::mt19937& random);
    std::string statement(Way way) const;
    void publish(postgres::Connection& db, std::vector<Range>& ranges, int key, int count, Way way);
    void publish_many(postgres::Connection& db, Range range, int key, long number) const;
    void copy(postgres::Connection& db, Range range, int key, long number) const;
    std::string payload(int key, long number) const;
    Range begin_events(int key, int count);
    void number_events(Range range, long first);
    void settle(const std::vector<Range>& ranges, Fate fate, Clock::time_point at = never);
    void compare_with_ledger();
    void finish(postgres::Connection& db, Draft& draft, bool commit);
    void forget(const Draft& draft);
    bool nap(std::chrono::milliseconds time) const;
    template <class Work>
    void keep_going(Work work);

    std::string db_;
    std::string name_;
    LoadPlan plan_;
    std::string padding_;
    std::vector<std::thread> threads_;
    std::atomic<bool> stopping_{false};
    std::atomic<long> committed_{0};
    mutable std::mutex mutex_;
    Names names_ = Names::uuids();
    Events events_;
    std::string failure_;
};

}  // namespace baton::audit
