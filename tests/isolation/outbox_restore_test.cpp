// A dump restored into another cluster, and a promoted standby, go on without loss or skip.

#include <gtest/gtest.h>

#include <future>
#include <sstream>

#include "isolation/outbox_workload.hpp"
#include "support/restores.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class OutboxRestore : public testing::TestWithParam<Form> {};

// While the rows are there and the primary key is not, somebody maintains and polls the log.
void expect_nobody_reads_yet(const std::string& url) {
    Connection db(url);
    db.exec("call baton.run_maintenance()");
    try {
        db.exec("select baton.poll_outbox('done', 'too early')");
        ADD_FAILURE() << "a log that is being restored was polled";
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "55000");
    }
}

// Dump a database with two settled events into a new database of another cluster. Nobody adds a partition
// between two sections of the dump.
std::string restored_database(Cluster& old_cluster, Cluster& new_cluster) {
    const auto from = old_cluster.quiet_database();
    {
        Connection db(from);
        burn_transaction_ids(db, 10'000);  // the old cluster is far ahead of the new one
        db.exec(
            "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
            "'earliest'); insert into events (event_type) values ('a'), ('b')");
        EXPECT_EQ(GroupReader(db, "g").drain(), "1,2");
    }
    const auto to = new_cluster.database_for_restore();
    dump_and_restore(from, to);
    return to;
}

std::string ids(Connection& db, const std::string& group) {
    return db.value(
        "select coalesce(string_agg(id::text, ',' order by n), '') from baton.poll_outbox($1, 'c', 1000) "
        "with ordinality as p "
        "(id, event_id, tenant_id, aggregate_type, aggregate_id, event_type, schema_version, topic, "
        "partition_key, payload, headers, trace_id, "
        "correlation_id, causation_id, idempotency_key, occurred_at, payload_bytes, attempt, lease_token, n)",
        {group});
}

void commit_all(Connection& db, const std::string& group) {
    db.query(
        "select baton.commit_offset($1, 'c', max(upto_id)) from baton_internal.pieces join "
        "baton.consumer_groups "
        "using (group_id) where group_name = $1",
        {group});
}

}  // namespace

TEST_P(OutboxRestore, a_dump_restored_into_a_new_cluster_goes_on_where_each_group_was) {
    Cluster& old_cluster = shared_cluster(GetParam());
    Cluster new_cluster(GetParam());
    const auto from = old_cluster.fresh_database();
    {
        Connection db(from);
        db.exec("select baton.create_outbox('events')");
        for (int i = 0; i < 200; ++i)
            db.exec("select pg_current_xact_id()");  // the old cluster is far ahead of the new one
        db.exec(
            "select baton.create_consumer_group('done', 'events', 'earliest'), "
            "baton.create_consumer_group('half', 'events', 'earliest'), "
            "baton.create_consumer_group('fresh', 'events', 'earliest'), "
            "baton.create_consumer_group('leased', 'events', 'earliest'), "
            "baton.create_consumer_group('failed', 'events', 'earliest')");
        Connection late(from);
        late.exec(
            "begin; insert into events (event_type, partition_key) values ('late', 'l')");  // id 1, committed
                                                                                            // after others
                                                                                            // were read
        for (int i = 2; i <= 10; ++i)
            db.exec("insert into events (event_type, partition_key) values ('e', 'k" + std::to_string(i) +
                    "')");
        EXPECT_EQ(ids(db, "done"), "2,3,4,5,6,7,8,9,10");
        commit_all(db, "done");
        EXPECT_EQ(db.value("select count(*) from baton.poll_outbox('half', 'c', 4)"), "4");
        db.exec("select baton.commit_offset('half', 'c', 5)");
        EXPECT_EQ(db.value("select count(*) from baton.poll_outbox('leased', 'c', 3)"), "3");
        ids(db, "failed");
        db.exec("select baton.fail_events('failed', 'c', '{4}', 'boom')");
        commit_all(db, "failed");
        late.exec("commit");
        db.exec("insert into events (event_type, partition_key) values ('e', 'k11')");
    }
    const auto to = new_cluster.database_for_restore();
    dump_and_restore(from, to, {.between = [&](const std::string& section) {
                         if (section == "data") expect_nobody_reads_yet(to);
                     }});
    {
        Connection publisher(to);  // publishes before anybody polls: these are of the new cluster
        publisher.exec(
            "insert into events (event_type, partition_key) values ('new', 'n12'); insert into events "
            "(event_type, partition_key) values ('new', 'n13')");
    }
    Connection db(to);
    EXPECT_EQ(ids(db, "done"), "1,11,12,13");
    EXPECT_EQ(ids(db, "fresh"), "1,2,3,4,5,6,7,8,9,10,11,12,13");
    std::string half = ids(db, "half");
    commit_all(db, "half");
    for (std::string more = ids(db, "half"); !more.empty(); more = ids(db, "half"))
        half += "," + more, commit_all(db, "half");
    EXPECT_EQ(half, "6,7,8,9,10,1,11,12,13");
    db.exec(
        "update baton_internal.pieces set leased_until = now() - interval '1 second'; update "
        "baton_internal.parked set due_at "
        "= now() - interval '1 second'");
    std::string failed = ids(db, "failed");
    EXPECT_EQ(failed, "4,1,11,12,13");
    std::set<std::string> leased;
    db.exec("update baton_internal.pieces set leased_until = now() - interval '1 second'");
    for (std::string got = ids(db, "leased"); !got.empty(); got = ids(db, "leased")) {
        std::istringstream list(got);
        for (std::string id; std::getline(list, id, ',');) leased.insert(id);
        commit_all(db, "leased");
    }
    EXPECT_EQ(leased.size(), 13u);
    db.exec("select baton.seek_offset('done', 'c', place => 'beginning')");
    std::set<std::string> again;
    for (std::string got = ids(db, "done"); !got.empty(); got = ids(db, "done")) {
        std::istringstream list(got);
        for (std::string id; std::getline(list, id, ',');) again.insert(id);
        commit_all(db, "done");
    }
    EXPECT_EQ(again.size(), 13u) << "the restored part can be read from its beginning";
}

