// Retention never drops what a group has not read, whoever writes, reads, hangs or dies meanwhile, and nobody
// who publishes waits for it.

#include <gtest/gtest.h>
#include <signal.h>

#include "isolation/outbox_workload.hpp"

using namespace baton;
using namespace baton::test;

namespace {

constexpr auto run_time = std::chrono::seconds(6);

class OutboxRetention : public testing::TestWithParam<Form> {};

// A database with an outbox whose partitions are left at once and kept for no time.
std::string database_with_hasty_outbox(Cluster& cluster) {
    const auto url = cluster.quiet_database();
    Connection(url).exec(
        "select baton.create_outbox('events', partition_interval => '1 microsecond', retention => '0')");
    return url;
}

// Do one step of maintenance; returns where to go on, empty at the end.
std::string step(Connection& db, const std::string& resume) {
    return db.value("select coalesce(baton.maintenance_step(nullif($1, '')::jsonb, 'events')::text, '')",
                    {resume});
}

// Settle everything that a group can get now; returns the numbers of the events in order.
std::string drain(Connection& db, const std::string& group) {
    std::string numbers;
    for (;;) {
        const auto batch = db.query(
            "select id, coalesce(payload ->> 'number', event_type), lease_token from "
            "baton.poll_outbox($1, 'c')",
            {group});
        if (batch.empty()) return numbers;
        for (int row = 0; row < batch.rows(); ++row)
            numbers += (numbers.empty() ? "" : ",") + batch.text(row, 1);
        db.query("select baton.commit_offset($1, 'c', $2, $3::uuid)",
                 {group, batch.text(batch.rows() - 1, 0), batch.text(0, 2)});
    }
}

std::string partitions_in(Connection& db, const std::string& state) {
    return db.value("select count(*) from baton_internal.outbox_partitions where state = $1", {state});
}

// Where the oldest partition begins that is still there.
std::string first_partition(Connection& db) {
    return db.value("select min(first_id) from baton_internal.outbox_partitions");
}

// Call maintenance again and again, and have its session killed in the midst of it again and again.
class RestlessMaintenance {
  public:
    explicit RestlessMaintenance(const std::string& url)
        : runner_([this, url] { run(url); }), killer_([this, url] { kill(url); }) {}
    ~RestlessMaintenance() { stop(); }

    void stop() {
        stop_ = true;
        if (runner_.joinable()) runner_.join();
        if (killer_.joinable()) killer_.join();
    }
    int rounds() const { return rounds_; }
    int deaths() const { return deaths_; }
    std::string trouble() const { return trouble_; }

  private:
    void run(const std::string& url) {
        while (!stop_) {
            try {
                Connection db(url, "restless");
                db.on_notice(
                    [this](const std::string& text) {  // killed between two calls, it hears so as a notice
                        if (text.find("terminating connection") == std::string::npos) trouble_ = text;
                    });
                while (!stop_) db.exec("call baton.run_maintenance()"), ++rounds_;
            } catch (const SqlError& error) {
                if (error.sqlstate() != "57P01") trouble_ = error.what();
                ++deaths_;
            } catch (const Error&) {
                ++deaths_;
            }
        }
    }
    void kill(const std::string& url) {
        Connection db(url);
        unsigned seed = 11;
        while (!stop_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(::rand_r(&seed) % 1000));
            db.exec(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'restless'");
        }
    }

    std::atomic<bool> stop_{false};
    std::atomic<int> rounds_{0}, deaths_{0};
    std::string trouble_;
    std::thread runner_, killer_;
};

}  // namespace

