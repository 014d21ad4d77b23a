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
        "update baton.jobs set enabled = false; select baton.create_outbox('events'); "
        "select baton.create_consumer_group('g', 'events', 'earliest'); insert into events (event_type, "
        "partition_key) select 'e', i::text from generate_series(1, 50) i");
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

// The same, of several the smallest: in some the server looks something up anew.
long usual_pages_of_a_cycle(Connection& db) {
    long least = pages_of_a_cycle(db);
    for (int i = 0; i < 4; ++i) least = std::min(least, pages_of_a_cycle(db));
    return least;
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

// What a relay asks for the next window of a group that it has taken.
std::string open_by_statement(const postgres::Result& taken) {
    std::string statement = "execute open(" + taken.text(0, taken.column("group_id")) + ", 99";
    for (const char* name : {"era", "seen", "fresh_id", "fresh_xid", "late_id"}) {
        const auto value = taken.optional_text(0, taken.column(name));
        statement += value ? ", '" + *value + "'" : ", null";
    }
    return statement + ")";
}

// The same with its values in place.
std::string open_statement(const postgres::Result& taken) {
    std::string statement = taken.text(0, taken.column("open_sql"));
    int place = 1;
    const auto put = [&](const std::string& value) {
        const std::string name = "$" + std::to_string(place++);
        for (std::size_t at = 0; (at = statement.find(name, at)) != std::string::npos; at += value.size())
            statement.replace(at, name.size(), value);
    };
    put(taken.text(0, taken.column("group_id")));
    put("99");
    for (const std::string name :
         {"era int", "seen pg_snapshot", "fresh_id bigint", "fresh_xid xid8", "late_id bigint"}) {
        const auto space = name.find(' ');
        put("'" + taken.text(0, taken.column(name.substr(0, space))) + "'::" + name.substr(space + 1));
    }
    return statement;
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
    const long before = usual_pages_of_a_cycle(db);
    cycles(1600);
    EXPECT_LT(usual_pages_of_a_cycle(db), before + 20);
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
        EXPECT_LT(pages_of(db, open_by_statement(taken)), 100) << mode;
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

TEST_P(OutboxCost, a_window_opens_without_reading_the_backlog) {
    const auto url = make_database(GetParam());
    Connection db(url);
    settle_all(db);
    pages_of_a_cycle(db);  // takes a floor
    const auto taken = db.query("select * from baton_internal.take_group('g', 'a relay', '1 min')");
    const auto text = [&taken](const char* name) { return taken.text(0, taken.column(name)); };
    db.exec("prepare open as " + text("open_sql"));
    db.exec("select baton_internal.release_group(" + text("group_id") + ", " + text("epoch") + ")");
    const auto grow = [&](int events) {
        db.exec("insert into events (event_type) select 'e' from generate_series(1, " +
                std::to_string(events) + ")");
        db.exec(
            "do $$ begin for i in 1..200 loop insert into events (event_type) values ('e'); commit; end "
            "loop; "
            "end $$");
        db.exec("analyze events");
        pages_of(db, open_by_statement(taken));  // fills the caches
        return pages_of(db, open_by_statement(taken));
    };
    const long before = grow(5000);
    EXPECT_LT(before, 150) << "by the statement of a relay";
    EXPECT_LT(grow(50000), before + 20) << "ten times the backlog";
    db.exec("begin");
    EXPECT_LT(pages_of(db, "select * from baton.poll_outbox('g', 'c', 10)"), 500);
    EXPECT_EQ(db.value("select max(upto_id) - min(after_id) from baton_internal.pieces"), "10");
    db.exec("rollback");
    while (db.value("select count(*) from baton.poll_outbox('g', 'c', 5000)") != "0") settle_held(db);
    EXPECT_LT(pages_of_a_cycle(db), 500) << "when the backlog is worked off, nobody reads it again";
}

TEST_P(OutboxCost, an_empty_poll_costs_the_same_with_many_partitions) {
    const auto url = make_database(GetParam());
    Connection db(url);
    Connection elsewhere(url);
    db.exec("create table unrelated (n int)");
    const auto work_the_next_partition = [&] {
        db.exec(
            "select baton_internal.add_partition(o) from baton.outboxes o; select setval("
            "'events_id_seq', (last_value / 1000000000 + 1) * 1000000000) from events_id_seq; "
            "insert into events (event_type) values ('e')");
        elsewhere.exec("begin; insert into unrelated values (1)");  // runs while the window is opened
        settle_all(db);
        elsewhere.exec("commit");
    };
    const auto empty_poll = [&] { return pages_of(db, "select * from baton.poll_outbox('g', 'c')"); };
    for (int i = 0; i < 4; ++i) work_the_next_partition();
    empty_poll();  // fills the caches
    const long before = empty_poll();
    for (int i = 0; i < 30; ++i) work_the_next_partition();
    empty_poll();
    EXPECT_LT(empty_poll(), before + 20);
}

TEST_P(OutboxCost, an_empty_poll_costs_the_same_with_many_groups_and_strays) {
    const auto url = make_database(GetParam());
    Connection db(url);
    settle_all(db);
    const auto empty_poll = [&] {
        db.exec("select pg_current_xact_id()");  // so that there is something to look for
        return pages_of(db, "select * from baton.poll_outbox('g', 'c')");
    };
    empty_poll();
    const long before = empty_poll();
    db.exec(
        "select baton.create_consumer_group('g' || i, 'events') from generate_series(1, 50) i; insert into "
        "baton_internal.stray_events select 1, '10', i from generate_series(1, 5000) i");
    db.exec("analyze");
    empty_poll();
    EXPECT_LT(empty_poll(), before + 20);
}

TEST_P(OutboxCost, a_relay_finds_an_event_whose_id_is_below_its_floor) {
    const auto url = make_database(GetParam());
    Connection db(url);
    db.exec("begin; insert into events (event_type) select 'e' from generate_series(1, 200); rollback");
    for (int i = 0; i < 3; ++i) {
        settle_all(db);
        db.exec("insert into events (event_type) values ('e')");
    }
    settle_all(db);
    const auto taken = db.query("select * from baton_internal.take_group('g', 'a relay', '1 min')");
    EXPECT_GE(taken.number(0, taken.column("fresh_id")), 250);
    db.exec("insert into events (id, event_type) overriding system value values (77, 'e')");
    const auto opened = db.query("select (o.opened).start_id, (o.opened).first_id, o.unsure from (" +
                                 open_statement(taken) + ") o");
    EXPECT_EQ(opened.text(0, 0), "77");
    EXPECT_EQ(opened.text(0, 1), "77");
    EXPECT_EQ(opened.text(0, 2), "f");
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