TEST_P(OutboxRestore, a_session_whose_first_events_were_rolled_back_publishes_into_the_new_era) {
    Cluster new_cluster(GetParam());
    const auto to = restored_database(shared_cluster(GetParam()), new_cluster);
    Connection publisher(to);
    const std::string insert = "insert into events (event_type) values ('e');";
    publisher.exec("begin;" + insert + insert + "rollback");
    publisher.exec("begin; savepoint s;" + insert + insert + "rollback to s; commit");
    publisher.exec("begin;" + insert + insert + "prepare transaction 'p'");
    publisher.exec("rollback prepared 'p'");
    publisher.exec(insert);
    const auto expected = publisher.value("select max(id) from events");
    Connection db(to);
    EXPECT_EQ(GroupReader(db, "g").drain(), expected);
}

// A script that restores may leave the session so that triggers of others do not fire.
TEST_P(OutboxRestore, what_is_published_as_a_replica_or_into_a_partition_right_after_a_restore_is_delivered) {
    Cluster new_cluster(GetParam());
    const std::string partition =
        "insert into events_p1 (id, event_type) values (nextval(pg_get_serial_sequence('events', 'id')), "
        "'e')";
    for (const std::string& insert :
         {std::string("insert into events (event_type) values ('e')"), partition}) {
        SCOPED_TRACE(insert);
        const auto to = restored_database(shared_cluster(GetParam()), new_cluster);
        Connection publisher(new_cluster.server().url(to.substr(to.find("dbname=") + 7)));
        publisher.exec("set session_replication_role = replica");
        publisher.exec(insert);
        Connection db(to);
        EXPECT_EQ(GroupReader(db, "g").drain(), "3");
    }
}

TEST_P(OutboxRestore, a_window_that_was_open_is_read_on_where_the_log_is_shorter) {
    Cluster old_cluster(GetParam());
    const auto from = old_cluster.fresh_database();
    {
        Connection db(from);
        db.exec(
            "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
            "'earliest'); insert into events (event_type) select 'e' from generate_series(1, 5)");
        Connection admin(old_cluster.server().url());
        for (int i = 0; i < 20; ++i)
            admin.exec("select pg_logical_emit_message(true, 'long', ''), pg_switch_wal()");
        EXPECT_EQ(GroupReader(db, "g").poll(2), "1,2");
    }
    Cluster new_cluster(GetParam());
    const auto to = new_cluster.database_for_restore();
    dump_and_restore(from, to);
    Connection db(to);
    EXPECT_EQ(
        db.value("select bool_and(flushed_at > pg_current_wal_insert_lsn()) from baton_internal.windows"),
        "t");
    GroupReader reader(db, "g");
    EXPECT_EQ(reader.drain(), "3,4,5");
    db.exec("update baton_internal.pieces set leased_until = now() - interval '1 second'");
    EXPECT_EQ(reader.drain(), "1,2");
}

