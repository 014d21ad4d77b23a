// Floors where the log goes on from another moment: after a crash, on a standby, in a clone, a copy or a
// dump.

#include "isolation/floors.hpp"

using namespace baton;
using namespace baton::test;

TEST_P(OutboxFloor, a_crash_takes_no_mark_back_under_a_floor) {
    Cluster cluster = make_cluster();
    const auto url = cluster.quiet_database();
    {
        Connection db(url);
        make_outbox(db);
    }
    std::set<std::string> read;
    const auto drain = [&read](Connection& db) {
        const auto ids = GroupReader(db, "g").drain();
        for (std::size_t at = 0; at < ids.size();) {
            const auto end = std::min(ids.find(',', at), ids.size());
            read.insert(ids.substr(at, end - at));
            at = end + 1;
        }
    };
    for (int round = 0; round < 3; ++round) {
        SCOPED_TRACE(round);
        {
            Connection db(url);
            if (round % 2 == 0) db.exec("set synchronous_commit = off");
            for (int i = 0; i < 5; ++i) {
                publish(db, 20);
                drain(db);
            }
        }
        cluster.server().kill_hard();
        cluster.server().start();
        Connection db(url);
        EXPECT_EQ(untrue_floors(db), "");
        // what was settled shortly before may not have been written down
        db.exec("update baton_internal.pieces set leased_until = now() - interval '1 second'");
        publish_as(db, 7 + round);
        publish(db);
        drain(db);
        EXPECT_EQ(untrue_floors(db), "");
        const auto ids = db.query("select id from events");
        for (int row = 0; row < ids.rows(); ++row)
            EXPECT_TRUE(read.contains(ids.text(row, 0))) << ids.text(row, 0);
    }
}

TEST_P(OutboxFloor, a_promoted_standby_has_the_mark_of_every_floor) {
    Cluster primary = make_cluster();
    const auto url = primary.quiet_database();
    Connection before(url), other(url);
    make_outbox(before);
    raise_floor(before);
    const auto late = publish_and_stay(other);
    other.exec("prepare transaction 'late'");
    Cluster standby = primary.make_standby();
    raise_floor(before);
    wait_for_replay(primary, standby);
    {
        Connection db(same_database(url, standby));
        EXPECT_EQ(untrue_floors(db), "");
        EXPECT_THROW(GroupReader(db, "g").poll(), SqlError) << "nothing is read where nothing can be written";
    }
    cut_off(standby);
    raise_floor(before);  // never arrives
    primary.server().kill_hard();
    promote(standby);
    Connection db(same_database(url, standby));
    EXPECT_EQ(untrue_floors(db), "");
    db.exec("commit prepared 'late'");
    publish_as(db, 7);
    EXPECT_EQ(GroupReader(db, "g").drain(), "7," + late);
    raise_floor(db);
    publish_as(db, 8);
    EXPECT_EQ(GroupReader(db, "g").drain(), "8");
    EXPECT_EQ(untrue_floors(db), "");
}

TEST_P(OutboxFloor, a_clone_goes_on_with_its_floors) {
    Cluster original = make_cluster();
    const auto url = original.quiet_database();
    Connection before(url), other(url);
    make_outbox(before);
    raise_floor(before);
    const auto late = publish_and_stay(other);
    other.exec("prepare transaction 'late'");
    raise_floor(before);
    Cluster clone = original.copy_files();
    clone.server().start();
    raise_floor(before);
    Connection db(same_database(url, clone));
    EXPECT_EQ(untrue_floors(db), "");
    db.exec("commit prepared 'late'");
    expect_stray_and(db, 7, late);
}

TEST_P(OutboxFloor, a_copy_of_the_database_goes_on_with_its_floors) {
    Cluster& cluster = shared_cluster(GetParam());
    const auto url = cluster.quiet_database();
    {
        Connection db(url);
        make_outbox(db);
        raise_floor(db);
        publish(db, 2);
    }
    const auto name = url.substr(url.find("dbname=") + 7);
    const auto copy = name + "_copy";
    Connection admin(cluster.server().url());
    wait_until("the database is copied", [&] {
        try {
            admin.exec("create database " + copy + " template " + name);
            return true;
        } catch (const SqlError& error) {
            if (error.sqlstate() != "55006") throw;  // the server's own worker looks in
            return false;
        }
    });
    Connection db(cluster.server().url(copy, GetParam() == Form::plain ? "installer" : "postgres"));
    EXPECT_EQ(untrue_floors(db), "");
    expect_stray_and(db, 7, last_ids(db, 2));
    raise_floor(db);
    EXPECT_EQ(untrue_floors(db), "");
}

