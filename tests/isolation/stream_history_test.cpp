// Stream tables go on rightly wherever their database comes back: at a point in time, on a promoted
// standby, out of a dump, after pg_upgrade. What a frontier says means something only in the history that
// gave it.

#include <gtest/gtest.h>

#include "isolation/stream_subject.hpp"
#include "support/restores.hpp"

using namespace baton;
using namespace baton::test;

namespace {

Cluster make_cluster(std::vector<std::string> settings = {}) {
    settings.insert(settings.end(), {"wal_level = replica", "max_wal_senders = 5", "hot_standby = on"});
    return Cluster(Cluster::Options{Form::extension, true, settings});
}

// Changes that are refreshed, and then some that are not.
void go_on(Connection& db, int number) {
    change_sources(db, number);
    refresh_all(db);
    change_sources(db, number + 1);
}

void expect_right(Connection& db, const std::string& modes = "DIFFERENTIAL DIFFERENTIAL FULL DIFFERENTIAL") {
    EXPECT_EQ(refresh_all(db), modes);
    EXPECT_EQ(subject_differences(db), "");
    go_on(db, 50);
    EXPECT_EQ(refresh_all(db), "DIFFERENTIAL DIFFERENTIAL FULL DIFFERENTIAL");
    EXPECT_EQ(subject_differences(db), "");
}

std::string subject_differences_after_refresh(Connection& db) {
    refresh_all(db);
    return subject_differences(db);
}

void make_subject(Connection& db) {
    make_sources(db);
    make_stream_tables(db);
    go_on(db, 1);
}

}  // namespace

TEST(StreamHistory, a_restore_to_a_moment_before_the_last_refreshes_refreshes_again_from_there) {
    LogArchive archive;
    Cluster original = make_cluster(archive.settings());
    const auto url = original.quiet_database();
    Connection db(url);
    make_subject(db);
    Cluster copy = original.copy_files();
    go_on(db, 3);
    db.exec("begin");
    change_sources(db, 5);
    db.exec("prepare transaction 'undecided'");
    archive.mark(original, "here");
    db.exec("commit prepared 'undecided'");
    burn_transaction_ids(db, 100);
    go_on(db, 9);
    refresh_all(db);
    archive.recover(copy, "here");

    Connection there(same_database(url, copy));
    EXPECT_EQ(refresh_all(there), "DIFFERENTIAL DIFFERENTIAL FULL DIFFERENTIAL");
    EXPECT_EQ(subject_differences(there), "");
    there.exec("commit prepared 'undecided'");
    expect_right(there);
    go_on(db, 30);
    EXPECT_EQ(subject_differences_after_refresh(db), "") << "the original goes on, too";
}

TEST(StreamHistory, a_standby_promoted_without_the_last_refreshes_makes_up_for_them) {
    Cluster primary = make_cluster();
    const auto url = primary.quiet_database();
    Connection db(url);
    make_subject(db);
    Cluster standby = primary.make_standby();
    go_on(db, 3);
    wait_for_replay(primary, standby);
    cut_off(standby);
    go_on(db, 6);  // lost, and the transaction ids are given again
    go_on(db, 12);
    primary.server().kill_hard();
    promote(standby);
    Connection there(same_database(url, standby));
    go_on(there, 20);
    expect_right(there);
}

TEST(StreamHistory, a_dump_brings_the_rows_of_large_deltas_too_and_the_next_refresh_is_full) {
    Cluster& cluster = shared_cluster(Form::extension);
    const auto url = cluster.quiet_database();
    {
        Connection db(url);
        make_subject(db);
        db.exec("update orders set amount = amount + 1");
        refresh_all(db);
        change_sources(db, 3);
        EXPECT_NE(db.value("select count(*) from tester.outbox_delta_rows_joined"), "0");
    }
    const auto to = cluster.database_for_restore();
    dump_and_restore(url, to);
    Connection there(to);
    there.exec("update baton.jobs set enabled = false");
    change_sources(there, 4);  // before anything is captured there
    expect_right(there, "FULL FULL FULL FULL");
}

TEST(StreamHistory, pg_upgrade_keeps_stream_tables_and_the_next_refresh_is_full) {
    Cluster old_cluster = make_cluster();
    const auto url = old_cluster.quiet_database();
    {
        Connection db(url);
        make_subject(db);
    }
    Cluster upgraded = upgrade(old_cluster);
    Connection db(same_database(url, upgraded));
    change_sources(db, 3);
    expect_right(db, "FULL FULL FULL FULL");
}
