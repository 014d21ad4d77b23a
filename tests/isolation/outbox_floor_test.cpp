// A floor that is too high hides events for ever. Each test moves floors beside a transaction, or in a place,
// where one could be wrong: what was published arrives, and every floor is true of the log.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "isolation/outbox_workload.hpp"
#include "support/restores.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class OutboxFloor : public testing::TestWithParam<Form> {
  protected:
    static Cluster make_cluster() {
        return Cluster(Cluster::Options{
            GetParam(), true, {"wal_level = replica", "max_wal_senders = 5", "hot_standby = on"}});
    }
};

void publish(Connection& db, int count = 1) {
    db.exec("insert into events (event_type) select 'e' from generate_series(1, " + std::to_string(count) +
            ")");
}

// Publish in a transaction that stays open; returns the event's id.
std::string publish_and_stay(Connection& db) {
    db.exec("begin");
    return db.value("insert into events (event_type) values ('late') returning id");
}

// Publish under an id that nobody has any more.
void publish_as(Connection& db, int id) {
    db.exec("insert into events (id, event_type) overriding system value values (" + std::to_string(id) +
            ", 'stray')");
}

// Make an outbox whose ids 1 to 40 nobody has.
void make_outbox(Connection& db) {
    db.exec(
        "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
        "'earliest')");
    db.exec("begin; insert into events (event_type) select 'lost' from generate_series(1, 40); rollback");
}

std::string floor_of(Connection& db, const std::string& group = "g") {
    return db.value(
        "select coalesce(max(fresh_id), 0) from baton_internal.group_positions join baton.consumer_groups "
        "using (group_id) where group_name = $1",
        {group});
}

// Publish and read until the group has a floor near the end of the log.
void raise_floor(Connection& db, const std::string& group = "g") {
    const auto end = db.value("select coalesce(max(id), 0) from events");
    for (int i = 0; i < 3; ++i) {
        publish(db, 20);
        GroupReader(db, group).drain();
    }
    ASSERT_GT(std::stol(floor_of(db, group)), std::stol(end));
}

std::string all_ids(Connection& db) {
    return db.value("select string_agg(id::text, ',' order by id) from events");
}

// The ids of the last events.
std::string last_ids(Connection& db, int count) {
    return db.value(
        "select string_agg(id::text, ',' order by id) from (select id from events order by id desc limit $1) "
        "e",
        {count});
}

std::string same_database(const std::string& url, Cluster& cluster) {
    return cluster.server().url(url.substr(url.find("dbname=") + 7),
                                cluster.form() == Form::plain ? "installer" : "postgres");
}

// See that an event below everything that the group knows is delivered, and one of a transaction that was
// open while the group went on.
void expect_stray_and(Connection& db, int stray, const std::string& late) {
    publish_as(db, stray);
    EXPECT_EQ(untrue_floors(db), "");
    EXPECT_EQ(GroupReader(db, "g").drain(), std::to_string(stray) + "," + late);
    EXPECT_EQ(untrue_floors(db), "");
}

// Let an event called 'named' stand still between the door and the look at its transaction, while somebody
// holds the lock 7.
void pause_behind_the_door(Connection& db) {
    db.exec(
        "create function pause() returns trigger language plpgsql as $$ begin perform "
        "pg_advisory_lock_shared(7), pg_advisory_unlock_shared(7); return new; end $$; create trigger "
        "baton_f "
        "before insert on events for each row when (new.event_type = 'named') execute function pause()");
}

void wait_for_pause(Connection& db) {
    wait_until("the publisher stands still", [&] {
        return db.value(
                   "select count(*) from pg_locks where locktype = 'advisory' and not granted and "
                   "database = (select oid from pg_database where datname = current_database())") == "1";
    });
}

// Make the log one out of a dump, with a hole above the mark; returns the hole. The era has not ended yet.
int restore_with_hole(Connection& db) {
    make_outbox(db);
    raise_floor(db);
    const auto hole = db.value("select nextval(pg_get_serial_sequence('events', 'id'))");
    publish(db);
    GroupReader(db, "g").drain();
    db.exec("update baton_internal.outbox_eras set relation_id = 1");
    return std::stoi(hole);
}

// Whether the server takes an event under that id; another error than a refusal of the id fails the test.
bool takes(Connection& db, int id) {
    try {
        publish_as(db, id);
        return true;
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "428C9") << error.what();
        return false;
    }
}

void wait_for_era_end(Connection& db) {
    wait_until("somebody waits for the end of the era", [&] {
        return db.value(
                   "select count(*) from pg_stat_activity where datname = current_database() and "
                   "wait_event_type = 'Lock'") == "1";
    });
}

}  // namespace

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
