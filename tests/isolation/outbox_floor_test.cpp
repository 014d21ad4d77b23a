// A floor that is too high hides events for ever. Each test moves floors beside a transaction where one could
// be wrong: what was published arrives, and every floor is true of the log.

#include "isolation/floors.hpp"

using namespace baton;
using namespace baton::test;

TEST_P(OutboxFloor, a_poll_that_is_rolled_back_takes_its_floor_with_it) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url), other(url);
    make_outbox(db);
    raise_floor(db);
    const auto late = publish_and_stay(other);
    const auto floor = floor_of(db);
    publish(db, 20);
    db.exec("begin");
    EXPECT_NE(GroupReader(db, "g").poll(), "");
    EXPECT_NE(floor_of(db), floor);
    db.exec("rollback");
    EXPECT_EQ(floor_of(db), floor);
    raise_floor(db);
    other.exec("commit");
    expect_stray_and(db, 7, late);
}

TEST_P(OutboxFloor, a_poll_behind_a_poll_that_a_savepoint_took_back_loses_nothing) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url), other(url);
    make_outbox(db);
    raise_floor(db);
    const auto late = publish_and_stay(other);
    publish(db, 20);
    GroupReader reader(db, "g");
    db.exec("begin; savepoint s");
    const auto first = reader.poll();
    db.exec("rollback to s");
    EXPECT_EQ(reader.poll(), first);
    reader.settle();
    db.exec("commit");
    raise_floor(db);
    other.exec("commit");
    expect_stray_and(db, 7, late);
}

TEST_P(OutboxFloor, a_poll_in_a_prepared_transaction_loses_nothing_however_that_ends) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url), other(url), publisher(url);
    make_outbox(db);
    raise_floor(db);
    int stray = 7;
    for (const std::string end : {"commit", "rollback"}) {
        SCOPED_TRACE(end);
        const auto late = publish_and_stay(other);
        publish(db, 20);
        GroupReader reader(db, "g");
        db.exec("begin");
        const auto given = reader.poll();
        EXPECT_NE(given, "");
        if (end == "commit") reader.settle();
        db.exec("prepare transaction 'poll'");
        publish_as(publisher, stray);
        db.exec(end + " prepared 'poll'");
        const auto rest = GroupReader(db, "g").drain();
        EXPECT_EQ(rest, std::to_string(stray) + (end == "commit" ? "" : "," + given));
        other.exec("commit");
        expect_stray_and(db, stray + 1, late);
        stray += 2;
    }
}

TEST_P(OutboxFloor, a_poll_with_an_old_snapshot_leaves_what_was_published_since_to_the_next) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url), before(url), after(url), publisher(url);
    make_outbox(db);
    db.exec("select baton.create_consumer_group('quick', 'events', 'earliest')");
    raise_floor(db);
    const auto late = publish_and_stay(before);
    publish(db, 5);
    db.exec("begin isolation level repeatable read; select 1 from events limit 1");
    const auto later = publish_and_stay(after);  // began between the snapshot and the floor
    raise_floor(publisher, "quick");
    publish_as(publisher, 7);
    GroupReader reader(db, "g");
    EXPECT_EQ(reader.poll(), last_ids(db, 5)) << "what the snapshot shows";
    reader.settle();
    db.exec("commit");
    EXPECT_EQ(untrue_floors(db), "");
    const auto rest = GroupReader(db, "g").drain();
    EXPECT_EQ(rest.substr(0, 2), "7,");
    EXPECT_EQ(std::count(rest.begin(), rest.end(), ','), 60);
    before.exec("commit");
    after.exec("commit");
    expect_stray_and(db, 8, late + "," + later);
}

TEST_P(OutboxFloor, a_poll_with_an_old_snapshot_does_not_pass_over_whoever_began_since) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url), other(url), publisher(url);
    make_outbox(db);
    db.exec("select baton.create_consumer_group('quick', 'events', 'earliest')");
    raise_floor(db);
    publish(db, 5);
    db.exec("begin isolation level repeatable read; select 1 from events limit 1");
    const auto late = publish_and_stay(other);
    raise_floor(publisher, "quick");
    GroupReader reader(db, "g");
    EXPECT_EQ(reader.poll(), last_ids(db, 5));
    reader.settle();
    db.exec("commit");
    other.exec("commit");
    const auto rest = GroupReader(db, "g").drain();
    EXPECT_EQ(rest.substr(0, rest.find(',')), late);
    EXPECT_EQ(std::count(rest.begin(), rest.end(), ','), 60);
    EXPECT_EQ(untrue_floors(db), "");
}

TEST_P(OutboxFloor, a_poll_whose_transaction_has_its_id_already_takes_no_floor) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url), other(url), publisher(url);
    make_outbox(db);
    db.exec("select baton.create_consumer_group('quick', 'events', 'earliest')");
    raise_floor(db);
    publish(db, 5);
    db.exec("begin; select pg_current_xact_id()");
    const auto late = publish_and_stay(other);  // a higher transaction id, and the mark as it was
    raise_floor(publisher, "quick");
    GroupReader reader(db, "g");
    const auto given = reader.poll();
    EXPECT_EQ(std::count(given.begin(), given.end(), ','), 64);
    reader.settle();
    db.exec("commit");
    other.exec("commit");
    expect_stray_and(db, 7, late);
}

