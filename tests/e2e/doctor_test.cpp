// `baton doctor` against a live server: every ailment is made, found, and gone after the command that was
// printed was typed as it stands.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operations/checks.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

using namespace baton;
using namespace baton::test;
using operations::Json;

namespace {

// A thing that goes wrong, and what a person does about it.
struct Ailment {
    std::string check;   // that finds it
    std::string object;  // that it is found at
    std::string making;  // SQL, as the superuser
    // What the fix cannot do, because the cause is elsewhere: SQL after the fix. "note": the SQL or the baton
    // command that stands in the note.
    std::string cure = {};
    std::string options = {};  // of doctor's session
    std::string role = {};     // that doctor runs as
};

const char* const impatient = "-c baton.long_transaction_seconds=0 -c baton.old_snapshot_transactions=0";

const std::vector<Ailment> ailments{
    {"dead letters", "billing",
     "select baton.fail_events('billing', 'c', array_agg(id), 'declined', true, (array_agg(lease_token))[1]) "
     "from "
     "baton.poll_outbox('billing', 'c', 1);",
     "select baton.drop_consumer_group('billing');"},
    {"dead letters", "public.payments",
     "select baton.receive('payments', 'm1', 'paid', '{}');"
     "select baton.fail_inbox('payments', '{m1}'::text[], 'no account', permanent => true);",
     "select baton.drop_inbox('payments', cascade => true);"},
    {"groups that nobody serves", "abandoned",
     "insert into parcels (event_type, payload, occurred_at) values ('old', '{}', now() - interval '1 "
     "hour');",
     "note"},
    {"pipelines in trouble", "to-file",
     "select baton_internal.note_troubles('r1', '[{\"pipeline\": \"to-file\", \"state\": \"halted\", "
     "\"trouble\": \"no "
     "space\"}]', interval '1 day');",
     "select baton_internal.note_troubles('r1', '[]', interval '1 day');"},
    {"pipelines in trouble", "of-a-file",
     "select baton.create_consumer_group('of-a-file', 'orders');"
     "select baton_internal.note_troubles('r1', '[{\"pipeline\": \"of-a-file\", \"group\": \"of-a-file\", "
     "\"state\": \"running\", \"trouble\": \"no space\"}]', interval '1 day');",
     "select baton_internal.note_troubles('r1', '[]', interval '1 day'); select "
     "baton.drop_consumer_group('of-a-file');"},
    {"pipelines without a relay", "to-file",
     "select baton.enable_pipeline('to-file'); update baton.pipelines set updated_at = now() - interval '1 "
     "hour';",
     "select baton.delete_pipeline('to-file'), baton.drop_consumer_group('to-file');"},
    {"inboxes", "public.lost", "select baton.create_inbox('lost'); drop table lost cascade;"},
    {"inboxes", "public.slow",
     "select baton.create_inbox('slow'), baton.receive('slow', 's1', 'paid', '{}');"
     "update slow set received_at = now() - interval '1 hour', available_at = now() - interval '1 hour';",
     "select baton.drop_inbox('slow', cascade => true);"},
    {"stream tables", "public.shares",
     "update baton.stream_tables set failed_in_a_row = 1, last_error = '22012: division by zero';"},
    {"stream tables", "public.shares", "update baton.stream_tables set stopped_at = now();"},
    {"stream tables", "public.shares", "drop table sales cascade;"},
    {"jobs", "hopeless",
     "insert into baton.jobs (name, routine, every, failed_in_a_row, last_error, next_due)"
     "values ('hopeless', 'public.no_such', '1 hour', 1, '42883: no', now() + interval '1 hour');",
     "delete from baton.jobs where name = 'hopeless';"},
    {"jobs", "jobs",
     "insert into baton.jobs (name, routine, every, next_due)"
     "values ('late', 'baton_internal.next_job_due', '1 hour', now() - interval '3 hours');"},
    {
        "storage",
        "public.parcels",
        "select baton.set_setting('outbox_storage_critical_mb', '0');",
        "note",
    },
    {"partitions ahead", "public.parcels",
     "update baton.outboxes set created_at = now() - interval '1 hour' where outbox_id = 2; call "
     "drop_partitions_ahead();"},
    {"maintenance of outboxes", "public.orders",
     "update baton.outboxes set maintenance_error = 'no space' where outbox_id = 1;"},
    {"maintenance of outboxes", "outbox 3", "select baton.create_outbox('gone'); drop table gone cascade;"},
    {"long transactions", "given", "begin; select 1; prepare transaction 'given';", {}, impatient},
    {"sight of other sessions", "watcher", "", {}, {}, "watcher"},
    {"held snapshots", "left_behind", "select pg_create_physical_replication_slot('left_behind', true);"},
    {"held snapshots", "DATABASE",
     "update pg_database set datfrozenxid = ((pg_snapshot_xmax(pg_current_snapshot())::text::bigint - "
     "1600000000 + "
     "4294967296) % 4294967296)::text::xid where datname = current_database();"},
    {"bloat", "baton_internal.ballast",
     "create table baton_internal.ballast (n int) with (autovacuum_enabled = off);"
     "insert into baton_internal.ballast select generate_series(1, 110000); delete from "
     "baton_internal.ballast;",
     "drop table baton_internal.ballast;"},
    {"settings of baton", "outbox_enabled", "select baton.set_setting('outbox_enabled', 'off');"},
    {"settings of the server", "synchronous_commit", "alter role \"Odd one\" set synchronous_commit = off;"},
    {"settings of the server", "autovacuum", "alter system set autovacuum = off; select pg_reload_conf();"},
    {"settings of the server", "fsync", ""},
    {"files of the extension", "extension",
     "update pg_extension set extversion = '0.0.1' where extname = 'baton';",
     "update pg_extension set extversion = (select version from baton.installation) where extname = "
     "'baton';"},
    {"roles", "watcher", "", {}, {}, "watcher"},
    {"roles", "baton_viewer", "alter role baton_viewer rename to once_viewer;"},
    {"privileges of roles", "baton_relay", "revoke all on all functions in schema baton from baton_relay;"},
    {"privileges on outboxes", "baton_producer", "revoke all on orders from baton_producer;"},
};

const std::string furnishing = R"sql(
    create role watcher login; grant baton_viewer to watcher;
    create role "Odd one";
    select baton.create_outbox('orders'), baton.create_outbox('parcels'), baton.create_inbox('payments');
    select baton.create_consumer_group('billing', 'orders', 'earliest'), baton.create_consumer_group('abandoned', 'parcels', 'earliest');
    select baton.publish('orders', 'order.created', '{}');
    select baton.set_pipeline('to-file', jsonb_build_object('source', jsonb_build_object('outbox', 'orders'), 'sink', jsonb_build_object('type', 'file', 'path', :'file')));
    select baton.disable_pipeline('to-file');
    create table sales (amount int);
    select baton.create_stream_table('shares', 'select 1 / amount as share from sales', schedule => null, refresh_mode => 'FULL');
    create procedure drop_partitions_ahead() language plpgsql as $$
    declare
        p record;
    begin
        for p in select * from baton_internal.outbox_partitions where state in ('new', 'ahead') and outbox_id = 2 loop
            execute format('drop table %s', p.relation);
            delete from baton_internal.outbox_partitions where relation = p.relation;
        end loop;
    end $$;
)sql";

