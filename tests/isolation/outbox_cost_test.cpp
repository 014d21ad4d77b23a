// What readers may not cost: an idle poll leaves no trace, and nobody who publishes waits for somebody who
// reads.

#include <gtest/gtest.h>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class OutboxCost : public testing::TestWithParam<Form> {};

std::string make_database(Form form) {
    const auto url = shared_cluster(form).fresh_database();
    Connection(url).exec(
        "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
        "'earliest'); "
        "insert into events (event_type, partition_key) select 'e', i::text from generate_series(1, 50) i");
    return url;
}

void settle_held(Connection& db) {
    db.exec(
        "select baton.commit_offset('g', 'c', max(upto_id), lease_token) from baton_internal.pieces "
        "group by lease_token");
}

void settle_all(Connection& db) {
    while (db.value("select count(*) from baton.poll_outbox('g', 'c')") != "0") settle_held(db);
}

// The pages that a statement touches.
long pages_of(Connection& db, const std::string& statement) {
    const auto plan = db.value("explain (analyze, buffers, timing off, format json) " + statement);
    long pages = 0;
    for (const std::string name : {"\"Shared Hit Blocks\": ", "\"Shared Read Blocks\": "})
        pages += std::stol(plan.substr(plan.find(name) + name.size()));
    return pages;
}

// The pages that it takes to poll one event and to settle it.
long pages_of_a_cycle(Connection& db) {
    db.exec("insert into events (event_type, partition_key) values ('e', 'k')");
    const long poll = pages_of(db, "select * from baton.poll_outbox('g', 'c')");
    const auto id = db.value("select max(upto_id) from baton_internal.pieces");
    return poll + pages_of(db, "select baton.commit_offset('g', 'c', " + id + ")");
}

// Leave a log that was loaded in one go and settled, all but one event near its end: that of a transaction in
// `late` which has not committed. Returns its xid.
std::string load_and_settle(Connection& db, Connection& late) {
    db.exec("insert into events (event_type) select 'e' from generate_series(1, 30000)");
    late.exec("begin; insert into events (event_type) values ('late')");
    db.exec("insert into events (event_type) select 'e' from generate_series(1, 10)");
    while (db.value("select count(*) from baton.poll_outbox('g', 'c', 10000)") != "0")
        db.exec("select baton.commit_offset('g', 'c', max(upto_id)) from baton_internal.pieces");
    db.exec("analyze events");
    pages_of_a_cycle(db);  // fills the caches
    return late.value("select pg_current_xact_id()");
}

}  // namespace

TEST_P(OutboxCost, polls_stay_cheap_while_a_long_transaction_keeps_old_row_versions_alive) {
    const auto url = make_database(GetParam());
    Connection db(url);
    Connection open(url);
    settle_all(db);
    open.exec("begin; insert into events (event_type) values ('held open')");
    const auto cycles = [&db](int count) {
        db.exec("do $$ begin for i in 1.." + std::to_string(count) + R"( loop
                insert into events (event_type) values ('e');
                commit;
                perform from baton.poll_outbox('g', 'c');
                commit;
                perform baton.commit_offset('g', 'c', max(upto_id)) from baton_internal.pieces;
                commit;
            end loop; end $$)");
    };
    cycles(800);  // by now the indexes have the height that they keep
    pages_of_a_cycle(db);
    const long before = pages_of_a_cycle(db);
    cycles(1600);
    pages_of_a_cycle(db);
    EXPECT_LT(pages_of_a_cycle(db), before + 20);
    open.exec("rollback");
}

TEST_P(OutboxCost, an_event_that_commits_late_is_found_without_reading_the_log) {
    const auto url = make_database(GetParam());
    Connection db(url);
    Connection late(url);
    load_and_settle(db, late);
    late.exec("commit");
    EXPECT_LT(pages_of(db, "select * from baton.poll_outbox('g', 'c')"), 300);
    EXPECT_EQ(db.value("select count(*) from baton_internal.pieces"), "1");
}

