// Alerts: one channel, JSON with event, at and object; and what happens when an outbox goes while it is
// polled.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class OutboxAlerts : public testing::TestWithParam<Form> {
  protected:
    OutboxAlerts() : url_(shared_cluster(GetParam()).quiet_database()), db_(url_), listener_(url_) {
        db_.exec(
            "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
            "'earliest'); "
            "insert into events (event_type, partition_key) values ('a', 'k'), ('b', 'l')");
        listener_.exec("listen baton_alert");
    }

    // Wait for an alert of this kind and return a field of it.
    std::string alerted(const std::string& event, const std::string& field) {
        std::string value;
        wait_until("there is an alert " + event, [&] {
            listener_.wait_readable(std::chrono::milliseconds(20));
            for (const auto& alert : listener_.take_notifications())
                if (db_.value("select $1::jsonb ->> 'event'", {alert.payload}) == event) {
                    EXPECT_EQ(db_.value("select ($1::jsonb ->> 'at')::timestamptz <= clock_timestamp()",
                                        {alert.payload}),
                              "t");
                    value =
                        db_.value("select $1::jsonb #>> string_to_array($2, '.')", {alert.payload, field});
                }
            return !value.empty();
        });
        return value;
    }

    std::string url_;
    Connection db_;
    Connection listener_;
};

}  // namespace

TEST_P(OutboxAlerts, a_dead_letter_is_announced_with_its_reason) {
    db_.exec(
        "select baton.poll_outbox('g', 'c'); select baton.fail_events('g', 'c', '{1}', 'cannot be', true)");
    EXPECT_EQ(alerted("dead_letter", "error"), "cannot be");
}

TEST_P(OutboxAlerts, seeking_is_announced) {
    db_.exec("select baton.seek_offset('g', 'c', 1)");
    EXPECT_EQ(alerted("consumer_seeked", "object"), "g");
}

TEST_P(OutboxAlerts, a_silent_consumer_is_announced_once_and_reaped_later) {
    db_.exec("select baton.poll_outbox('g', 'c')");
    db_.exec("update baton_internal.consumers set last_heartbeat_at = now() - interval '2 minutes'");
    db_.exec("call baton.run_maintenance()");
    EXPECT_EQ(alerted("consumer_unhealthy", "consumer"), "c");
    db_.exec("update baton_internal.consumers set last_heartbeat_at = now() - interval '25 hours'");
    db_.exec("call baton.run_maintenance()");
    EXPECT_EQ(alerted("consumer_reaped", "consumer"), "c");
    EXPECT_EQ(db_.value("select count(*) from baton.poll_outbox('g', 'next')"), "2") << "its lease is free";
}

TEST_P(OutboxAlerts, an_outbox_that_outgrows_its_limit_is_announced) {
    db_.exec("select baton.set_setting('outbox_storage_critical_mb', '0')");
    db_.exec("call baton.run_maintenance('events')");
    EXPECT_EQ(alerted("outbox_storage_critical", "object"), "public.events");
}

TEST_P(OutboxAlerts, relays_of_others_are_notified_once_for_each_transaction) {
    db_.exec("create schema shop; alter table events set schema shop; set search_path = shop, public");
    db_.exec("select baton.alter_outbox('events', notify_channel => 'others')");
    listener_.exec("listen others");
    db_.exec(
        "begin; insert into events (event_type) values ('x'); insert into events (event_type) values ('y'), "
        "('z'); "
        "select baton.publish('events', 'p', '{}'); commit");
    db_.exec("begin; insert into events (event_type) values ('x'); rollback");
    db_.exec("select baton.alter_outbox('events', reset => '{notify_channel}')");
    db_.exec("insert into events (event_type) values ('x'); notify others, 'the last'");
    std::string heard;
    wait_until("the last word is heard", [&] {
        listener_.wait_readable(std::chrono::milliseconds(20));
        for (const auto& word : listener_.take_notifications())
            heard += word.channel + ":" + word.payload + " ";
        return heard.ends_with("the last ");
    });
    EXPECT_EQ(heard, "others:shop.events others:the last ");
}

TEST_P(OutboxAlerts, publishers_do_not_wait_for_a_notify_channel_that_waits_for_a_reader) {
    db_.exec("select baton.alter_outbox('events', notify_channel => 'others')");
    listener_.exec("begin; select from events");
    std::atomic<bool> ended{false};
    std::string outcome;
    std::thread changing([&] {
        try {
            db_.exec("select baton.alter_outbox('events', reset => '{notify_channel}')");
        } catch (const SqlError& error) {
            outcome = error.sqlstate();
        }
        ended = true;
    });
    Connection watcher(url_);
    Connection publisher(url_);
    publisher.exec("set lock_timeout = '3s'");
    wait_until("the change waits", [&] {
        return ended || watcher.value("select count(*) from pg_locks where pid = $1 and not granted",
                                      {std::to_string(db_.backend_pid())}) != "0";
    });
    EXPECT_NO_THROW(publisher.exec("insert into events (event_type) values ('x')"));
    changing.join();
    EXPECT_EQ(outcome, "55P03");
    listener_.exec("commit");
    db_.exec("select baton.alter_outbox('events', reset => '{notify_channel}')");
}

TEST_P(OutboxAlerts, an_alert_too_large_for_the_channel_is_cut_not_lost) {
    db_.exec(
        "select baton_internal.alert('test_alert', 'thing', jsonb_build_object('big', repeat('x', 20000)))");
    EXPECT_EQ(alerted("test_alert", "truncated"), "true");
}

