// What readers may not cost: an idle poll leaves no trace, and nobody who publishes waits for somebody who
// reads.

#include <gtest/gtest.h>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class OutboxCost : public testing::TestWithParam<Form> {};

std::string make_database(Form form) {
    const auto url = shared_cluster(form).quiet_database();
    Connection(url).exec(
        "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
        "'earliest'); insert into events (event_type, "
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

// Publish into so many further partitions, one after another, and settle what is there.
void work_further_partitions(Connection& db, const std::string& url, int partitions) {
    Connection elsewhere(url);
    for (int i = 0; i < partitions; ++i) {
        db.exec(
            "select baton_internal.add_partition(o) from baton.outboxes o; select setval("
            "'events_id_seq', (last_value / 1000000000 + 1) * 1000000000) from events_id_seq; "
            "insert into events (event_type) values ('e')");
        elsewhere.exec("begin; select pg_current_xact_id()");  // runs while the window is opened
        settle_all(db);
        elsewhere.exec("commit");
    }
}

// What a group that a relay has taken knows of its place, as arguments of what opens its next window.
std::string place_of(const postgres::Result& taken) {
    std::string place = "(" + taken.text(0, taken.column("group_id")) + ", 99";
    for (const char* name : {"era", "seen", "fresh_id", "fresh_xid", "late_id"}) {
        const auto value = taken.optional_text(0, taken.column(name));
        place += value ? ", '" + *value + "'" : ", null";
    }
    return place + ")";
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
    long least = 10'000;
    for (int i = 0; i < 5; ++i) {  // in some the server looks something up anew
        db.exec("begin");
        least = std::min(least, pages_of(db, "select * from baton.poll_outbox('g', 'c')"));
        db.exec("rollback");
    }
    EXPECT_LT(least, 300);
    db.exec("select * from baton.poll_outbox('g', 'c')");
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
        EXPECT_LT(pages_of(db, "execute open" + place_of(taken)), 100) << mode;
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
        pages_of(db, "execute open" + place_of(taken));  // fills the caches
        return pages_of(db, "execute open" + place_of(taken));
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
    const auto empty_poll = [&] { return pages_of(db, "select * from baton.poll_outbox('g', 'c')"); };
    work_further_partitions(db, url, 4);
    empty_poll();  // fills the caches
    const long before = empty_poll();
    work_further_partitions(db, url, 30);
    empty_poll();
    EXPECT_LT(empty_poll(), before + 20);
}

TEST_P(OutboxCost, a_relay_opens_a_window_at_the_same_cost_with_many_partitions) {
    const auto url = make_database(GetParam());
    Connection db(url);
    const auto open_window = [&] {
        settle_all(db);
        const auto taken = db.query("select * from baton_internal.take_group('g', 'a relay', '1 min')");
        db.exec("select baton_internal.release_group(" + taken.text(0, taken.column("group_id")) + ", " +
                taken.text(0, taken.column("epoch")) + ")");
        db.exec("prepare open as " + taken.text(0, taken.column("open_sql")));
        db.exec("insert into events (event_type) values ('e')");
        const auto pages = pages_of(db, "execute open" + place_of(taken));
        EXPECT_EQ(db.query("execute open" + place_of(taken)).text(0, 2), "f");
        db.exec("deallocate open");
        return pages;
    };
    work_further_partitions(db, url, 4);
    open_window();  // fills the caches
    const long before = open_window();
    work_further_partitions(db, url, 30);
    open_window();
    EXPECT_LT(open_window(), before + 20);
}

TEST_P(OutboxCost, an_empty_poll_at_the_end_costs_the_same_with_many_partitions) {
    const auto url = make_database(GetParam());
    Connection db(url);
    const auto empty_poll = [&](const std::string& group) {
        for (int i = 0; i < 2; ++i) {  // the first fills the caches
            db.exec("select pg_current_xact_id()");
            const long pages = pages_of(db, "select * from baton.poll_outbox('" + group + "', 'c')");
            if (i == 1) return pages;
        }
        return 0L;
    };
    // Other databases of the server have transactions of their own. With one that runs meanwhile, more is to
    // be looked for, until the first event comes.
    const auto is_undisturbed = [&](const std::string& group) {
        return db.value(
                   "select late_id > 0 from baton_internal.group_positions join baton.consumer_groups "
                   "using (group_id) where group_name = '" +
                   group + "'") == "t";
    };
    const auto begin_at_the_end = [&](const std::string& group) {
        db.exec("select baton.create_consumer_group('" + group + "', 'events', 'latest')");
        for (int i = 0; i < 100 && !is_undisturbed(group); ++i) {
            db.exec("select baton.drop_consumer_group('" + group + "')");
            db.exec("select baton.create_consumer_group('" + group + "', 'events', 'latest')");
        }
    };
    work_further_partitions(db, url, 4);
    begin_at_the_end("early");
    const long before = empty_poll("early");
    work_further_partitions(db, url, 30);
    begin_at_the_end("late");
    EXPECT_LT(empty_poll("late"), before + 20) << "a group that begins there";
    for (int i = 0; i == 0 || (i < 100 && !is_undisturbed("early")); ++i)
        db.exec("select baton.seek_offset('early', 'c', place => 'end')");
    EXPECT_LT(empty_poll("early"), before + 20) << "a group that was put there";
}

TEST_P(OutboxCost, a_tenants_poll_does_not_pass_over_what_others_published_before) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url);
    db.exec(
        "select baton.create_outbox('shared', tenancy => true); "
        "select baton.create_consumer_group('g', 'shared', 'earliest', tenant_id => 'a')");
    const auto poll_behind_others = [&](int rounds) {
        long pages = 0;
        for (int i = 0; i < rounds; ++i) {
            db.exec(
                "begin; select set_config('baton.tenant_id', 'b', true); insert into shared (event_type, "
                "tenant_id) select 'e', 'b' from generate_series(1, 1000); commit");
            pages = pages_of(db, "select * from baton.poll_outbox('g', 'c')");
        }
        return pages;
    };
    const long before = poll_behind_others(4);
    EXPECT_LT(poll_behind_others(30), before + 100);
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
    db.exec("prepare open as " + taken.text(0, taken.column("open_sql")));
    EXPECT_EQ(db.query("execute open" + place_of(taken)).text(0, 2), "f") << "where nothing is out of turn";
    db.exec("insert into events (id, event_type) overriding system value values (77, 'e')");
    EXPECT_EQ(db.query("execute open" + place_of(taken)).text(0, 2), "t") << "the statement is not sure";
    const auto opened =
        db.query("select (o.opened).start_id, (o.opened).first_id from baton_internal.open_group_window" +
                 place_of(taken) + " o");
    EXPECT_EQ(opened.text(0, 0), "77");
    EXPECT_EQ(opened.text(0, 1), "77");
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
