#pragma once
// Writers and consumers that hammer one outbox, and an account of what became of every event.
//
// Each event carries a key and that key's version. The version comes from a row that the writer's transaction
// has locked, so transactions on one key see each other, and the versions of a key must be handled in
// ascending order.

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/cluster.hpp"

namespace baton::test {

// What one group's members did, in the order in which they did it.
class Journal {
  public:
    struct Handled {
        std::string event;  // the event's number
        std::string key;
        long version;
        std::size_t polled_at = 0;  // Journal::moment() before it was asked for
        std::string lease;          // who handled it, and under which lease
    };

    void handled(Handled event);
    void settled(const std::string& event);
    // How many events were settled by now.
    std::size_t moment() const;

    struct Verdict {
        std::size_t expected = 0, handled = 0, settled = 0;
        std::size_t lost = 0;          // committed, never handled
        std::size_t phantom = 0;       // handled, never committed
        std::size_t repeated = 0;      // handled more than once
        std::size_t revived = 0;       // given out after they had been settled
        std::size_t out_of_order = 0;  // first handled after a later version of its key
        std::string examples;
    };
    Verdict compare(const std::map<std::string, std::string>& committed) const;

  private:
    mutable std::mutex mutex_;
    std::vector<Handled> handled_;
    std::map<std::string, std::size_t> settled_;  // when, as moments
    std::size_t revived_ = 0;
};

// What is not true, of what the groups' positions and windows know of the ids in `events` (sql/floors.sql);
// empty when all is.
std::string untrue_floors(Connection& db);

// One consumer of a group, step by step.
class GroupReader {
  public:
    GroupReader(Connection& db, std::string group) : db_(db), group_(std::move(group)) {}
    // Lease up to that many events; returns their ids in the order of delivery: "4,5,6".
    std::string poll(int batch = 1000);
    // Settle what the last poll gave.
    void settle();
    // Poll and settle until nothing comes; returns all ids.
    std::string drain();

  private:
    Connection& db_;
    std::string group_;
    std::string last_id_, token_;
};

struct Member {
    std::string group;
    int number = 0;
    int visibility_seconds = 60;
    int crash_percent = 0;              // leaves without committing and comes back under a new name
    int fail_percent = 0;               // fails one event of the batch
    int partial_percent = 0;            // commits only a part, then the rest
    int stall_percent = 0;              // stands still for up to two seconds, its lease in hand
    bool new_names = false;             // takes a new name after each batch
    std::set<std::string> deadly = {};  // events that kill the member before it has settled anything
};

class Workload {
  public:
    Workload(std::string url, std::string outbox);
    ~Workload();
    Workload(const Workload&) = delete;
    Workload& operator=(const Workload&) = delete;

    // Run writers of every kind for some time; ends when all of them have finished their last transaction.
    void write(std::chrono::milliseconds time);
    // Start a member's loop; ends once the log is drained after stop_consuming().
    void consume(const Member& member, Journal& account);
    // Let the members drain what is left and wait for them.
    void drain();

    // Number of every committed event, with its key.
    std::map<std::string, std::string> committed();

  private:
    void writer(int number, std::chrono::steady_clock::time_point until);
    void publish_under_an_old_id(Connection& db, const std::string& key, std::chrono::milliseconds age);
    void long_transaction(std::chrono::steady_clock::time_point until);
    void member(Member member, Journal& account);
    bool handle_batch(Connection& db, const Member& member, const std::string& name, Journal& account,
                      unsigned& seed);

    std::string url_;
    std::string outbox_;
    std::vector<std::thread> members_;
    std::atomic<bool> draining_{false};
    std::atomic<bool> given_up_{false};  // a test that failed waits for nothing
    std::mutex error_mutex_;
    std::string error_;
};

// What became of events that kill whoever handles them, and of all others.
struct DeadlyOutcome {
    std::set<std::string> committed;  // the deadly ones among the committed
    std::set<std::string> dead;       // those that ended as dead letters
    Journal::Verdict verdict;         // of the group; the deadly ones are among its lost
};

// Write to the outbox `events` for some time, with four consumers who die of the events with these numbers
// before they have settled anything. There is always an event number 0, on a key of its own.
DeadlyOutcome work_with_deadly_events(const std::string& url, const std::set<std::string>& deadly,
                                      std::chrono::milliseconds time);

}  // namespace baton::test