struct Doctor : ::testing::Test {
    Doctor() : url(server().quiet_database()), database(url.substr(url.find("dbname=") + 7)) {}

    // Type something into a shell, as the superuser.
    Ran type(const std::string& line) const {
        return run_separately(
            {.argv = {"sh", "-c", line},
             .environment = {{"BATON_DB", url},
                             {"FILE", folder / "events.jsonl"},
                             {"PATH", program_file().parent_path().string() + ":" + std::getenv("PATH")}}});
    }
    void sql(const std::string& text) const {
        const auto ran =
            type("psql -X -q -v ON_ERROR_STOP=1 -v file=\"$FILE\" \"$BATON_DB\" >/dev/null <<'END'\n" + text +
                 "\nEND\n");
        EXPECT_EQ(ran.exit_code, 0) << text << "\n" << ran.errors;
    }
    // Type a command of a finding as it stands; what asks is told yes.
    void obey(const std::string& command) const {
        if (!command.starts_with("baton ")) {
            ASSERT_TRUE(command.ends_with(";")) << command;
            return sql(command);
        }
        const auto ran = type(command + (command.starts_with("baton dead replay") ? " --yes" : ""));
        EXPECT_EQ(ran.exit_code, 0) << command << "\n" << ran.errors;
    }

    void mend(const Ailment& ailment);
    std::vector<Json> findings(const Ailment& of) const {
        std::string address = url;
        if (!of.role.empty()) address.replace(address.find("user=postgres"), 13, "user=" + of.role);
        if (!of.options.empty()) address += " options='" + of.options + "'";
        postgres::Connection db(address);
        const postgres::Transaction transaction(db);
        std::vector<Json> found;
        for (const auto& check : operations::run_checks(db, false))
            for (const auto& finding : check["findings"]) {
                EXPECT_FALSE(finding["what"].get<std::string>().starts_with("could not look")) << finding;
                if (check["check"] == of.check &&
                    finding["object"] == (of.object == "DATABASE" ? database : of.object))
                    found.push_back(finding);
            }
        return found;
    }

    // Nobody runs the jobs unless a test does.
    static Cluster& server() {
        static Cluster only({Form::extension, true, {"baton.scheduler_enabled = off"}});
        return only;
    }
    const TemporaryFolder folder;
    const std::string url, database;
};

