// The scheduler's launcher and workers on a server that preloads the module.

#include <gtest/gtest.h>
#include <signal.h>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

Cluster& server() {
    static Cluster cluster(Cluster::Options{
        Form::extension,
        true,
        {"baton.scheduler_nap = '20ms'", "baton.scheduler_workers = 30", "max_worker_processes = 40"}});
    return cluster;
}

std::string name_of(const std::string& url) {
    return url.substr(url.find("dbname=") + 7);
}

// Add a job that counts its runs in a table.
void add_counting_job(Connection& db) {
    db.exec("create table public.beats (at timestamptz, who text)");
    db.exec(
        "create function public.beat() returns void language sql as "
        "$$ insert into public.beats values (clock_timestamp(), current_user) $$");
    db.exec("insert into baton.jobs (name, routine, every) values ('beat', 'public.beat', '10 ms')");
}

// Add a job that takes its process down; it is the first in line.
void add_deadly_job(Connection& db) {
    db.exec(
        "create function public.die() returns void language sql as "
        "$$ select pg_terminate_backend(pg_backend_pid()), pg_sleep(600) $$");
    db.exec("insert into baton.jobs (name, routine, every) values ('a deadly one', 'public.die', '10 ms')");
}

int beats(Connection& db) {
    return std::stoi(db.value("select count(*) from public.beats"));
}

void wait_for_more_beats(Connection& db) {
    const int before = beats(db);
    wait_until("the job ran again", [&] { return beats(db) > before + 1; });
}

// The pid of the database's worker, or 0.
int worker_of(Connection& any, const std::string& database) {
    const auto found = any.query(
        "select pid from pg_stat_activity where backend_type = 'baton worker' and datname = $1", {database});
    return found.empty() ? 0 : found.number<int>(0, 0);
}

class Scheduler : public testing::Test {
  protected:
    std::string url = server().fresh_database();
    std::string database = name_of(url);
    Connection admin{server().server().url()};
};

}  // namespace

TEST_F(Scheduler, the_worker_runs_due_jobs_and_records_them) {
    Connection db(url);
    add_counting_job(db);
    wait_for_more_beats(db);
    EXPECT_EQ(db.value("select runs > 1 and failures = 0 and last_error is null and last_run is not null "
                       "from baton.jobs where name = 'beat'"),
              "t");
    EXPECT_NE(worker_of(db, database), 0);
}

TEST_F(Scheduler, a_failing_job_is_recorded_and_the_others_go_on) {
    Connection db(url);
    add_counting_job(db);
    db.exec(
        "create function public.jam() returns void language plpgsql as $$ begin raise exception 'no paper'; "
        "end $$");
    db.exec("insert into baton.jobs (name, routine, every) values ('fail', 'public.jam', '10 ms')");
    wait_until("the job failed twice",
               [&] { return db.value("select failures >= 2 from baton.jobs where name = 'fail'") == "t"; });
    EXPECT_EQ(db.value("select last_error from baton.jobs where name = 'fail'"), "P0001: no paper");
    wait_for_more_beats(db);
}

TEST_F(Scheduler, jobs_run_as_the_extensions_owner_in_a_restricted_context) {
    const auto empty = server().empty_database();
    wait_until("a worker has looked at the database and left", [&] {
        return admin.value("select xact_commit > 0 from pg_stat_database where datname = $1",
                           {name_of(empty)}) == "t" &&
               worker_of(admin, name_of(empty)) == 0;
    });
    Connection db(empty);
    db.exec("create role keeper superuser; set role keeper; create extension baton; reset role");
    add_counting_job(db);
    db.exec("grant all on public.beats to keeper");
    db.exec(
        "create function public.escape() returns void language plpgsql as "
        "$$ begin create temp table t (); end $$");
    db.exec("insert into baton.jobs (name, routine, every) values ('escape', 'public.escape', '10 ms')");
    wait_for_more_beats(db);
    EXPECT_EQ(db.value("select string_agg(distinct who, ',') from public.beats"), "keeper");
    wait_until("the job failed",
               [&] { return db.value("select failures > 0 from baton.jobs where name = 'escape'") == "t"; });
    EXPECT_EQ(db.value("select left(last_error, 5) from baton.jobs where name = 'escape'"), "42501");
}