// The transaction has its number before the log moves on, and commits after every group has gone on.
TEST_P(OutboxRetention, an_event_of_a_slow_transaction_is_never_dropped_unread) {
    const auto url = database_with_hasty_outbox(shared_cluster(GetParam()));
    Connection db(url), slow(url), maintenance(url);
    db.exec("select baton.create_consumer_group('g', 'events', 'earliest')");
    db.exec("insert into events (event_type) values ('first')");
    maintenance.exec("begin; select pg_current_xact_id()");
    slow.exec("begin; insert into events (event_type) values ('slow')");
    std::string resume = step(maintenance, "");
    while (!resume.empty()) resume = step(maintenance, resume);
    maintenance.exec("commit");
    ASSERT_EQ(partitions_in(db, "left"), "1");
    db.exec("insert into events (event_type) values ('next')");
    EXPECT_EQ(drain(db, "g"), "first,next");
    db.exec("call baton.run_maintenance()");
    EXPECT_EQ(first_partition(db), "1") << "who has not committed may still write there";
    slow.exec("commit");
    db.exec("call baton.run_maintenance()");
    EXPECT_EQ(drain(db, "g"), "slow");
    db.exec("call baton.run_maintenance()");
    EXPECT_EQ(partitions_in(db, "left"), "0") << "and nobody needs to publish or poll for it";
    EXPECT_EQ(db.value("select count(*) from events"), "0");
}

TEST_P(OutboxRetention, a_prepared_transaction_keeps_its_partition) {
    const auto url = database_with_hasty_outbox(shared_cluster(GetParam()));
    Connection db(url);
    db.exec("select baton.create_consumer_group('g', 'events', 'earliest')");
    const auto name = "p" + url.substr(url.find("dbname=") + 7);
    db.exec("begin; insert into events (event_type) values ('prepared'); prepare transaction '" + name + "'");
    db.exec("call baton.run_maintenance()");
    db.exec("call baton.run_maintenance()");
    EXPECT_EQ(partitions_in(db, "left"), "1");
    db.exec("commit prepared '" + name + "'");
    db.exec("call baton.run_maintenance()");
    EXPECT_EQ(drain(db, "g"), "prepared");
}

TEST_P(OutboxRetention, a_group_that_is_being_made_gets_what_is_published_after_it) {
    const auto url = database_with_hasty_outbox(shared_cluster(GetParam()));
    Connection db(url), maker(url);
    maker.exec("select baton.create_consumer_group('before', 'events')");  // the session knows the log
    maker.exec("select baton.drop_consumer_group('before')");
    maker.exec("begin; select baton.create_consumer_group('g', 'events', 'latest')");
    db.exec("insert into events (event_type) values ('after')");
    db.exec("call baton.run_maintenance()");
    db.exec("call baton.run_maintenance()");
    EXPECT_EQ(partitions_in(db, "left"), "1");
    maker.exec("commit");
    EXPECT_EQ(drain(db, "g"), "after");
    db.exec("call baton.run_maintenance()");
    EXPECT_EQ(partitions_in(db, "left"), "0");
}

TEST_P(OutboxRetention, an_event_parked_at_the_last_moment_is_kept) {
    const auto url = database_with_hasty_outbox(shared_cluster(GetParam()));
    Connection db(url);
    db.exec(
        "select baton.create_consumer_group('g', 'events', 'earliest', retry_base => '0', retry_limit => "
        "'0')");
    db.exec("insert into events (event_type, partition_key) values ('one', 'a'), ('two', 'b')");
    db.exec("call baton.run_maintenance()");
    const auto batch = db.query("select id, lease_token from baton.poll_outbox('g', 'c')");
    const auto fail = [&](int row) {
        db.query("select baton.fail_events('g', 'c', array[$1::bigint], 'boom', lease_token => $2::uuid)",
                 {batch.text(row, 0), batch.text(row, 1)});
    };
    fail(0);
    std::string resume;
    do {
        resume = step(db, resume);
        ASSERT_FALSE(resume.empty());
    } while (resume.find("\"copy\"") == std::string::npos);
    fail(1);  // nothing is in a piece now, both are parked
    for (bool failed = false; !resume.empty(); resume = step(db, resume))
        if (!failed && resume.find("\"detach\"") != std::string::npos) {
            failed = true;
            db.exec("update baton_internal.parked set event = null where key = 'b'");  // as if parked now
        }
    EXPECT_EQ(db.value("select count(*) from events"), "0") << "the partition is gone";
    EXPECT_EQ(drain(db, "g"), "one,two");
}