TEST_P(OutboxCost, the_statements_of_a_relay_find_a_late_event_without_reading_the_log) {
    const auto url = make_database(GetParam());
    Connection db(url);
    Connection late(url);
    const auto xid = load_and_settle(db, late);
    const auto taken = db.query("select * from baton_internal.take_group('g', 'a relay', '1 min')");
    const auto text = [&taken](const char* name) { return taken.text(0, taken.column(name)); };
    late.exec("commit");
    db.exec("prepare open as " + text("open_sql"));
    db.exec("prepare late as " + text("late_sql"));
    for (const std::string mode : {"force_custom_plan", "force_generic_plan"}) {
        db.exec("set plan_cache_mode = " + mode);
        EXPECT_LT(pages_of(db, "execute open(" + text("group_id") + ", 99, " + text("era") + ", '" +
                                   text("seen") + "')"),
                  100)
            << mode;
        EXPECT_LT(pages_of(db, "execute late('{" + xid + "}', 0, 9223372036854775807, 1000)"), 20) << mode;
    }
    EXPECT_EQ(db.query("execute late('{" + xid + "}', 0, 9223372036854775807, 1000)").rows(), 1);
}

TEST_P(OutboxCost, an_empty_poll_and_a_commit_do_not_read_what_is_parked_for_later_or_leased) {
    const auto url = make_database(GetParam());
    Connection db(url);
    settle_all(db);
    const auto empty_poll = [&db] { return pages_of(db, "select * from baton.poll_outbox('g', 'c')"); };
    db.exec(
        "insert into events (event_type, available_at) select 'later', now() + interval '1 day' from "
        "generate_series(1, 20000)");
    while (db.value("select count(*) from baton_internal.parked") != "20000")
        db.exec("select count(*) from baton.poll_outbox('g', 'c', 5000)");
    db.exec("analyze baton_internal.parked");
    empty_poll();  // fills the caches
    EXPECT_LT(empty_poll(), 100) << "with events for later";
    db.exec("update baton_internal.parked set due_at = now() - interval '1 day'");
    EXPECT_EQ(db.value("select count(*) from baton.poll_outbox('g', 'other', 20000)"), "20000");
    db.exec("vacuum analyze baton_internal.parked");
    empty_poll();
    EXPECT_LT(empty_poll(), 100) << "with events in the hands of another";
    pages_of_a_cycle(db);
    EXPECT_LT(pages_of_a_cycle(db), 400);
}

TEST_P(OutboxCost, a_retry_that_its_line_holds_back_is_no_work) {
    const auto url = shared_cluster(GetParam()).fresh_database();
    Connection db(url);
    db.exec(
        "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', 'earliest', "
        "retry_base => '1 ms', retry_limit => '1 ms'); "
        "insert into events (event_type, partition_key) values ('e', 'k'), ('e', 'k')");
    EXPECT_EQ(db.value("select count(*) from baton.poll_outbox('g', 'c')"), "2");
    db.exec("select baton.fail_events('g', 'c', '{2}', 'not now')");
    db.exec("update baton_internal.parked set due_at = now() - interval '1 second'");
    db.exec("begin read only");  // who took the lock would fail
    EXPECT_EQ(db.value("select count(*) from baton.poll_outbox('g', 'c')"), "0");
    db.exec("commit");
    db.exec("select baton.commit_offset('g', 'c', 1)");
    EXPECT_EQ(db.value("select count(*) from baton.poll_outbox('g', 'c')"), "1")
        << "when the line is free it is";
}

TEST_P(OutboxCost, dead_letters_do_not_slow_down_the_rest) {
    const auto url = make_database(GetParam());
    Connection db(url);
    settle_all(db);
    const auto pages_of_a_hundred = [&db] {
        db.exec(
            "insert into events (event_type, partition_key) select 'e', i::text from generate_series(1, 100) "
            "i");
        const long pages = pages_of(db, "select * from baton.poll_outbox('g', 'c')");
        settle_held(db);
        return pages;
    };
    pages_of_a_hundred();
    const long before = pages_of_a_hundred();
    db.exec(
        "insert into events (event_type, partition_key) select 'poison', (i % 100)::text from "
        "generate_series(1, 500) i");
    db.exec(
        "select baton.fail_events('g', 'c', array_agg(p.id), 'never', true) from "
        "baton.poll_outbox('g', 'c', 500) p");
    db.exec("analyze baton_internal.parked");
    pages_of_a_hundred();
    EXPECT_LT(pages_of_a_hundred(), before + 30);
    EXPECT_EQ(db.value("select count(*) from baton.dead_letters"), "500");
}

