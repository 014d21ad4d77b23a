#pragma once
// Outboxes and groups whose floors are moved beside a transaction, or in a place, where one could be wrong.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "isolation/outbox_workload.hpp"
#include "support/restores.hpp"

namespace baton::test {

class OutboxFloor : public testing::TestWithParam<Form> {
  protected:
    static Cluster make_cluster() {
        return Cluster(Cluster::Options{
            GetParam(), true, {"wal_level = replica", "max_wal_senders = 5", "hot_standby = on"}});
    }
};

inline void publish(Connection& db, int count = 1) {
    db.exec("insert into events (event_type) select 'e' from generate_series(1, " + std::to_string(count) +
            ")");
}

// Publish in a transaction that stays open; returns the event's id.
inline std::string publish_and_stay(Connection& db) {
    db.exec("begin");
    return db.value("insert into events (event_type) values ('late') returning id");
}

// Publish under an id that nobody has any more.
inline void publish_as(Connection& db, int id) {
    db.exec("insert into events (id, event_type) overriding system value values (" + std::to_string(id) +
            ", 'stray')");
}

// Make an outbox whose ids 1 to 40 nobody has.
inline void make_outbox(Connection& db) {
    db.exec(
        "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
        "'earliest')");
    db.exec("begin; insert into events (event_type) select 'lost' from generate_series(1, 40); rollback");
}

inline std::string floor_of(Connection& db, const std::string& group = "g") {
    return db.value(
        "select coalesce(max(fresh_id), 0) from baton_internal.group_positions join baton.consumer_groups "
        "using (group_id) where group_name = $1",
        {group});
}

// Publish and read until the group has a floor near the end of the log.
inline void raise_floor(Connection& db, const std::string& group = "g") {
    const auto end = db.value("select coalesce(max(id), 0) from events");
    for (int i = 0; i < 3; ++i) {
        publish(db, 20);
        GroupReader(db, group).drain();
    }
    ASSERT_GT(std::stol(floor_of(db, group)), std::stol(end));
}

inline std::string all_ids(Connection& db) {
    return db.value("select string_agg(id::text, ',' order by id) from events");
}

// The ids of the last events.
inline std::string last_ids(Connection& db, int count) {
    return db.value(
        "select string_agg(id::text, ',' order by id) from (select id from events order by id desc limit $1) "
        "e",
        {count});
}

// See that an event below everything that the group knows is delivered, and one of a transaction that was
// open while the group went on.
inline void expect_stray_and(Connection& db, int stray, const std::string& late) {
    publish_as(db, stray);
    EXPECT_EQ(untrue_floors(db), "");
    EXPECT_EQ(GroupReader(db, "g").drain(), std::to_string(stray) + "," + late);
    EXPECT_EQ(untrue_floors(db), "");
}

// Let an event called 'named' stand still between the door and the look at its transaction, while somebody
// holds the lock 7.
inline void pause_behind_the_door(Connection& db) {
    db.exec(
        "create function pause() returns trigger language plpgsql as $$ begin perform "
        "pg_advisory_lock_shared(7), pg_advisory_unlock_shared(7); return new; end $$; create trigger "
        "baton_f "
        "before insert on events for each row when (new.event_type = 'named') execute function pause()");
}

inline void wait_for_pause(Connection& db) {
    wait_until("the publisher stands still", [&] {
        return db.value(
                   "select count(*) from pg_locks where locktype = 'advisory' and not granted and "
                   "database = (select oid from pg_database where datname = current_database())") == "1";
    });
}

// Make the log one out of a dump, with a hole above the mark; returns the hole. The era has not ended yet.
inline int restore_with_hole(Connection& db) {
    make_outbox(db);
    raise_floor(db);
    const auto hole = db.value("select nextval(pg_get_serial_sequence('events', 'id'))");
    publish(db);
    GroupReader(db, "g").drain();
    db.exec("update baton_internal.outbox_eras set relation_id = 1");
    return std::stoi(hole);
}

// Whether the server takes an event under that id; another error than a refusal of the id fails the test.
inline bool takes(Connection& db, int id) {
    try {
        publish_as(db, id);
        return true;
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "428C9") << error.what();
        return false;
    }
}

inline void wait_for_era_end(Connection& db) {
    wait_until("somebody waits for the end of the era", [&] {
        return db.value(
                   "select count(*) from pg_stat_activity where datname = current_database() and "
                   "wait_event_type = 'Lock'") == "1";
    });
}

}  // namespace baton::test