// The worker is a superuser's process: what it works on must not become one.
TEST_F(Scheduler, the_worker_maintains_a_users_table_with_the_rights_of_the_tables_owner) {
    Connection db(url);
    const std::string mallory = "mallory_" + database;
    db.exec("create role " + mallory + "; grant baton_operator to " + mallory +
            "; create schema den authorization " + mallory +
            "; create table public.sightings (who text, won boolean); "
            "grant all on public.sightings to public; set role " +
            mallory);
    db.exec(
        "create function den.grab() returns trigger language plpgsql as $$ declare won boolean := true; "
        "begin begin execute format('alter role %I superuser', 'mallory_' || current_database()); "
        "exception when others then won := false; end; "
        "insert into public.sightings values (current_user, won); return coalesce(new, old); end $$");
    db.exec(
        "create table den.events (id int primary key, payload jsonb, done_at timestamptz); "
        "insert into den.events values (1, '{}', now() - interval '1 year'); "
        "create trigger early before update or delete on den.events "
        "for each row execute function den.grab()");
    db.exec(
        "select baton.adopt_outbox('den.events', mapping => '{\"columns\": {\"id\": \"id\", \"payload\": "
        "\"payload\", \"processed_at\": \"done_at\"}, \"retention\": {\"done_after\": \"1 day\"}}')");
    db.exec("reset role");
    db.exec("update baton.jobs set next_due = '-infinity' where name = 'maintain adopted outboxes'");
    wait_until("the worker has deleted the old row",
               [&] { return db.value("select count(*) from den.events") == "0"; });
    EXPECT_EQ(db.value("select string_agg(distinct who || ' ' || won, ',') from public.sightings"),
              mallory + " false");
    EXPECT_EQ(db.value("select rolsuper from pg_roles where rolname = $1", {mallory}), "f");
    db.exec("drop schema den cascade; drop owned by " + mallory + "; drop role " + mallory);
}

TEST_F(Scheduler, an_error_outside_of_jobs_is_survived) {
    Connection db(url);
    add_counting_job(db);
    wait_for_more_beats(db);
    const int pid = worker_of(db, database);
    const auto definition =
        db.value("select pg_get_functiondef('baton_internal.begin_due_job()'::regprocedure)");
    db.exec(
        "create or replace function baton_internal.begin_due_job() returns text language plpgsql as "
        "$$ begin raise exception 'out of order'; end $$");
    wait_until("the error is in the log", [&] {
        return server().server().log_tail(50).find("could not run its jobs: out of order") !=
               std::string::npos;
    });
    db.exec(definition);
    wait_for_more_beats(db);
    EXPECT_EQ(worker_of(db, database), pid) << "the same worker went on";
}

TEST_F(Scheduler, a_cancelled_job_has_failed_and_does_not_starve_the_others) {
    Connection db(url);
    db.exec("create function public.dawdle() returns void language sql as $$ select pg_sleep(600) $$");
    db.exec("insert into baton.jobs (name, routine, every) values ('dawdle', 'public.dawdle', '1 s')");
    wait_until("the job runs", [&] {
        return db.value(
                   "select count(*) from pg_stat_activity where backend_type = 'baton worker' and "
                   "datname = $1 and wait_event = 'PgSleep'",
                   {database}) == "1";
    });
    add_counting_job(db);
    db.query("select pg_cancel_backend($1)", {worker_of(db, database)});
    wait_until("the cancel is recorded", [&] {
        return db.value(
                   "select failures > 0 and last_error like '57014%' from baton.jobs where name = "
                   "'dawdle'") == "t";
    });
    wait_until("the other one ran", [&] { return beats(db) > 0; });
}

TEST_F(Scheduler, a_cancelled_job_is_tried_again_and_a_terminated_worker_comes_back) {
    Connection db(url);
    add_counting_job(db);
    wait_for_more_beats(db);
    const int first = worker_of(db, database);
    db.query("select pg_cancel_backend($1)", {first});
    wait_for_more_beats(db);
    db.query("select pg_terminate_backend($1)", {first});
    wait_until("another worker serves the database", [&] {
        const int now = worker_of(db, database);
        return now != 0 && now != first;
    });
    wait_for_more_beats(db);
}

TEST_F(Scheduler, a_killed_worker_comes_back_with_the_server) {
    int first = 0;
    {
        Connection db(url);
        add_counting_job(db);
        wait_for_more_beats(db);
        first = worker_of(db, database);
    }
    ::kill(first, SIGKILL);
    wait_until("the server has recovered", [&] {
        try {
            Connection db(url);
            wait_for_more_beats(db);
            return worker_of(db, database) != first;
        } catch (const Error&) {
            return false;
        }
    });
}