TEST_P(OutboxFloor, a_dump_carries_no_floor_into_another_history) {
    Cluster& cluster = shared_cluster(GetParam());
    const auto from = cluster.quiet_database();
    std::string unread, hole;
    {
        Connection db(from), other(from);
        make_outbox(db);
        raise_floor(db);
        unread = publish_and_stay(other);
        raise_floor(db);
        other.exec("commit");
        publish_as(db, 7);
        hole = db.value("select nextval(pg_get_serial_sequence('events', 'id'))");  // above the mark
        publish(db);
        unread += "," + db.value("select max(id) from events");
    }
    const auto to = cluster.database_for_restore();
    dump_and_restore(from, to);
    Connection db(to), other(to);
    db.exec("update baton.jobs set enabled = false");
    publish(db);
    const auto first = db.value("select max(id) from events");
    EXPECT_EQ(GroupReader(db, "g").drain(), "7," + unread + "," + first);
    EXPECT_EQ(untrue_floors(db), "");
    EXPECT_THROW(publish_as(db, 8), SqlError) << "an id of before";
    EXPECT_THROW(publish_as(db, std::stoi(hole)), SqlError) << "another";
    db.exec("begin; insert into events (event_type) select 'lost' from generate_series(1, 40); rollback");
    const auto late = publish_and_stay(other);
    raise_floor(db);
    other.exec("commit");
    expect_stray_and(db, std::stoi(first) + 5, late);
}

TEST_P(OutboxFloor, the_first_event_after_a_restore_has_no_id_of_before) {
    for (const bool above_mark : {false, true}) {
        SCOPED_TRACE(above_mark);
        const auto url = shared_cluster(GetParam()).quiet_database();
        Connection db(url);
        const int hole = restore_with_hole(db);
        Connection first(url);
        EXPECT_FALSE(takes(first, above_mark ? hole : 7));
        first.exec("begin");
        publish(first);
        EXPECT_FALSE(takes(first, above_mark ? hole : 7)) << "in the transaction that ended the era";
        first.exec("rollback");
        publish(first);
        EXPECT_FALSE(takes(first, above_mark ? hole : 7));
        EXPECT_EQ(GroupReader(first, "g").drain(), last_ids(first, 1));
    }
}

TEST_P(OutboxFloor, whoever_publishes_while_an_era_ends_has_no_id_of_before) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url);
    const int hole = restore_with_hole(db);
    Connection ender(url), other(url);
    ender.exec("begin");
    publish(ender);
    std::thread publisher([&] { EXPECT_FALSE(takes(other, hole)); });
    wait_for_era_end(db);
    ender.exec("commit");
    publisher.join();
    EXPECT_EQ(GroupReader(other, "g").drain(), last_ids(other, 1));
}

TEST_P(OutboxFloor, a_transaction_in_which_an_era_ended_has_no_id_of_before) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url);
    const int hole = restore_with_hole(db);
    pause_behind_the_door(db);
    Connection ender(url), other(url);
    db.exec("select pg_advisory_lock(7)");
    other.exec("begin");
    std::thread publisher([&] { other.exec("insert into events (event_type) values ('named')"); });
    wait_for_pause(db);
    publish(ender);
    db.exec("select pg_advisory_unlock(7)");
    publisher.join();
    for (int i = 0; i < 3; ++i) {
        other.exec("savepoint s");
        EXPECT_FALSE(takes(other, hole)) << i;
        other.exec("rollback to s");
        publish(other);
    }
    other.exec("commit");
    EXPECT_EQ(GroupReader(ender, "g").drain(), last_ids(ender, 5));
    EXPECT_EQ(untrue_floors(ender), "");
}

INSTANTIATE_TEST_SUITE_P(Forms, OutboxFloor, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