TEST_P(OutboxAlerts, a_stream_table_that_fails_is_announced_and_announced_again_when_it_is_left_alone) {
    db_.exec(
        "create table divisors (n int); insert into divisors values (1);"
        "select baton.create_stream_table('shaky', 'select 10 / n as q from divisors', '1 minute');"
        "select baton.set_setting('stream_max_failures', '2'); insert into divisors values (0)");
    const std::string attempt =
        "update baton.stream_tables set next_due = '-infinity'; select "
        "baton_internal.refresh_due_stream(null)";
    db_.exec(attempt);
    EXPECT_EQ(alerted("stream_table_failed", "error"), "22012: division by zero");
    db_.exec(attempt);
    EXPECT_EQ(alerted("stream_table_stopped", "failures"), "2");
}

TEST_P(OutboxAlerts, a_stream_table_that_is_not_what_it_should_be_is_announced_when_it_is_repaired) {
    if (GetParam() == Form::plain) GTEST_SKIP() << "every refresh is full";
    db_.exec(
        "create table facts (n int); insert into facts values (1), (2);"
        "select baton.create_stream_table('shown', 'select n from facts', null);"
        "set session_replication_role = replica; alter table shown disable trigger baton_stream;"
        "delete from shown where n = 1; alter table shown enable always trigger baton_stream;"
        "reset session_replication_role; delete from facts where n = 1;"
        "update baton.stream_tables set source_state = baton_internal.stream_state(stream_tables)");
    db_.exec("select baton.refresh_stream_table('shown')");
    EXPECT_EQ(alerted("stream_table_repaired", "wanted"), "1");
}

TEST_P(OutboxAlerts, a_stream_table_that_is_computed_in_full_for_once_is_announced) {
    if (GetParam() == Form::plain) GTEST_SKIP() << "every refresh is full";
    db_.exec(
        "create table facts (n int); select baton.create_stream_table('shown', 'select n from facts', null);"
        "select baton.enable_outbox('shown'); insert into facts values (1);"
        "select baton.refresh_stream_table('shown');"  // from the changes: nothing to tell
        "alter table facts disable trigger all; insert into facts values (2), (3); alter table facts enable "
        "trigger all; select baton.refresh_stream_table('shown')");
    EXPECT_EQ(alerted("outbox_full_refresh", "inserted"), "2");
    EXPECT_EQ(db_.value("select max(id) from outbox_shown"), "2");
}

TEST_P(OutboxAlerts, a_stream_table_for_which_too_many_changes_wait_is_announced) {
    if (GetParam() == Form::plain) GTEST_SKIP() << "nothing is captured";
    db_.exec(
        "create table facts (n int); select baton.create_stream_table('shown', 'select n from facts', null);"
        "select baton.set_setting('stream_buffer_rows', '100');"
        "insert into facts select generate_series(1, 1000); select baton_internal.maintain_streams()");
    EXPECT_EQ(alerted("stream_changes_dropped", "object"), "public.shown");
}

TEST_P(OutboxAlerts, maintenance_and_dropping_an_outbox_do_not_meet_head_on) {
    const std::string maintain =
        "do $$ declare resume jsonb; begin "
        "loop resume := baton.maintenance_step(resume); exit when resume is null; end loop; end $$";
    db_.exec("call baton.run_maintenance()");  // makes the next partitions
    db_.exec("begin; " + maintain);
    std::thread dropper([&] {
        Connection db(url_, "dropper");
        EXPECT_NO_THROW(db.exec("select baton.drop_outbox('events', cascade => true)"));
    });
    wait_until("the other waits", [&] {
        return listener_.value(
                   "select count(*) from pg_stat_activity where application_name = 'dropper' and "
                   "wait_event_type = 'Lock'") == "1";
    });
    db_.exec("select baton.set_setting('outbox_storage_critical_mb', '0'); " + maintain + "; commit");
    dropper.join();
    EXPECT_EQ(db_.value("select to_regclass('events')"), "");
}

TEST_P(OutboxAlerts, dropping_an_outbox_while_it_is_polled_ends_the_polls_with_a_clear_error) {
    std::atomic<bool> stop{false};
    std::atomic<int> polls{0};
    std::atomic<bool> ended{false};
    std::string said;
    std::thread poller([&] {
        Connection db(url_);
        Connection writer(url_);
        try {
            while (!stop) {
                writer.exec("insert into events (event_type, partition_key) values ('x', 'k')");
                db.exec(
                    "select baton.commit_offset('g', 'c', max(id)) from baton.poll_outbox('g', 'c') having "
                    "max(id) is not null");
                ++polls;
            }
        } catch (const SqlError& error) {
            said = error.sqlstate();
            ended = true;
        }
    });
    wait_until("it is polled", [&] { return polls > 5; });
    while (true) {
        try {
            db_.exec("select baton.drop_outbox('events', cascade => true)");
            break;
        } catch (const SqlError& error) {
            ASSERT_EQ(error.sqlstate(), "40P01");  // it may meet a poll head-on; the next try gets it
        }
    }
    wait_until("the poller noticed", [&] { return ended.load(); });
    stop = true;
    poller.join();
    EXPECT_TRUE(said == "42P01" || said == "42704" || said == "40P01") << said;
    EXPECT_EQ(db_.value("select count(*) from baton.consumer_groups"), "0");
    EXPECT_EQ(db_.value("select count(*) from baton_internal.pieces"), "0");
}

INSTANTIATE_TEST_SUITE_P(Forms, OutboxAlerts, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