// A statement knows the partitions that there were when it began. It must never draw an id of a later one.
TEST_P(OutboxRetention, a_statement_that_outlives_many_partitions_publishes_all_its_events) {
    const auto url = database_with_hasty_outbox(shared_cluster(GetParam()));
    Connection db(url);
    db.exec("select baton.create_consumer_group('g', 'events', 'earliest')");
    db.exec("create table pace (beat int)");
    db.exec(
        "create function wait_for_beat(b int) returns int language plpgsql as $$ begin "
        "loop exit when exists (select from pace where beat >= b); perform pg_sleep(0.01); end loop; return "
        "b; end $$");
    std::string refused;
    std::thread bulk([&] {
        try {
            Connection(url).exec(
                "insert into events (event_type) select wait_for_beat(i)::text from generate_series(1, 6) i");
        } catch (const SqlError& error) {
            refused = error.what();
        }
    });
    for (int beat = 1; beat <= 6; ++beat) {
        db.exec("insert into pace values (" + std::to_string(beat) + ")");
        for (int round = 0; round < 2; ++round) {
            db.exec("insert into events (event_type) values ('between')");
            db.exec("call baton.run_maintenance()");
        }
    }
    bulk.join();
    EXPECT_EQ(refused, "");
    EXPECT_EQ(db.value("select count(*) from events where event_type <> 'between'"), "6");
    const auto before = db.value("select max(id) from events");
    wait_until("the log moves on", [&] {
        db.exec("insert into events (event_type) values ('after')");
        db.exec("call baton.run_maintenance()");
        return db.value("select max(id) / 1000000000 > $1 / 1000000000 from events", {before}) == "t";
    });
}

TEST_P(OutboxRetention, every_committed_event_reaches_every_group_while_partitions_come_and_go) {
    const auto url = database_with_hasty_outbox(shared_cluster(GetParam()));
    Connection db(url);
    db.exec("update baton.jobs set enabled = true");  // the scheduler joins in
    db.exec(
        "select baton.create_consumer_group('alone', 'events', 'earliest'), "
        "baton.create_consumer_group('team', 'events', 'earliest', max_attempts => 1000000, "
        "retry_base => '20 ms', retry_limit => '200 ms'), "
        "baton.create_consumer_group('sleepy', 'events', 'earliest', ordered => false), "
        "baton.create_consumer_group('stopped', 'events', 'earliest')");
    Journal alone, team, sleepy, stopped;
    Workload workload(url, "events");
    RestlessMaintenance maintenance(url);
    workload.consume({.group = "alone", .number = 1}, alone);
    for (int i = 0; i < 3; ++i)
        workload.consume({.group = "team",
                          .number = 10 + i,
                          .visibility_seconds = 1,
                          .crash_percent = 5,
                          .fail_percent = 10,
                          .partial_percent = 20},
                         team);
    workload.consume({.group = "sleepy", .number = 20, .stall_percent = 30}, sleepy);
    workload.write(run_time / 2);
    EXPECT_EQ(first_partition(db), "1") << "a group that has stopped keeps everything";
    workload.consume({.group = "stopped", .number = 30}, stopped);
    workload.write(run_time / 2);
    workload.drain();
    wait_until("everything has been retired", [&] {
        return partitions_in(db, "left") == "0" && db.value("select count(*) from events") == "0";
    });
    maintenance.stop();
    EXPECT_GT(maintenance.rounds(), 3);
    EXPECT_GT(maintenance.deaths(), 3);
    EXPECT_EQ(maintenance.trouble(), "");
    const auto committed = workload.committed();
    EXPECT_GT(committed.size(), 500u);
    for (const auto* journal : {&alone, &team, &sleepy, &stopped}) {
        const auto verdict = journal->compare(committed);
        EXPECT_EQ(verdict.lost, 0u) << verdict.examples;
        EXPECT_EQ(verdict.phantom, 0u) << verdict.examples;
        if (journal != &sleepy) {
            EXPECT_EQ(verdict.out_of_order, 0u) << verdict.examples;
        }
    }
}