TEST_F(Scheduler, a_job_that_ends_its_worker_has_failed_and_starves_no_other) {
    Connection db(url);
    add_deadly_job(db);
    wait_until("the job has begun and ended its worker", [&] {
        return db.value(
                   "select count(*) from baton.jobs j where j.name = 'a deadly one' and not exists (select "
                   "from pg_stat_activity a where a.pid = j.begun_by)") == "1";
    });
    add_counting_job(db);
    wait_for_more_beats(db);
    EXPECT_EQ(
        db.value(
            "select next_due > now() and begun_at is not null from baton.jobs where name = 'a deadly one'"),
        "t")
        << "it waits for its next time";
    db.exec("update baton.jobs set next_due = '-infinity' where name = 'a deadly one'");
    wait_until("its end is recorded", [&] {
        return db.value(
                   "select failures > 0 and failed_in_a_row > 0 and last_error like '57P01: %' "
                   "from baton.jobs where name = 'a deadly one'") == "t";
    });
    db.exec("create or replace function public.die() returns void language sql as ''");
    db.exec("update baton.jobs set next_due = '-infinity' where name = 'a deadly one'");
    wait_until("a run that comes to its end is a good one", [&] {
        return db.value(
                   "select failed_in_a_row = 0 and last_error is null and begun_at is null from baton.jobs "
                   "where name = 'a deadly one'") == "t";
    });
    wait_for_more_beats(db);
}

TEST_F(Scheduler, a_job_whose_worker_is_killed_starves_no_other_when_the_server_is_back) {
    int worker = 0;
    {
        Connection db(url);
        db.exec("create function public.dawdle() returns void language sql as $$ select pg_sleep(600) $$");
        db.exec("insert into baton.jobs (name, routine, every) values ('a dawdle', 'public.dawdle', '1 s')");
        wait_until("the job runs", [&] {
            worker =
                db.query(
                      "select pid from pg_stat_activity where backend_type = 'baton worker' and datname = $1 "
                      "and wait_event = 'PgSleep'",
                      {database})
                        .empty()
                    ? 0
                    : worker_of(db, database);
            return worker != 0;
        });
        add_counting_job(db);
    }
    ::kill(worker, SIGKILL);
    wait_until("the server has recovered and the other job runs", [&] {
        try {
            Connection db(url);
            return beats(db) > 0;
        } catch (const Error&) {
            return false;
        }
    });
    Connection db(url);
    EXPECT_EQ(db.value("select begun_at is not null from baton.jobs where name = 'a dawdle'"), "t");
    db.exec("update baton.jobs set enabled = false where name = 'a dawdle'");
}

TEST_F(Scheduler, drop_extension_works_with_the_worker_running) {
    Connection db(url);
    add_counting_job(db);
    wait_for_more_beats(db);
    db.exec("drop extension baton cascade");
    wait_until("the worker has left", [&] { return worker_of(db, database) == 0; });
    const int before = beats(db);
    db.exec("create extension baton");
    db.exec("insert into baton.jobs (name, routine, every) values ('beat', 'public.beat', '10 ms')");
    wait_until("jobs run again", [&] { return beats(db) > before + 1; });
}

TEST_F(Scheduler, drop_database_works_with_the_worker_in_the_midst_of_a_job) {
    {
        Connection db(url);
        db.exec("create function public.dawdle() returns void language sql as $$ select pg_sleep(600) $$");
        db.exec("insert into baton.jobs (name, routine, every) values ('dawdle', 'public.dawdle', '1 s')");
        wait_until("the job runs", [&] {
            return db.value(
                       "select count(*) from pg_stat_activity where backend_type = 'baton worker' and "
                       "datname = $1 "
                       "and wait_event = 'PgSleep'",
                       {database}) == "1";
        });
    }
    admin.exec("drop database " + database);
    EXPECT_EQ(admin.value("select count(*) from pg_database where datname = $1", {database}), "0");
}

TEST_F(Scheduler, a_served_database_can_be_copied_and_renamed) {
    {
        Connection db(url);
        add_counting_job(db);
        wait_for_more_beats(db);
    }
    admin.exec("create database copy_of_" + database + " template " + database);
    Connection copy(server().server().url("copy_of_" + database));
    wait_for_more_beats(copy);
    admin.exec("alter database " + database + " rename to renamed_" + database);
    EXPECT_EQ(admin.value("select count(*) from pg_database where datname = $1", {"renamed_" + database}),
              "1");
}