TEST_P(OutboxRestore, a_restored_event_that_carries_the_id_of_the_first_transaction_here_stays_settled) {
    Cluster new_cluster(GetParam());
    const auto to = restored_database(shared_cluster(GetParam()), new_cluster);
    Connection publisher(to);
    const auto behind =
        publisher.value("select min(xid)::text::bigint - pg_current_xact_id()::text::bigint from events");
    burn_transaction_ids(publisher, std::stoi(behind) - 1);
    publisher.exec("insert into events (event_type) values ('e')");
    ASSERT_EQ(publisher.value("select count(distinct xid) from events"), "1") << "the ids did not meet";
    Connection db(to);
    EXPECT_EQ(GroupReader(db, "g").drain(), "3");
}

TEST_P(OutboxRestore, nobody_reads_or_writes_before_several_jobs_have_restored_everything) {
    Cluster& cluster = shared_cluster(GetParam());
    const auto from = cluster.fresh_database();
    {
        Connection db(from);
        db.exec(
            "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
            "'earliest'); insert into events (event_type) select 'e' from generate_series(1, 5)");
        GroupReader reader(db, "g");
        EXPECT_EQ(reader.poll(3), "1,2,3");
        db.exec("select baton.fail_events('g', 'reader', '{1}', 'boom')");
    }
    for (const std::string last : {"pieces", "parked", "windows", "group_positions", "outbox_eras"}) {
        SCOPED_TRACE(last);
        const auto to = cluster.database_for_restore();
        Connection db(to);
        Connection lock(to);
        db.exec("set statement_timeout = '60s'");  // whoever reads too early may wait for the lock, too
        std::future<void> early;
        const auto be_early = [&] {
            wait_until("a job waits and the log is restored", [&] {
                return db.value(
                           "select exists (select from pg_locks where not granted and relation = "
                           "$1::regclass) and "
                           "exists (select from pg_index where indrelid = 'events'::regclass and "
                           "indisprimary "
                           "and indisvalid) and exists (select from pg_trigger where tgrelid = "
                           "'events'::regclass and tgname = 'baton_doorbell')",
                           {"baton_internal." + last}) == "t";
            });
            for (const std::string statement :
                 {"select baton.poll_outbox('g', 'early')", "select baton_internal.take_group('g', 'early')",
                  "insert into events (event_type) values ('early')"}) {
                try {
                    db.exec(statement);
                    ADD_FAILURE() << "too early: " << statement;
                } catch (const SqlError& error) {
                    EXPECT_TRUE(error.sqlstate() == "55000" || error.sqlstate() == "42704") << error.what();
                }
            }
            lock.exec("commit");
        };
        dump_and_restore(from, to,
                         {.jobs = 3, .between = [&](const std::string& section) {
                              if (section != "pre-data") return;
                              lock.exec("begin; lock table baton_internal." + last + " in share mode");
                              early = std::async(std::launch::async, be_early);
                          }});
        early.get();
        db.exec("update baton_internal.pieces set leased_until = now() - interval '1 second'");
        db.exec("update baton_internal.parked set due_at = now() - interval '1 second'");
        db.exec("insert into events (event_type) values ('new')");
        std::set<std::string> got;
        std::istringstream list(GroupReader(db, "g").drain());
        for (std::string id; std::getline(list, id, ',');) got.insert(id);
        EXPECT_EQ(got,
                  (std::set<std::string>{"1", "2", "3", "4", "5", db.value("select max(id) from events")}));
        EXPECT_EQ(db.value("select count(*) filter (where tgenabled <> 'A') from pg_trigger where tgname = "
                           "'baton_origin'"),
                  "0");
    }
}