// The server dies within each step, and again after it.
TEST_P(OutboxRetention, a_crash_within_any_step_or_after_it_loses_nothing) {
    Cluster cluster(GetParam());
    const auto url = database_with_hasty_outbox(cluster);
    auto db = std::make_unique<Connection>(url);
    db->exec(
        "select baton.create_consumer_group('quick', 'events', 'earliest', retry_base => '1 hour', "
        "retry_limit => '1 hour'), "
        "baton.create_consumer_group('stopped', 'events', 'earliest')");
    const auto crash = [&] {
        Connection witness(url);
        ::kill(db->backend_pid(), SIGKILL);
        wait_until("the server has noticed", [&] {
            try {
                witness.exec("select");
                return false;
            } catch (const Error&) {
                return true;
            }
        });
        wait_until("the server has recovered", [&] {
            try {
                db = std::make_unique<Connection>(url);
                db->exec("select");
                return true;
            } catch (const Error&) {
                return false;
            }
        });
    };
    int published = 0;
    std::string expected, quick, stopped;
    const auto publish = [&] {
        const auto number = std::to_string(++published);
        db->exec("insert into events (event_type, partition_key) values ('" + number + "', '" + number +
                 "')");
        expected += (expected.empty() ? "" : ",") + number;
    };
    const auto settle = [&](const std::string& group, std::string& numbers) {
        if (const auto more = drain(*db, group); !more.empty())
            numbers += (numbers.empty() ? "" : ",") + more;
    };
    std::set<std::string> phases;
    const auto one_round = [&](bool within) {
        std::string resume;
        do {
            publish();
            if (within) {
                db->exec("begin");
                step(*db, resume);
                crash();
            }
            resume = step(*db, resume);
            if (const auto at = resume.find("\"phase\": \""); at != std::string::npos)
                phases.insert(resume.substr(at + 10, resume.find('"', at + 10) - at - 10));
            if (!within) crash();
            settle("quick", quick);
        } while (!resume.empty());
    };
    one_round(true);
    settle("stopped", stopped);
    one_round(true);
    settle("stopped", stopped);
    one_round(false);
    settle("stopped", stopped);
    for (int i = 0; i < 3; ++i) db->exec("call baton.run_maintenance()");
    settle("quick", quick);
    settle("stopped", stopped);
    EXPECT_EQ(quick, expected);
    EXPECT_EQ(stopped, expected);
    EXPECT_EQ(phases, (std::set<std::string>{"choose", "common", "copy", "detach", "extend", "release",
                                             "rotate", "watch"}));
    db->exec("call baton.run_maintenance()");
    EXPECT_EQ(partitions_in(*db, "left"), "0");
    EXPECT_EQ(db->value("select count(*) from events"), "0");
}

// A reader keeps the log busy, and another holds a parked event: publishers go on, and so does maintenance.
TEST_P(OutboxRetention, maintenance_waits_for_nobody_and_nobody_who_publishes_waits_for_it) {
    const auto url = database_with_hasty_outbox(shared_cluster(GetParam()));
    Connection db(url), reader(url), settler(url), publisher(url), maintenance(url);
    db.exec(
        "select baton.create_consumer_group('g', 'events', 'earliest', retry_base => '0', retry_limit => "
        "'0')");
    db.exec(
        "insert into events (event_type, partition_key) select 'e', i::text from generate_series(1, 2000) i");
    const auto batch =
        db.query("select lease_token, max(id) from baton.poll_outbox('g', 'c', 5000) group by 1");
    db.query(
        "select baton.fail_events('g', 'c', array(select generate_series(1, 2000)), 'boom', lease_token => "
        "$1::uuid)",
        {batch.text(0, 0)});
    const auto parked = db.query("select id, lease_token from baton.poll_outbox('g', 'c', 1)");
    settler.exec("begin");
    settler.query("select baton.commit_offset('g', 'c', $1, $2::uuid)",
                  {parked.text(0, 0), parked.text(0, 1)});
    reader.exec("begin; select count(*) from events");
    maintenance.exec("call baton.run_maintenance()");
    ASSERT_EQ(partitions_in(db, "left"), "1") << "the log moves on, the reader keeps what it has left";
    publisher.exec("set lock_timeout = '5s'");
    std::atomic<bool> stop{false};
    std::atomic<int> published{0};
    std::string refused;
    std::thread publishing([&] {
        try {
            while (!stop) publisher.exec("insert into events (event_type) values ('on')"), ++published;
        } catch (const SqlError& error) {
            refused = error.what();
        }
    });
    maintenance.exec("call baton.run_maintenance()");
    EXPECT_EQ(first_partition(db), "1");
    reader.exec("commit");
    maintenance.exec("call baton.run_maintenance()");
    EXPECT_EQ(first_partition(db), "1") << "so does the one who settles, with the lock of one parked event";
    settler.query("select count(*) from baton.poll_outbox('g', 'd', 1)");
    settler.exec("commit");
    const int before = published;
    wait_until("publishing goes on", [&] { return published > before + 10 || !refused.empty(); });
    stop = true;
    publishing.join();
    EXPECT_EQ(refused, "");
    wait_until("the partition goes", [&] {
        maintenance.exec("call baton.run_maintenance()");
        return first_partition(db) != "1";
    });
    EXPECT_EQ(db.value("select count(*) from baton_internal.parked where event is null"), "0");
    EXPECT_EQ(db.value("select deadlocks from pg_stat_database where datname = current_database()"), "0");
}