TEST_P(OutboxFloor, a_group_that_is_put_elsewhere_gets_what_commits_later) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url), other(url);
    make_outbox(db);
    raise_floor(db);
    GroupReader reader(db, "g");
    auto late = publish_and_stay(other);
    raise_floor(db);
    db.exec("select baton.seek_offset('g', 'reader', place => 'beginning')");
    EXPECT_EQ(untrue_floors(db), "");
    EXPECT_EQ(reader.drain(), all_ids(db)) << "back to the beginning";
    other.exec("commit");
    expect_stray_and(db, 7, late);

    late = publish_and_stay(other);
    raise_floor(db);
    db.exec("select baton.seek_offset('g', 'reader', (select max(id) - 3 from events))");
    EXPECT_EQ(reader.drain(), last_ids(db, 3)) << "back to an id";
    other.exec("commit");
    expect_stray_and(db, 8, late);

    late = publish_and_stay(other);
    publish(db, 30);
    db.exec("select baton.seek_offset('g', 'reader', place => 'end')");
    EXPECT_EQ(untrue_floors(db), "");
    EXPECT_EQ(reader.drain(), "");
    other.exec("commit");
    expect_stray_and(db, 9, late);
}

TEST_P(OutboxFloor, a_group_that_begins_gets_what_commits_later) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url), other(url);
    make_outbox(db);
    raise_floor(db);
    const auto late = publish_and_stay(other);
    raise_floor(db);
    const auto published = all_ids(db);
    db.exec(
        "select baton.create_consumer_group('all', 'events', 'earliest'); "
        "select baton.create_consumer_group('new', 'events', 'latest')");
    db.exec(
        "begin; insert into events (event_type) values ('own'); "
        "select baton.create_consumer_group('new and all', 'events', 'earliest'); "
        "select baton.create_consumer_group('own', 'events', 'latest'); commit");
    const auto own = db.value("select max(id) from events");
    EXPECT_EQ(untrue_floors(db), "");
    EXPECT_EQ(GroupReader(db, "all").drain(), published + "," + own);
    EXPECT_EQ(GroupReader(db, "new and all").drain(), published + "," + own);
    other.exec("commit");
    publish_as(db, 7);
    EXPECT_EQ(GroupReader(db, "all").drain(), "7," + late);
    EXPECT_EQ(GroupReader(db, "new and all").drain(), "7," + late);
    EXPECT_EQ(GroupReader(db, "new").drain(), "7," + late + "," + own);
    EXPECT_EQ(GroupReader(db, "own").drain(), "7," + late + "," + own)
        << "when the group was made, nobody could see the event beside it";
    EXPECT_EQ(untrue_floors(db), "");
}

TEST_P(OutboxFloor, what_is_replayed_comes_from_below_the_floor) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url);
    make_outbox(db);
    publish(db);
    const auto failed = GroupReader(db, "g").poll();
    db.query("select baton.fail_events('g', 'reader', array[$1::bigint], 'no', true)", {failed});
    raise_floor(db);
    db.query("select baton.replay_dead_letters()");
    EXPECT_EQ(GroupReader(db, "g").drain(), failed);
}

// Whoever owns the log may name the transaction: the right one, before the transaction has its id.
TEST_P(OutboxFloor, an_event_that_names_its_transaction_in_advance_is_refused_or_delivered) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url), other(url);
    make_outbox(db);
    pause_behind_the_door(db);
    raise_floor(db);
    publish(other);
    for (int ahead = 0; ahead < 16; ++ahead) {
        const auto guess = other.value("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint + " +
                                       std::to_string(ahead));
        db.exec("select pg_advisory_lock(7)");
        std::thread publisher([&] {
            try {
                other.query("insert into events (xid, event_type) values ($1, 'named')", {guess});
            } catch (const SqlError& error) {
                EXPECT_EQ(error.sqlstate(), "55000") << error.what();
            }
        });
        wait_for_pause(db);
        raise_floor(db);
        db.exec("select pg_advisory_unlock(7)");
        publisher.join();
        EXPECT_EQ(GroupReader(db, "g").drain(),
                  db.value("select coalesce(string_agg(id::text, ','), '') from events where xid = $1 and "
                           "event_type = 'named'",
                           {guess}));
        EXPECT_EQ(untrue_floors(db), "");
    }
}

TEST_P(OutboxFloor, what_a_replica_brings_under_a_low_id_is_delivered) {
    Cluster& cluster = shared_cluster(GetParam());
    const auto url = cluster.quiet_database();
    Connection db(url);
    make_outbox(db);
    raise_floor(db);
    Connection replica(cluster.server().url(url.substr(url.find("dbname=") + 7)));
    replica.exec("set session_replication_role = replica");
    publish_as(replica, 7);
    replica.exec("insert into events_p1 (id, event_type) values (8, 'stray')");
    EXPECT_EQ(untrue_floors(db), "");
    EXPECT_EQ(GroupReader(db, "g").drain(), "7,8");
    // what was judged elsewhere is not judged again
    replica.exec(
        "insert into events (event_type, idempotency_key) values ('e', 'k'), ('e', 'k'), ('', null)");
    EXPECT_EQ(GroupReader(db, "g").drain(), last_ids(db, 3));
}

INSTANTIATE_TEST_SUITE_P(Forms, OutboxFloor, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