// The command in a note: behind a colon, to the end.
std::string command_in(const Json& note) {
    const std::string text = note.get<std::string>();
    return text.substr(text.rfind(": ") + 2);
}

// Make one thing go wrong, and mend it as doctor says.
void Doctor::mend(const Ailment& ailment) {
    if (!ailment.making.empty()) sql(ailment.making);
    std::vector<Json> found;
    wait_until(
        "it is found", [&] { return !(found = findings(ailment)).empty(); }, std::chrono::seconds(60));
    const Json finding = found.front();
    const std::string fix = finding["fix"];
    if (fix == "baton relay") {  // it runs until it is stopped
        Process relay({.argv = {program_file(), "relay", "--listen", "127.0.0.1:0"},
                       .output = folder / "relay.log",
                       .environment = {{"BATON_DB", url}}});
        wait_until("the relay has it", [&] { return findings(ailment).empty(); });
        relay.stop();
    } else {
        obey(fix);
    }
    if (ailment.cure == "note")
        obey(command_in(finding["note"]));
    else if (!ailment.cure.empty())
        sql(ailment.cure);
    wait_until(
        "it is gone", [&] { return findings(ailment).empty(); }, std::chrono::seconds(60));
}

TEST_F(Doctor, every_ailment_is_found_and_gone_after_the_fix_that_is_printed) {
    sql(furnishing);
    for (const auto& ailment : ailments) {
        SCOPED_TRACE(ailment.check + ": " + ailment.object);
        EXPECT_NO_THROW(mend(ailment));
    }
    // Nobody is to publish into these, and doctor does not say so.
    sql("create table boxes (id int primary key); select baton.capture_table('boxes');"
        "select baton.create_stream_table('box_ids', 'select id from boxes', schedule => null);"
        "select baton.enable_outbox('box_ids'), baton.refresh_stream_table('box_ids');");
    const auto ran = run_baton({"doctor"}, {{"BATON_DB", url}});
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    for (const char* words : {"warning", "error"})
        EXPECT_EQ(ran.output.find(words), std::string::npos) << "nothing is left\n" << ran.output;
}

// Needs a restart of the server, and comes last.
TEST_F(Doctor, says_who_runs_the_jobs_and_how_to_preload) {
    const auto jobs_are_run_by = [&](const std::string& whom) {
        const auto ran = run_baton({"doctor"}, {{"BATON_DB", url}});
        EXPECT_NE(ran.output.find("jobs are run by " + whom + "\n"), std::string::npos) << ran.output;
    };
    jobs_are_run_by("nobody");
    sql("update baton.jobs set enabled = true where name = (select min(name) from baton.jobs where routine "
        "not like "
        "'%stream%'); call baton.run_due_jobs();");
    jobs_are_run_by("somebody who calls run_due_jobs()");
    sql("select baton_internal.take_lead('r1');");
    jobs_are_run_by("relay r1");
    sql("select baton_internal.leave_lead('r1');");
    // The extension pg_cron is not among the tests' packages; a table of its form is.
    sql("create schema cron; create table cron.job (active bool, database text, command text);"
        "insert into cron.job values (true, current_database(), 'call baton.run_due_jobs()');");
    jobs_are_run_by("pg_cron");

    const Ailment unloaded{"preload", "shared_preload_libraries", ""};
    EXPECT_TRUE(findings(unloaded).empty());
    sql("alter system set shared_preload_libraries = 'auto_explain'; alter system set "
        "baton.scheduler_enabled = on;");
    server().server().stop();
    server().server().start();
    const auto found = findings(unloaded);
    ASSERT_EQ(found.size(), 1);
    EXPECT_EQ(found[0]["fix"], "alter system set shared_preload_libraries = 'auto_explain', 'baton';");
    obey(found[0]["fix"]);
    server().server().stop();
    server().server().start();
    EXPECT_TRUE(findings(unloaded).empty());
    jobs_are_run_by("the server's worker");
}

TEST(Checks, a_clock_that_is_wrong_is_told_of_in_the_right_direction) {
    EXPECT_TRUE(operations::clock_findings(4.9).empty());
    EXPECT_EQ(operations::clock_findings(7)[0]["what"], "the server's clock is 7 s ahead of this machine's");
    EXPECT_EQ(operations::clock_findings(-7.2)[0]["what"], "the server's clock is 7 s behind this machine's");
}

TEST(Checks, versions_that_do_not_fit_are_told_of) {
    EXPECT_TRUE(operations::version_findings("0.2.0", "0.2.0", 140000).empty());
    EXPECT_EQ(operations::version_findings("0.1.0", "0.2.0", 140000)[0]["fix"], "baton init");
    EXPECT_EQ(operations::version_findings("0.2.0", "0.2.0", 130011)[0]["what"],
              "PostgreSQL 13 is not supported: baton needs 14 or later");
}

}  // namespace
