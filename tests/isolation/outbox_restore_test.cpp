// A dump restored into another cluster, and a promoted standby, go on without loss or skip.

#include <gtest/gtest.h>

#include <unistd.h>

#include <sstream>

#include "isolation/outbox_workload.hpp"

using namespace baton;
using namespace baton::test;

namespace fs = std::filesystem;

namespace {

class OutboxRestore : public testing::TestWithParam<Form> {};

// Dump one database and load it into another cluster's empty one, section by section, while somebody
// maintains and polls it.
void dump_and_restore(const std::string& from, const std::string& to) {
    const fs::path file = fs::temp_directory_path() / ("baton-dump-" + std::to_string(::getpid()) + ".sql");
    for (const std::string section : {"pre-data", "data", "post-data"}) {
        const auto dump = run({.argv = {"pg_dump", "-d", from, "--section=" + section, "-f", file.string()},
                               .account = {},
                               .output = {},
                               .working_directory = {},
                               .environment = {}});
        ASSERT_EQ(dump.exit_code, 0) << dump.output;
        const auto restore =
            run({.argv = {"psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", to, "-f", file.string()},
                 .account = {},
                 .output = {},
                 .working_directory = {},
                 .environment = {}});
        ASSERT_EQ(restore.exit_code, 0) << restore.output;
        if (section == "data") {
            Connection db(to);
            db.exec("select baton.run_maintenance()");
            try {
                db.exec("select baton.poll_outbox('done', 'too early')");
                ADD_FAILURE() << "a log that is being restored was polled";
            } catch (const SqlError& error) {
                EXPECT_EQ(error.sqlstate(), "55000");
            }
        }
    }
    fs::remove(file);
}

std::string ids(Connection& db, const std::string& group) {
    return db.value(
        "select coalesce(string_agg(id::text, ',' order by n), '') from baton.poll_outbox($1, 'c', 1000) "
        "with ordinality as p "
        "(id, event_id, tenant_id, aggregate_type, aggregate_id, event_type, schema_version, topic, "
        "partition_key, payload, headers, trace_id, "
        "correlation_id, causation_id, occurred_at, payload_bytes, attempt, lease_token, n)",
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
    dump_and_restore(from, to);
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
    const auto lsn = Connection(url).value("select pg_current_wal_flush_lsn()");
    Connection replica(standby.server().url());
    wait_until("the standby has caught up",
               [&] { return replica.value("select pg_last_wal_replay_lsn() >= $1::pg_lsn", {lsn}) == "t"; });
    workload.drain();
    const auto end = Connection(url).value("select pg_current_wal_flush_lsn()");
    wait_until("the standby has caught up",
               [&] { return replica.value("select pg_last_wal_replay_lsn() >= $1::pg_lsn", {end}) == "t"; });
    const auto committed = workload.committed();
    primary.server().kill_hard();
    replica.exec("select pg_promote()");
    wait_until("the standby is promoted", [&] { return replica.value("select pg_is_in_recovery()") == "f"; });
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

INSTANTIATE_TEST_SUITE_P(Forms, OutboxRestore, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
