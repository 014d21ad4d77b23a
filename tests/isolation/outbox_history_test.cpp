// A log goes on without loss or needless repetition wherever its files or its dump come back: in a clone, at
// a point in time, on a promoted standby, after pg_upgrade. Transaction ids mean something only in the
// history that gave them; each test puts positions, rows or a session's memory next to ids of another one.

#include <gtest/gtest.h>

#include "isolation/outbox_workload.hpp"
#include "support/restores.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class OutboxHistory : public testing::TestWithParam<Form> {
  protected:
    static Cluster make_cluster(std::vector<std::string> settings = {}) {
        settings.insert(settings.end(), {"wal_level = replica", "max_wal_senders = 5", "hot_standby = on"});
        return Cluster(Cluster::Options{GetParam(), true, settings});
    }
};

void publish(Connection& db, int count = 1) {
    for (int i = 0; i < count; ++i)
        db.exec("insert into events (event_type, partition_key) values ('e', 'k')");
}

void make_outbox(Connection& db) {
    db.exec(
        "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
        "'earliest'), "
        "baton.create_consumer_group('behind', 'events', 'earliest')");
}

std::string eras(Connection& db) {
    return db.value("select count(*) from baton_internal.outbox_eras");
}

}  // namespace

TEST_P(OutboxHistory, a_dump_of_a_later_state_goes_on_in_an_earlier_clone) {
    Cluster original = make_cluster();
    Cluster clone = original.copy_files();
    clone.server().start();
    const auto from = original.fresh_database();
    {
        Connection db(from);
        burn_transaction_ids(db, 5000);
        make_outbox(db);
        publish(db, 3);
        EXPECT_EQ(GroupReader(db, "g").drain(), "1,2,3");
        publish(db);
    }
    for (const bool caught_up : {false, true}) {
        SCOPED_TRACE(caught_up);
        const auto to = clone.database_for_restore();
        dump_and_restore(from, to);
        Connection db(to);
        if (caught_up) burn_transaction_ids(db, 10'000);  // the clone has given those ids to others
        publish(db);
        EXPECT_EQ(GroupReader(db, "g").drain(), "4,5") << "what is new lies below what the position has seen";
        EXPECT_EQ(GroupReader(db, "behind").drain(), "1,2,3,4,5") << "nothing waits for the counter";
        EXPECT_EQ(eras(db), "2");
    }
}

TEST_P(OutboxHistory, ids_ahead_of_the_counter_give_a_restore_away_where_nothing_else_does) {
    Cluster original = make_cluster();
    Cluster twin = original.copy_files();
    twin.server().start();
    Connection on_twin(twin.server().url());
    burn_transaction_ids(on_twin, 500);  // more than it takes to publish some events
    const auto positions_ahead = original.fresh_database();
    const auto rows_ahead = original.fresh_database();
    {
        Connection db(positions_ahead);
        make_outbox(db);
        publish(db, 3);
        burn_transaction_ids(db, 10'000);
        EXPECT_EQ(GroupReader(db, "g").drain(), "1,2,3");
        Connection other(rows_ahead);
        make_outbox(other);
        publish(other, 3);
        other.exec("delete from baton.consumer_groups where group_name = 'g'");
    }
    for (const auto& from : {positions_ahead, rows_ahead}) {
        SCOPED_TRACE(from == rows_ahead ? "rows" : "positions");
        const auto to = twin.database_for_restore();
        dump_and_restore(from, to);
        Connection db(to);
        // two servers of one image may well give the table the same number
        db.exec("update baton_internal.outbox_eras set relation_id = 'events'::regclass");
        EXPECT_EQ(db.value("select bool_or(xid >= pg_snapshot_xmax(pg_current_snapshot())) from events"),
                  from == rows_ahead ? "t" : "f");
        publish(db);
        if (from == positions_ahead) {
            EXPECT_EQ(GroupReader(db, "g").drain(), "4");
        }
        EXPECT_EQ(GroupReader(db, "behind").drain(), "1,2,3,4");
    }
}

TEST_P(OutboxHistory, a_dump_restored_into_the_same_server_goes_on) {
    Cluster& cluster = shared_cluster(GetParam());
    const auto from = cluster.fresh_database();
    {
        Connection db(from);
        make_outbox(db);
        publish(db, 3);
        EXPECT_EQ(GroupReader(db, "g").poll(2), "1,2");
    }
    const auto to = cluster.database_for_restore();
    dump_and_restore(from, to);
    Connection db(to);
    publish(db);
    db.exec("update baton_internal.pieces set leased_until = now() - interval '1 second'");
    EXPECT_EQ(GroupReader(db, "g").drain(), "1,2,3,4");
    EXPECT_EQ(GroupReader(db, "behind").drain(), "1,2,3,4");
}

TEST_P(OutboxHistory, a_clone_goes_on_from_its_own_positions) {
    Cluster original = make_cluster();
    const auto url = original.fresh_database();
    Connection before(url);
    make_outbox(before);
    publish(before, 3);
    EXPECT_EQ(GroupReader(before, "g").drain(), "1,2,3");
    publish(before);
    Cluster clone = original.copy_files();
    clone.server().start();
    Connection db(same_database(url, clone));
    publish(db);
    const auto all = GroupReader(db, "g").drain();
    EXPECT_EQ(std::count(all.begin(), all.end(), ','), 1) << all << ": the unread one and the new one";
    EXPECT_EQ(eras(db), "1");
}

TEST_P(OutboxHistory, a_restore_to_a_point_in_time_goes_on_from_there) {
    LogArchive archive;
    Cluster original = make_cluster(archive.settings());
    const auto url = original.fresh_database();
    Connection before(url);
    make_outbox(before);
    Cluster copy = original.copy_files();
    publish(before, 3);
    EXPECT_EQ(GroupReader(before, "g").poll(2), "1,2");
    before.exec("begin");
    publish(before);
    before.exec("prepare transaction 'p'");  // id 4 is decided after the restore
    publish(before);
    EXPECT_EQ(GroupReader(before, "behind").drain(), "1,2,3,5");
    archive.mark(original, "here");
    burn_transaction_ids(before, 300);
    publish(before, 20);
    GroupReader(before, "behind").drain();
    archive.recover(copy, "here");

    Connection db(same_database(url, copy));
    EXPECT_EQ(db.value("select max(id) from events"), "5");
    publish(db);
    const auto fresh = db.value("select max(id) from events");
    EXPECT_EQ(GroupReader(db, "behind").drain(), fresh) << "what was settled does not come again";
    db.exec("commit prepared 'p'");
    EXPECT_EQ(GroupReader(db, "behind").drain(), "4");
    db.exec("update baton_internal.pieces set leased_until = now() - interval '1 second'");
    EXPECT_EQ(GroupReader(db, "g").drain(), "1,2,3,4,5," + fresh);
    EXPECT_EQ(eras(db), "1") << "positions and ids come from one history";
}

TEST_P(OutboxHistory, a_standby_promoted_without_the_last_commits_delivers_what_it_has_and_gets) {
    Cluster primary = make_cluster();
    const auto url = primary.fresh_database();
    Connection before(url);
    make_outbox(before);
    publish(before, 3);
    EXPECT_EQ(GroupReader(before, "g").drain(), "1,2,3");
    Cluster standby = primary.make_standby();
    wait_for_replay(primary, standby);
    cut_off(standby);
    publish(before, 50);  // lost, and their transaction ids are given again
    GroupReader(before, "g").drain();
    primary.server().kill_hard();
    promote(standby);
    Connection db(same_database(url, standby));
    publish(db, 5);
    const auto fresh = db.value("select string_agg(id::text, ',' order by id) from events where id > 3");
    EXPECT_EQ(GroupReader(db, "g").drain(), fresh);
    EXPECT_EQ(GroupReader(db, "behind").drain(), "1,2,3," + fresh);
    EXPECT_EQ(eras(db), "1");
}

TEST_P(OutboxHistory, a_relay_that_remembers_another_timeline_cannot_move_the_position) {
    Cluster primary = make_cluster();
    const auto url = primary.fresh_database();
    Connection before(url);
    make_outbox(before);
    publish(before, 3);
    const auto epoch = before.value("select epoch from baton_internal.take_group('g', 'relay', '1 hour')");
    const auto group = before.value("select group_id from baton.consumer_groups where group_name = 'g'");
    Cluster standby = primary.make_standby();
    wait_for_replay(primary, standby);
    cut_off(standby);
    publish(before, 50);
    // what the relay has in its memory when its pooler's way leads to the standby from now on
    const auto window =
        before.value("select opened::text from baton_internal.open_group_window($1, 1, 1, '3:3:')", {group});
    const auto seen = before.value("select ($1::baton_internal.windows).sight", {window});
    primary.server().kill_hard();
    promote(standby);
    Connection db(same_database(url, standby));
    publish(db, 2);
    try {
        db.query("select * from baton_internal.open_group_window($1, 2, 1, $2)", {group, seen});
        ADD_FAILURE() << "a window was opened after ids that were not given yet";
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "55000");
    }
    for (const std::string call :
         {"baton_internal.renew_group($1, $2)", "baton_internal.release_group($1, $2)"}) {
        try {
            db.query("select " + call, {group, epoch});
            ADD_FAILURE() << call << " was accepted";
        } catch (const SqlError& error) {
            EXPECT_EQ(error.sqlstate(), "BT001");
        }
    }
    try {
        db.query("select baton_internal.checkpoint_group($1, $2, $3::baton_internal.windows, 53, true)",
                 {group, epoch, window});
        ADD_FAILURE() << "the position was moved";
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "BT001");
    }
    EXPECT_NE(db.value("select epoch from baton_internal.take_group('g', 'relay', '1 hour')"), epoch)
        << "the relay takes its group again at once";
    db.query("select baton_internal.renew_group($1, $2::bigint + 1)", {group, epoch});
}