TEST_P(OutboxRetention, two_who_maintain_at_once_wait_for_each_other_and_both_go_on) {
    const auto url = database_with_hasty_outbox(shared_cluster(GetParam()));
    Connection db(url), other(url);
    db.exec("insert into events (event_type) values ('e')");
    std::string resume;
    do {
        resume = step(db, resume);
        ASSERT_FALSE(resume.empty());
    } while (resume.find("\"rotate\"") == std::string::npos);
    other.exec("begin; update baton.outboxes set maintained_at = clock_timestamp()");
    resume = step(db, resume);
    EXPECT_NE(resume.find("\"rotate\""), std::string::npos) << resume;
    other.exec("commit");
    while (!resume.empty()) resume = step(db, resume);
    EXPECT_EQ(partitions_in(db, "left"), "0") << "the log has moved on, and what it left is gone";
    EXPECT_EQ(db.value("select count(*) from events"), "0");
}

TEST_P(OutboxRetention, who_maintains_an_outbox_that_somebody_else_maintains_for_long_leaves_it_to_them) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url);
    db.exec("select baton.create_outbox('events')");
    Connection other(url);
    other.exec("begin; select from baton.outboxes for no key update");
    db.exec("call baton.run_maintenance('events')");  // ends by itself, and without an error
    EXPECT_EQ(db.value("select maintained_at is null from baton.outboxes"), "t");
    other.exec("commit");
    db.exec("call baton.run_maintenance('events')");
    EXPECT_EQ(db.value("select maintained_at is null from baton.outboxes"), "f");
}

TEST_P(OutboxRetention, a_consumer_that_holds_its_own_row_does_not_stop_maintenance) {
    const auto url = database_with_hasty_outbox(shared_cluster(GetParam()));
    Connection db(url), consumer(url);
    db.exec("select baton.create_consumer_group('g', 'events', 'earliest')");
    db.exec("insert into events (event_type) values ('e')");
    db.exec("select baton.consumer_heartbeat('g', 'c')");
    db.exec("update baton_internal.consumers set last_heartbeat_at = now() - interval '25 hours'");
    consumer.exec("begin; select baton.consumer_heartbeat('g', 'c')");
    db.exec("call baton.run_maintenance()");
    EXPECT_EQ(partitions_in(db, "left"), "1") << "the log moves on all the same";
    consumer.exec("commit");
}

// Neither a publisher nor a reader stands in the way, nor waits.
TEST_P(OutboxRetention, an_outbox_is_altered_while_it_is_written_and_read) {
    const auto url = database_with_hasty_outbox(shared_cluster(GetParam()));
    Connection db(url), publisher(url), reader(url);
    publisher.exec("begin; insert into events (event_type, idempotency_key) values ('e', 'k')");
    reader.exec("begin; select count(*) from events");
    db.exec("set lock_timeout = '5s'");
    db.exec(
        "select baton.alter_outbox('events', retention => '1 hour', archive_for => '1 hour', "
        "partition_interval "
        "=> '1 hour', partition_bytes => 1000000, idempotency_window => '1 hour', ordered => false)");
    publisher.exec("insert into events (event_type, idempotency_key) values ('e', 'other'); commit");
    EXPECT_EQ(
        db.value(
            "select expires_at < now() + interval '2 hours' from baton_internal.idempotency_keys where key = "
            "'other'"),
        "t");
}

INSTANTIATE_TEST_SUITE_P(Forms, OutboxRetention, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
