// Random queries as stream tables, kept up to date among random transactions. And the proof that this would
// notice: a wrong rule of each operator.
//
// A seed gives the same tables, queries and statements again: BATON_STREAM_SEED runs one, BATON_STREAM_ONLY
// only one of its queries, BATON_STREAM_ROUNDS more seeds, BATON_STREAM_QUERIES more queries over the same
// tables, BATON_STREAM_WAVES more changes.

#include <gtest/gtest.h>

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
     "replace(delta, ' * q.baton_weight)', ' * abs(q.baton_weight))')"},
    {"carried extremes: the one that went is still there",
     R"(regexp_replace(delta, '\(s\.out(\d+) is null or coalesce\(', '(true or coalesce(', 'g'))"},
    {"carried groups: none is ever gone", "replace(delta, 's.rows >= 0', 'true')"},
    {"of each row: what was is not taken out",
     R"(regexp_replace(delta, '-a\.weight_before( as baton_weight)? from', '0 as baton_weight from', 'g'))"},
    {"of each row: its partners were what they are",
     R"(regexp_replace(delta, '-b\.baton_weight from (domain_\d+)', '0 * b.baton_weight from \1', 'g'))"},
    {"of each row: rows that have not changed themselves are passed over",
     R"(regexp_replace(delta, '1 as now, 1 as before from (\w+) a where', '1 as now, 1 as before from \1 a where false and', 'g'))"},
    {"of each row: one result for all",
     R"(regexp_replace(delta, 'dense_rank\(\) over \([^)]+\)', 'dense_rank() over ()', 'g'))"},
    {"recursion: what was is not taken out",
     R"(regexp_replace(delta, '-1::bigint from (\(+\s*WITH)', '0::bigint from \1', 'g'))"},
    {"recursion: what was is what is", "replace(delta, '-r.baton_weight', '0 * r.baton_weight')"},
    {"time: rows that it has passed stay",
     R"(regexp_replace(delta, '-1::bigint from (now_\d+ a, now_\d+ t)', '0::bigint from \1', 'g'))"},
    {"time: rows that it has reached stay out",
     R"(regexp_replace(delta, '1::bigint as baton_weight from (now_\d+ a, now_\d+ t)', '0::bigint as baton_weight from \1', 'g'))"},
    {"projection: rows that go come",
     R"(regexp_replace(delta, 'a\.baton_weight from (change_\d+) a\)', 'abs(a.baton_weight) as baton_weight from \1 a)', 'g'))"},
    {"scan: late commits are passed over",
     "replace(delta, 'baton_internal.is_unseen(xid, step)', "
     "'xid >= (select pg_snapshot_xmax(s.frontier) from baton.stream_tables s where s.relation = "
     "'':table''::regclass)')"}};

}  // namespace

TEST(StreamRandom, stream_tables_and_their_outboxes_hold_what_their_queries_give_after_whatever_happened) {
    StreamPlan plan;
    plan.queries = from_environment("BATON_STREAM_QUERIES", 100);
    plan.only = from_environment("BATON_STREAM_ONLY", -1);
    plan.waves = from_environment("BATON_STREAM_WAVES", 1);
    const int first = from_environment("BATON_STREAM_SEED", 1);
    const int rounds = from_environment("BATON_STREAM_ROUNDS", 5);
    for (int seed = first; seed < first + rounds; ++seed) {
        plan.seed = static_cast<std::uint64_t>(seed);
        StreamTester tester(shared_cluster(Form::extension).quiet_database(), plan);
        tester.run();
        std::cout << "seed " << seed << ": " << tester.differential() << " differential, " << tester.full()
                  << " full, " << tester.rejected() << " passed over, " << tester.refreshes()
                  << " refreshes, " << tester.slow() << " given up" << std::endl;
        if (!tester.faults().empty()) ADD_FAILURE() << tester.report();
    }
}

TEST(StreamRandom, a_wrong_rule_of_each_operator_is_noticed) {
    StreamPlan plan;
    plan.queries = from_environment("BATON_STREAM_QUERIES", 60);
    plan.seed = static_cast<std::uint64_t>(from_environment("BATON_STREAM_SEED", 1));
    plan.mutations = wrong_rules;
    // Whether a wrong rule shows is up to the changes that a refresh happens to see, so there are some tries,
    // with those rules that were not noticed yet.
    for (int tries = 0; tries < 20 && !plan.mutations.empty(); ++tries, ++plan.seed) {
        StreamTester tester(shared_cluster(Form::extension).quiet_database(), plan);
        tester.run();
        const auto counts = tester.mutants();
        std::erase_if(plan.mutations, [&](const StreamMutation& mutation) {
            const auto& [made, noticed] = counts.at(mutation.name);
            if (noticed > 0)
                std::cout << mutation.name << ": noticed in " << noticed << " of " << made << ", try "
                          << tries + 1 << std::endl;
            return noticed > 0;
        });
    }
    for (const auto& mutation : plan.mutations) ADD_FAILURE() << mutation.name << " was not noticed";
}