TEST_P(OutboxCost, a_poll_with_an_old_snapshot_cannot_lease_what_another_has_leased_since) {
    const auto url = make_database(GetParam());
    Connection old(url);
    Connection db(url);
    old.exec("begin isolation level repeatable read; select count(*) from events");
    settle_all(db);
    try {
        EXPECT_EQ(old.value("select count(*) from baton.poll_outbox('g', 'd')"), "0");
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "40001");
    }
    old.exec("rollback");
}

TEST_P(OutboxCost, an_idle_poll_draws_no_transaction_id_and_writes_nothing) {
    const auto url = make_database(GetParam());
    Connection db(url);
    settle_all(db);
    db.exec("begin");
    for (int i = 0; i < 20; ++i) EXPECT_EQ(db.value("select count(*) from baton.poll_outbox('g', 'c')"), "0");
    EXPECT_EQ(db.value("select coalesce(pg_current_xact_id_if_assigned()::text, 'none')"), "none");
    db.exec("commit");
    db.exec("begin read only");
    EXPECT_EQ(db.value("select count(*) from baton.poll_outbox('g', 'c')"), "0")
        << "even a read-only transaction may look";
    db.exec("commit");
}

TEST_P(OutboxCost, a_poll_that_is_not_committed_yet_makes_no_writer_wait) {
    const auto url = make_database(GetParam());
    Connection reader(url);
    Connection open_writer(url);
    Connection writer(url);
    open_writer.exec("begin; insert into events (event_type) values ('slow')");
    reader.exec("begin");
    EXPECT_NE(reader.value("select count(*) from baton.poll_outbox('g', 'c')"), "0");
    writer.exec("set lock_timeout = '1ms'");  // any wait at all would be an error
    for (int i = 0; i < 50; ++i)
        writer.exec("insert into events (event_type, partition_key) values ('quick', 'k')");
    reader.exec("commit");
    open_writer.exec("commit");
    settle_all(reader);
    EXPECT_EQ(reader.value("select lag_rows from baton.consumer_lag('g') limit 1"), "0");
}

TEST_P(OutboxCost, a_long_transaction_delays_its_own_events_and_nobody_elses) {
    const auto url = make_database(GetParam());
    Connection db(url);
    Connection long_writer(url);
    long_writer.exec("begin; insert into events (event_type, partition_key) values ('long', 'l')");
    for (int i = 0; i < 5; ++i) {
        db.exec("insert into events (event_type, partition_key) values ('short', 's')");
        settle_all(db);
        EXPECT_EQ(db.value("select max(last_offset) from baton_internal.consumers"),
                  db.value("select max(id) from events"));
    }
    long_writer.exec("commit");
    EXPECT_EQ(db.value("select string_agg(event_type, ',') from baton.poll_outbox('g', 'c')"), "long");
}

TEST_P(OutboxCost, an_event_that_is_not_on_disk_yet_is_not_handed_out) {
    const auto url = make_database(GetParam());
    Connection db(url);
    settle_all(db);
    db.exec("set synchronous_commit = off");
    for (int i = 0; i < 20; ++i) {
        db.exec("insert into events (event_type) values ('async')");
        const auto commit_position = db.value("select pg_current_wal_insert_lsn()");
        EXPECT_EQ(db.value("select count(*) from baton.poll_outbox('g', 'c')"), "1");
        EXPECT_EQ(db.value("select pg_current_wal_flush_lsn() >= $1::pg_lsn", {commit_position}), "t");
        db.exec("select baton.commit_offset('g', 'c', max(upto_id)) from baton_internal.pieces");
    }
}

INSTANTIATE_TEST_SUITE_P(Forms, OutboxCost, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