TEST_F(Scheduler, only_who_may_drop_a_database_stops_its_worker) {
    Connection db(url);
    add_counting_job(db);
    wait_for_more_beats(db);
    const int pid = worker_of(db, database);
    admin.exec("create role stranger createdb login");
    Connection stranger(server().server().url("postgres", "stranger"));
    EXPECT_THROW(stranger.exec("drop database " + database), SqlError);
    EXPECT_THROW(stranger.exec("create database mine template " + database), SqlError);
    wait_for_more_beats(db);
    EXPECT_EQ(worker_of(db, database), pid);
}

TEST_F(Scheduler, a_reload_turns_it_off_and_on) {
    Connection db(url);
    add_counting_job(db);
    wait_for_more_beats(db);
    db.exec("alter system set baton.scheduler_enabled = off");
    db.exec("select pg_reload_conf()");
    wait_until("the worker has left", [&] { return worker_of(db, database) == 0; });
    db.exec("alter system reset baton.scheduler_enabled");
    db.exec("select pg_reload_conf()");
    wait_for_more_beats(db);
}

TEST(SchedulerTurns, more_databases_than_workers_take_turns) {
    Cluster cluster(Cluster::Options{
        Form::extension, true, {"baton.scheduler_nap = '20ms'", "baton.scheduler_workers = 1"}});
    std::vector<std::unique_ptr<Connection>> databases;
    for (int i = 0; i < 3; ++i) {
        databases.push_back(std::make_unique<Connection>(cluster.fresh_database()));
        add_counting_job(*databases.back());
        databases.back()->exec("update baton.jobs set every = '300 ms' where name = 'beat'");
    }
    for (auto& db : databases) {
        wait_for_more_beats(*db);
        EXPECT_LE(
            std::stoi(db->value("select count(*) from pg_stat_activity where backend_type = 'baton worker'")),
            1);
    }
    for (auto& db : databases) wait_for_more_beats(*db);
}

TEST(SchedulerWithoutPreload, a_call_that_runs_out_of_time_leaves_the_other_jobs_to_the_next_one) {
    Cluster cluster(Cluster::Options{Form::extension, false, {}});
    Connection db(cluster.fresh_database());
    db.exec("update baton.jobs set enabled = false");
    db.exec("create function public.dawdle() returns void language sql as $$ select pg_sleep(600) $$");
    db.exec("insert into baton.jobs (name, routine, every) values ('a dawdle', 'public.dawdle', '1 hour')");
    add_counting_job(db);
    db.exec("set statement_timeout = '200ms'");
    db.exec("call baton.run_due_jobs()");
    EXPECT_EQ(db.value("select left(last_error, 5) from baton.jobs where name = 'a dawdle'"), "57014");
    EXPECT_EQ(beats(db), 0);
    db.exec("set statement_timeout = 0");
    db.exec("update baton.jobs set every = '1 hour' where name = 'beat'");
    db.exec("call baton.run_due_jobs()");
    EXPECT_EQ(beats(db), 1);
}

TEST(SchedulerWithoutPreload, a_job_that_ends_its_session_leaves_the_other_jobs_to_the_next_call) {
    Cluster cluster(Cluster::Options{Form::extension, false, {}});
    const auto url = cluster.quiet_database();
    {
        Connection db(url);
        add_deadly_job(db);
        add_counting_job(db);
        EXPECT_THROW(db.exec("call baton.run_due_jobs()"), Error);
    }
    Connection db(url);
    EXPECT_EQ(beats(db), 0);
    db.exec("update baton.jobs set every = '1 hour' where name = 'beat'");
    db.exec("call baton.run_due_jobs()");
    EXPECT_EQ(beats(db), 1);
}

TEST(SchedulerWithoutPreload, jobs_run_when_somebody_calls_them) {
    Cluster cluster(Cluster::Options{Form::extension, false, {}});
    Connection db(cluster.fresh_database());
    add_counting_job(db);
    db.exec("call baton.run_due_jobs()");
    EXPECT_EQ(db.value("select runs >= 1 from baton.jobs where name = 'beat'"), "t");
    EXPECT_EQ(db.value("select count(*) from pg_stat_activity where backend_type like 'baton %'"), "0");
}
