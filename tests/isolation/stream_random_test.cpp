// Random queries as stream tables, kept up to date among random transactions. And the proof that this would
// notice: a wrong rule of each operator.
//
// A seed gives the same tables, queries and statements again: BATON_STREAM_SEED runs one, BATON_STREAM_ONLY
// only one of its queries, BATON_STREAM_ROUNDS more seeds, BATON_STREAM_QUERIES more queries over the same
// tables, BATON_STREAM_WAVES more changes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "isolation/stream_tester.hpp"

using namespace baton;
using namespace baton::test;

namespace {

int from_environment(const char* name, int otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::atoi(value) : otherwise;
}

// SQL over `delta`, the statement that computes a change.
const std::vector<StreamMutation> wrong_rules = {
    {"inner join: now instead of before",
     R"(regexp_replace(delta, 'before_(\d+) (a\d+)', '(select *, 1::bigint as baton_weight from now_\1) \2', 'g'))"},
    {"outer and anti join: no change by partners",
     R"(regexp_replace(delta, '\(\w\.partners_now = 0\)::int - \(\w\.partners_before = 0\)::int', '0', 'g'))"},
    {"semi join: held before as it holds now",
     R"(regexp_replace(delta, '\(\w\.partners_now > 0\)::int - \(\w\.partners_before > 0\)::int', '0', 'g'))"},
    {"touched keys: nulls are not looked for",
     R"(regexp_replace(delta, 'where \(k\.\w+ is null( or k\.\w+ is null)*\)', 'where false', 'g'))"},
    {"touched keys: one of them is missing",
     R"(regexp_replace(delta, '(touched_\d+ as materialized \(select distinct [^\n]*)\)(,\n)', '\1 offset 1)\2', 'g'))"},
    {"aggregates and set operations: what was is what is",
     R"(regexp_replace(delta, '-baton_weight from (change_\d+)\) u', '0 * baton_weight from \1) u', 'g'))"},
    {"carried sums: rows that go count as rows that come",
     "replace(delta, ' * a.baton_weight), 0)', ' * abs(a.baton_weight)), 0)')"},
    {"projection: rows that go come",
     R"(regexp_replace(delta, 'a\.baton_weight from (change_\d+) a\)', 'abs(a.baton_weight) as baton_weight from \1 a)', 'g'))"},
    {"scan: late commits are passed over",
     "replace(delta, 'baton_internal.is_unseen(xid, step)', "
     "'xid >= (select pg_snapshot_xmax(s.frontier) from baton.stream_tables s where s.relation = '':table''::regclass)')"}};

}  // namespace

TEST(StreamRandom, stream_tables_and_their_outboxes_hold_what_their_queries_give_after_whatever_happened) {
    StreamPlan plan;
    plan.queries = from_environment("BATON_STREAM_QUERIES", 50);
    plan.only = from_environment("BATON_STREAM_ONLY", -1);
    plan.waves = from_environment("BATON_STREAM_WAVES", 1);
    const int first = from_environment("BATON_STREAM_SEED", 1);
    const int rounds = from_environment("BATON_STREAM_ROUNDS", 2);
    for (int seed = first; seed < first + rounds; ++seed) {
        plan.seed = static_cast<std::uint64_t>(seed);
        StreamTester tester(shared_cluster(Form::extension).quiet_database(), plan);
        tester.run();
        std::cout << "seed " << seed << ": " << tester.differential() << " differential, " << tester.full()
                  << " full, " << tester.rejected() << " passed over, " << tester.refreshes() << " refreshes"
                  << std::endl;
        if (!tester.faults().empty()) ADD_FAILURE() << tester.report();
    }
}

TEST(StreamRandom, a_wrong_rule_of_each_operator_is_noticed) {
    StreamPlan plan;
    plan.queries = from_environment("BATON_STREAM_QUERIES", 60);
    plan.seed = static_cast<std::uint64_t>(from_environment("BATON_STREAM_SEED", 1));
    plan.mutations = wrong_rules;
    std::map<std::string, std::pair<int, int>> counts;
    // Whether a wrong rule shows is up to the changes that a refresh happens to see, so there are some tries.
    const auto all_noticed = [&] {
        return counts.size() == wrong_rules.size() &&
               std::all_of(counts.begin(), counts.end(),
                           [](const auto& count) { return count.second.second > 0; });
    };
    for (int tries = 0; tries < 12 && !all_noticed(); ++tries, ++plan.seed) {
        StreamTester tester(shared_cluster(Form::extension).quiet_database(), plan);
        tester.run();
        for (const auto& [name, count] : tester.mutants()) {
            counts[name].first += count.first;
            counts[name].second += count.second;
        }
    }
    for (const auto& [name, count] : counts) {
        std::cout << name << ": noticed in " << count.second << " of " << count.first << std::endl;
        EXPECT_GT(count.second, 0) << name;
    }
}