// The catalog's row of a table that is not in the dump cannot be loaded, and takes all rows of that table of
// the catalog along.
TEST_P(OutboxRestore, maintenance_goes_on_after_a_dump_without_what_was_archived) {
    Cluster& cluster = shared_cluster(GetParam());
    const auto from = cluster.quiet_database();
    const auto publish_and_read = [](Connection& db) {
        db.exec("insert into events (event_type) values ('e')");
        const auto id = db.value("select max(id) from events");
        EXPECT_EQ(GroupReader(db, "g").drain(), id);
        for (int i = 0; i < 3; ++i) db.exec("call baton.run_maintenance()");
        EXPECT_EQ(db.value("select maintenance_error from baton.outboxes"), "");
    };
    {
        Connection db(from);
        db.exec(
            "select baton.create_outbox('events', partition_interval => '1 microsecond', retention => '0', "
            "archive_for "
            "=> '1 day'); select baton.create_consumer_group('g', 'events', 'earliest')");
        for (int i = 0; i < 3; ++i) publish_and_read(db);
        ASSERT_EQ(
            db.value(
                "select string_agg(relation::text, ',') from (select relation from "
                "baton_internal.outbox_partitions where state = 'archived' order by first_id limit 1) a"),
            "events_p1");
    }
    for (const std::string without : {"events_p1", "events_archive"}) {
        SCOPED_TRACE(without);
        const auto to = cluster.database_for_restore();
        dump_and_restore(from, to, {.options = {"--exclude-table=" + without}, .go_on = true});
        Connection db(to);
        db.exec("update baton.jobs set enabled = false");
        const auto archived =
            "select count(*) from baton_internal.outbox_partitions where state = 'archived'";
        const auto before = std::stoi(db.value(archived));
        for (int i = 0; i < 3; ++i) publish_and_read(db);
        wait_until("everything has left the log", [&] {
            db.exec("call baton.run_maintenance()");
            return db.value("select count(*) from events") == "0";
        });
        EXPECT_GE(std::stoi(db.value(archived)), before + 2);
    }
}

TEST_P(OutboxRestore, a_promoted_standby_goes_on_without_loss) {
    Cluster primary(Cluster::Options{
        GetParam(), true, {"wal_level = replica", "max_wal_senders = 5", "hot_standby = on"}});
    const auto url = primary.fresh_database();
    Connection(url).exec(
        "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
        "'earliest')");
    Journal journal;
    Workload workload(url, "events");
    Cluster standby = primary.make_standby();
    workload.consume({.group = "g", .number = 1}, journal);
    workload.write(std::chrono::seconds(2));
    // half of it is read, then the primary dies
    workload.drain();
    const auto committed = workload.committed();
    wait_for_replay(primary, standby);
    primary.server().kill_hard();
    promote(standby);
    const auto database = url.substr(url.find("dbname=") + 7);
    Connection db(standby.server().url(database));
    db.exec(
        "insert into events (event_type, partition_key, payload) values ('after', 'x', '{\"number\": 0, "
        "\"version\": 1}')");
    EXPECT_EQ(db.value("select string_agg(event_type, ',') from baton.poll_outbox('g', 'after')"), "after")
        << "what was settled stays settled, what is new comes";
    const auto verdict = journal.compare(committed);
    EXPECT_EQ(verdict.lost, 0u) << verdict.examples;
}

TEST_P(OutboxRestore, jobs_of_users_come_with_the_dump_and_built_in_ones_with_the_installation) {
    Cluster& cluster = shared_cluster(GetParam());
    const auto from = cluster.fresh_database();
    const auto to = cluster.database_for_restore();
    Connection(from).exec(
        "create function public.tidy() returns void language sql as $$ select $$; "
        "insert into baton.jobs (name, routine, every) values ('tidy', 'public.tidy', '1 day')");
    dump_and_restore(from, to);
    Connection db(to);
    EXPECT_EQ(db.value("select string_agg(routine || ' ' || every, ',') from baton.jobs where not built_in"),
              "public.tidy 1 day");
    EXPECT_EQ(db.value("select count(*) from baton.jobs where built_in"),
              Connection(from).value("select count(*) from baton.jobs where built_in"));
}

INSTANTIATE_TEST_SUITE_P(Forms, OutboxRestore, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
