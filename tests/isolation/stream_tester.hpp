#pragma once
// Tries to refute stream tables: many random queries over the same random tables, kept up to date while
// several sessions write. When all is quiet, each must hold what its query gives, and the deltas in its
// outbox, one after the other, must lead to the same.

#include <map>
#include <mutex>
#include <set>

#include "isolation/stream_workload.hpp"

namespace baton::test {

// A wrong rule: SQL over `delta`, the statement that computes a stream table's change.
struct StreamMutation {
    std::string name;
    std::string expression;
};

struct StreamPlan {
    std::uint64_t seed = 1;
    int queries = 100;
    int only = -1;  // number of the one query to be tried
    int waves = 1;  // of writing and refreshing at once, each followed by a comparison
    // Each query gets one of them, if its statement has something to be mutated; else it is left out.
    std::vector<StreamMutation> mutations = {};
};

class StreamTester {
  public:
    StreamTester(std::string url, StreamPlan plan);

    // Make tables, stream tables and changes; afterwards faults() says what went wrong.
    void run();

    struct Fault {
        int query;
        std::string text;
        bool is_error;  // of the server; else the rows are wrong
    };
    const std::vector<Fault>& faults() const { return faults_; }
    // The same with everything that somebody needs to look into the matter.
    std::string report() const;
    int differential() const { return differential_; }
    int full() const { return full_; }
    int rejected() const { return rejected_; }  // queries that were none, or gave too much
    int refreshes() const { return refreshes_; }
    int slow() const { return slow_; }  // stream tables that were given up
    // How many stream tables had a mutation, and how many of them it made wrong.
    std::map<std::string, std::pair<int, int>> mutants() const;

  private:
    struct StreamTable {
        int number;
        std::string name;
        std::string query;
        std::string mutation = {};
        bool is_differential = false;
    };

    std::string reasonable_query(int number);
    void make_stream_table(int number);
    void work_and_refresh(bool with_late_commit);
    void refresh_each(std::atomic<std::size_t>& next);
    void refresh(Connection& db, const StreamTable& table);
    void compare(const StreamTable& table);
    void fault(const StreamTable& table, const std::string& what, bool is_error = false);
    void give_up(const StreamTable& table);
    bool is_faulty(const StreamTable& table);

    std::string url_;
    StreamPlan plan_;
    Connection db_;
    RandomSchema schema_;
    std::unique_ptr<StreamWorkload> workload_;
    std::vector<StreamTable> tables_;
    std::mutex mutex_;
    std::vector<Fault> faults_;
    std::set<int> faulty_;
    std::atomic<int> refreshes_{0};
    int differential_ = 0, full_ = 0, rejected_ = 0, slow_ = 0;
};

}  // namespace baton::test