TEST_P(OutboxHistory, a_session_that_was_there_before_the_promotion_notices) {
    Cluster primary = make_cluster();
    const auto url = primary.fresh_database();
    Connection before(url);
    make_outbox(before);
    publish(before);
    EXPECT_EQ(GroupReader(before, "g").drain(), "1");
    Cluster standby = primary.make_standby();
    wait_for_replay(primary, standby);
    Connection db(same_database(url, standby));
    EXPECT_THROW(GroupReader(db, "g").poll(), SqlError);  // looks at the log where nothing can be written
    primary.server().kill_hard();
    promote(standby);
    publish(db);
    EXPECT_EQ(db.value("select timeline from baton_internal.outbox_eras"), "2");
    EXPECT_EQ(GroupReader(db, "g").drain(), db.value("select max(id) from events"));
}

TEST_P(OutboxHistory, pg_upgrade_keeps_every_place) {
    Cluster old_cluster = make_cluster();
    const auto url = old_cluster.fresh_database();
    {
        Connection db(url);
        make_outbox(db);
        publish(db, 3);
        EXPECT_EQ(GroupReader(db, "g").poll(2), "1,2");
        EXPECT_EQ(GroupReader(db, "behind").drain(), "1,2,3");
        publish(db);
    }
    Cluster new_cluster = upgrade(old_cluster);
    Connection db(same_database(url, new_cluster));
    EXPECT_EQ(db.value("select count(*) from events"), "4");
    publish(db);
    EXPECT_EQ(GroupReader(db, "behind").drain(), "4,5");
    db.exec("update baton_internal.pieces set leased_until = now() - interval '1 second'");
    EXPECT_EQ(GroupReader(db, "g").drain(), "1,2,3,4,5");
}

INSTANTIATE_TEST_SUITE_P(Forms, OutboxHistory, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
