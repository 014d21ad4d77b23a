#pragma once
// A database with the outboxes "orders" and "letters" in which one thing after another goes wrong.

#include <string>

#include "support/cluster.hpp"

namespace baton::test {

class BrokenDatabase {
  public:
    explicit BrokenDatabase(const std::string& url) : admin_(url), publisher_(url), locker_(url) {
        admin_.exec("update baton.jobs set enabled = false");  // nobody mends what is broken here
    }

    void prepare_objects() {
        admin_.exec(R"(
            select baton.create_consumer_group(E'no"body\\s\n{} </script>', 'orders', 'earliest');
            select baton.create_outbox('letters');
            select baton.create_inbox('arrivals'), baton.create_inbox('"in order"'), baton.create_inbox('gone');
            select baton.enable_inbox_ordering('"in order"', 'aggregate_id', 'sequence_num');
            create table goods (id int primary key, price int);
            select baton.create_stream_table('cheap', 'select id from goods where price < 10', schedule => '1h');
            select baton.create_stream_table('pieces', 'select id, 100 / price as n from goods', schedule => '1h');
            select baton.refresh_stream_table('cheap'), baton.refresh_stream_table('pieces');
            create table latch ();
            create function tidy() returns void language sql as 'select';
            create function go_wrong() returns void language plpgsql as $$begin raise 'no'; end$$;
            create function wait() returns void language plpgsql as $$begin lock public.latch; end$$;
            create function refuse() returns event_trigger language plpgsql as $$begin raise 'no room'; end$$;
            create table moments (due timestamptz);
            create view work as select due from moments;
            insert into baton.jobs (name, routine, every, next_due, work)
            values ('waits', 'public.tidy', '1 day', now() - interval '1 hour', 'public.work'))");
        admin_.exec("call baton.run_maintenance()");
    }

    // A group that nobody reads any more: a dead letter, an event that fails for ever, late events, a silent
    // consumer.
    void break_groups() {
        admin_.exec(
            "select baton.seek_offset(group_name, 'c', null) from baton.consumer_groups "
            "where group_name like 'no%'");
        admin_.exec(
            "insert into orders (event_type, occurred_at) "
            "select 'old', now() - interval '1 hour' from generate_series(1, 5)");
        admin_.exec(
            "select count(*) from baton.consumer_groups g "
            "cross join lateral baton.poll_outbox(g.group_name, 'c', 3) p where g.group_name like 'no%'");
        admin_.exec(R"(
            select baton.fail_events(g.group_name, 'c', array[id], 'no', dead)
              from baton.consumer_groups g
             cross join (select id, row_number() over (order by id) = 1 as dead
                           from orders where event_type = 'old' order by id limit 2) e
             where g.group_name like 'no%')");
        admin_.exec(
            "update baton_internal.parked set attempt = 11 where state = 'retry';"
            "update baton_internal.consumers set last_heartbeat_at = now() - interval '5 minutes'");
    }

    // Partitions that are too old, in one outbox because of a group, in the other because of nobody; and none
    // ahead, because no table can be made.
    void break_outboxes() {
        admin_.exec("insert into letters (event_type) select 'old' from generate_series(1, 5)");
        admin_.exec("update baton.outboxes set partition_interval = '1 microsecond'");
        admin_.exec("call baton.run_maintenance()");
        admin_.exec(R"(
            update baton_internal.outbox_partitions set since = since - interval '9 days' where state = 'left';
            update baton_internal.outbox_partitions set state = 'archived' where state in ('new', 'ahead');
            create event trigger no_tables on ddl_command_start when tag in ('CREATE TABLE') execute function refuse();
            select baton.set_setting('outbox_storage_critical_mb', '0'))");
        admin_.exec("call baton.run_maintenance()");
    }

    void break_inboxes() {
        admin_.exec(R"(
            select baton.receive('arrivals', 'm', 't', '{}'),
                   baton.receive_malformed('arrivals', 'bad', '\x00', 'no');
            select baton.receive('"in order"', 'm3', 't', '{}', aggregate_id => 'a', sequence_num => 3),
                   baton.receive('"in order"', 'm', 't', '{}', aggregate_id => 'a');
            update arrivals set received_at = now() - interval '1 hour', available_at = now() - interval '1 hour';
            update "in order" set received_at = now() - interval '1 hour', available_at = now() - interval '1 hour';
            drop table gone cascade)");
    }

    // A query that fails, and one that nobody runs.
    void break_streams() {
        admin_.exec("select baton.set_setting('stream_max_failures', '3'); insert into goods values (1, 0)");
        for (int tries = 0; tries < 3; ++tries)
            admin_.exec(
                "select baton_internal.attempt_refresh(s, null) from baton.stream_tables s "
                "where relation = 'pieces'::regclass");
        admin_.exec(
            "update baton.stream_tables set next_due = now() - interval '1 hour' "
            "where relation = 'cheap'::regclass");
        admin_.exec("select baton_internal.alert('something_happened', 'x')");
    }

    // One job works, one fails, one waits for a lock, and one cannot be run when its work comes: somebody has
    // locked its row.
    void break_jobs() {
        publisher_.exec("lock latch; select from baton.jobs where name = 'waits' for update");
        admin_.exec(R"(
            insert into moments values (now() - interval '1 hour');
            insert into baton.jobs (name, routine, every)
            values ('works', 'public.tidy', '1 second'), ('fails', 'public.go_wrong', '1 second'))");
        wait_until("one job has failed three times, and one has not", [&] {
            return admin_.value(
                       "select (select failed_in_a_row >= 3 from baton.jobs where name = 'fails') and "
                       "(select runs > failures from baton.jobs where name = 'works')") == "t";
        });
        admin_.exec(
            "insert into baton.jobs (name, routine, every) values ('hangs', 'public.wait', '1 second')");
    }

    // Somebody publishes and forgets to commit.
    void leave_a_transaction_open() {
        publisher_.exec("begin; insert into orders (event_type) values ('open')");
    }

    // Let a relay's small question to the database take more than a second, though not so long that the
    // database counts as away.
    void be_slow_for_a_moment() {
        locker_.exec("begin; lock table baton.pipelines in access exclusive mode");
        wait_until("a relay has waited for more than a second", [&] {
            return admin_.value(
                       "select exists (select from pg_stat_activity where datname = current_database() and "
                       "wait_event_type = 'Lock' and query like '%from baton.pipelines%' and query_start < "
                       "clock_timestamp() - interval '1.5 s')") == "t";
        });
        locker_.exec("rollback");
    }

    // Let the question about inboxes fail: their catalog is locked.
    void hide_inboxes() { locker_.exec("begin; lock table baton.inboxes in access exclusive mode"); }
    void show_inboxes() { locker_.exec("rollback"); }

  private:
    Connection admin_;
    Connection publisher_;  // of a transaction that stays open
    Connection locker_;
};

}  // namespace baton::test
