// The whole at a glance, and everything that may be wrong.

#include "baton/version.hpp"
#include "operations/catalog.hpp"
#include "operations/checks.hpp"

namespace baton::operations {

namespace {

using postgres::Connection;

// True when a job of pg_cron in this database runs baton's jobs.
bool cron_runs_jobs(Connection& db) {
    return db.value(
               "select coalesce(has_schema_privilege(to_regnamespace('cron'), 'usage') and "
               "has_table_privilege(to_regclass('cron.job'), 'select'), false)") == "t" &&
           db.value(
               "select exists (select from cron.job where active and database = current_database() and "
               "command ilike '%run_due_jobs%')") == "t";
}

// Who runs the jobs, in words; null when nobody does.
Json who_runs_jobs(Connection& db, const Json& server) {
    if (server["preloaded"] == true &&
        db.value("select current_setting('baton.scheduler_enabled', true)") == "on")
        return "the server's worker";
    if (server["leader"].is_string()) return "relay " + server["leader"].get<std::string>();
    if (cron_runs_jobs(db)) return "pg_cron";
    if (db.value(
            "select exists (select from baton.jobs j where j.last_run > clock_timestamp() - interval '10 "
            "minutes')") == "t")
        return "somebody who calls run_due_jobs()";
    return nullptr;
}

Json server_of(Connection& db) {
    Json server = Json::parse(row_of(db, R"sql(
        select current_setting('server_version') as postgresql, current_database() as database, current_user as "user", i.version as installed, i.form,
               baton.doorbell_kind() as wake_up,
               -- who may not read the setting sees whether a session begins with the module's own
               i.form = 'extension' and coalesce((select s.setting ~ '(^|[ ,"/])baton($|[ ,"])' from pg_settings s where s.name = 'shared_preload_libraries'),
                                                 current_setting('baton.scheduler_enabled', true) is not null) as preloaded, pg_is_in_recovery() as standby,
               (select l.owner from baton_internal.relay_leader l where l.duty = 'jobs' and l.until > clock_timestamp()) as leader
          from baton.installation i)sql"));
    server["jobs_run_by"] = who_runs_jobs(db, server);
    server["program"] = version();
    return server;
}

Json totals_of(Connection& db) {
    return Json::parse(row_of(db, R"sql(
        select (select count(*) from baton.outboxes) + (select count(*) from baton.adopted_outboxes) as outboxes, (select count(*) from baton.consumer_groups) as groups,
               (select count(*) from baton.pipelines) as pipelines, (select count(*) from baton.inboxes) as inboxes, (select count(*) from baton.stream_tables) as stream_tables,
               (select coalesce(sum(d.dead_letters), 0)::bigint from baton.dead_letter_depth d) as dead_letters,
               (select coalesce(sum(t.events_published), 0)::bigint from baton.throughput t) as published)sql"));
}

Json flat(const Json& checked) {
    Json findings = Json::array();
    for (const auto& check : checked)
        for (const auto& finding : check["findings"]) findings.push_back(finding);
    return findings;
}

std::string overview(Connection& db, const Arguments&) {
    return Json{
        {"server", server_of(db)}, {"totals", totals_of(db)}, {"findings", flat(run_checks(db, true))}}
        .dump();
}

std::string doctor(Connection& db, const Arguments&) {
    Json checked = run_checks(db, false);
    Json findings = flat(checked);
    return Json{{"server", server_of(db)}, {"checks", std::move(checked)}, {"findings", std::move(findings)}}
        .dump();
}

}  // namespace

std::vector<Operation> overview_operations() {
    return {
        {.name = "overview",
         .method = "GET",
         .path = "/overview",
         .about = "the whole at a glance: the server, how much there is of what, and what needs somebody",
         .shape = {{"server", Kind::json, "the server and what is installed"},
                   {"totals", Kind::json, "how much there is of what"},
                   {"findings", Kind::json,
                    "what needs somebody: severity, object, what, fix (a command), note"}},
         .work = overview},
        {.name = "doctor",
         .method = "GET",
         .path = "/doctor",
         .about = "everything that may be wrong, each with the command that mends it",
         .shape = {{"server", Kind::json, "the server and what is installed"},
                   {"checks", Kind::json, "what was looked at, with the findings of each"},
                   {"findings", Kind::json, "all findings: severity, object, what, fix (a command), note"}},
         .work = doctor,
         .limit = std::chrono::seconds(60)},
    };
}

}  // namespace baton::operations
