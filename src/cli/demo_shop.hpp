#pragma once
// The demo's shop: writers that place and change orders, one transaction that is held open, a handler that
// keeps the books from the inbox, and a stream table with the revenue per product. The shop counts everything
// that it does.

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "postgres/connection.hpp"

namespace baton::cli {

using DemoClock = std::chrono::steady_clock;

// When each event was committed or delivered, by its id in the log.
class Moments {
  public:
    void note(std::int64_t id) {
        const auto now = DemoClock::now();
        const std::lock_guard lock(mutex_);
        at_.emplace(id, now);
    }
    std::unordered_map<std::int64_t, DemoClock::time_point> all() const {
        const std::lock_guard lock(mutex_);
        return at_;
    }

  private:
    mutable std::mutex mutex_;
    std::unordered_map<std::int64_t, DemoClock::time_point> at_;
};

struct ShopCounts {
    std::atomic<long> placed{0}, changed{0}, paid{0}, cancelled{0};
    std::atomic<long> committed{0};    // events
    std::atomic<long> rolled_back{0};  // events
    std::atomic<long> handled{0};
    std::atomic<long> handler_rollbacks{0};
    std::atomic<int> held_open{0};  // events of the transaction that is held open now
};

class Shop {
  public:
    // Make the tables, the outbox shop.events, the inbox shop.accounting and the stream table shop.revenue.
    // Drops what an earlier demo left.
    static void build(const std::string& db);

    explicit Shop(std::string db) : db_(std::move(db)) {}
    ~Shop();

    // Open the shop for `duration`; each writer pauses for about `pace` between two transactions. Then the
    // writers stop by themselves.
    void open(int writers, std::chrono::milliseconds duration, std::chrono::milliseconds pace = {});
    void wait_until_closed();
    // Let the handler end once its inbox is empty.
    void close_books();
    // Let the revenue follow all that was written. Returns how many deltas there were.
    long close_revenue();
    // Stop everything as soon as possible.
    void abandon();

    const ShopCounts& counts() const { return counts_; }
    const Moments& commits() const { return commits_; }
    // What broke; empty when nothing did.
    std::string failure() const;

  private:
    void write(unsigned seed, DemoClock::time_point until, std::chrono::milliseconds pace);
    void hold_one_open(DemoClock::time_point from, DemoClock::time_point until);
    void keep_books();
    void follow_revenue();
    bool handle_batch(postgres::Connection& db, bool roll_back);
    bool nap(std::chrono::milliseconds time) const;  // false when it is time to stop
    template <class Work>
    std::thread run(Work work);

    std::string db_;
    ShopCounts counts_;
    Moments commits_;
    std::vector<std::thread> writers_;
    std::thread handler_;
    std::thread follower_;
    std::atomic<bool> abandoned_{false};
    std::atomic<bool> closing_books_{false};
    std::atomic<bool> closing_revenue_{false};
    mutable std::mutex mutex_;
    std::string failure_;
};

}  // namespace baton::cli
