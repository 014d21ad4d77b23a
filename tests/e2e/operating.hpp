#pragma once
// A database with a bit of everything, and an operator's commands against it.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operations/catalog.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace baton::test {

using operations::Json;

inline bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

// Two groups, one with dead letters; an ordered inbox with a gap; a stream table; a pipeline.
inline void furnish(const std::string& url) {
    postgres::Connection db(url);
    db.exec(R"sql(
        select baton.create_outbox('orders'), baton.create_outbox('raw', payload_type => 'bytea');
        select baton.create_inbox('payments');
        select baton.enable_inbox_ordering('payments', sequence_num_col => 'sequence_num');
        select baton.create_consumer_group('billing', 'orders', 'earliest', max_attempts => 1), baton.create_consumer_group('search', 'orders', 'earliest');
        select baton.publish('orders', 'order.created', jsonb_build_object('n', n, 'exact', 12345678901234567890123), aggregate_type => 'order', aggregate_id => n % 3) from generate_series(1, 9) n;
        select baton.publish('raw', 'bytes', '\x00ff'::bytea))sql");
    db.exec(R"sql(
        select baton.fail_events('billing', 'c1', array_agg(id), E'card \x1b[31mdeclined', lease_token => (array_agg(lease_token))[1]) from baton.poll_outbox('billing', 'c1', 3);
        select baton.receive('payments', 'p' || n, 'paid', '{"n": 1}', aggregate_id => 'a', sequence_num => n) from unnest('{1,2,4}'::int[]) n;
        select baton.fail_inbox('payments', '{p1}'::text[], 'no account', permanent => true);
        create table sales (product int, amount int);
        select baton.create_stream_table('totals', 'select product, sum(amount) as amount from sales group by product', refresh_mode => 'FULL');
        select baton.set_pipeline('to-file', '{"source": {"outbox": "orders"}, "sink": {"type": "file", "path": "/nowhere/x.jsonl"}}');
    )sql");
}

inline std::vector<std::string> keys_of(const Json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, _] : object.items()) keys.push_back(key);
    return keys;
}

struct Operating : ::testing::TestWithParam<Form> {
    Operating() : url(shared_cluster(GetParam()).quiet_database()) { furnish(url); }

    Ran run(std::vector<std::string> words) const { return run_baton(words, {{"BATON_DB", url}}); }
    // The same with this text on stdin.
    Ran run_with_input(const std::string& text, const std::vector<std::string>& words) const {
        std::vector<std::string> argv{"sh", "-c", R"(printf '%s' "$INPUT" | "$0" "$@")", program_file()};
        argv.insert(argv.end(), words.begin(), words.end());
        return run_separately({.argv = argv, .environment = {{"BATON_DB", url}, {"INPUT", text}}});
    }
    Json json(std::vector<std::string> words) const {
        words.push_back("--json");
        const auto ran = run(words);
        EXPECT_EQ(ran.exit_code, 0) << ran.errors;
        return Json::parse(ran.output);
    }
    std::string value(const std::string& sql) const { return postgres::Connection(url).value(sql); }

    std::string url;
};

}  // namespace baton::test
