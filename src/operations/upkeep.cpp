// What baton does by itself, how it is set, and who changed what.

#include "operations/catalog.hpp"

namespace baton::operations {

std::vector<Operation> upkeep_operations() {
    return {
        {.name = "list_jobs",
         .method = "GET",
         .path = "/jobs",
         .about = "what baton does by itself, and when it did it last",
         .answer = Answer::list,
         .shape = {{"job", Kind::text, "name"},
                   {"enabled", Kind::boolean, "is done"},
                   {"every_seconds", Kind::number, "how often"},
                   {"last_run", Kind::time, "when it was done last"},
                   {"last_seconds", Kind::number, "how long that took"},
                   {"next_due", Kind::time, "when it is due"},
                   {"runs", Kind::integer, "how often it was done"},
                   {"failed_in_a_row", Kind::integer, "how often it failed since it succeeded"},
                   {"error", Kind::text, "what it failed with"}},
         .sql = R"sql(
             select name as job, enabled, extract(epoch from every)::float8 as every_seconds, case when isfinite(last_run) then last_run end as last_run,
                    extract(epoch from last_duration)::float8 as last_seconds, case when isfinite(next_due) then next_due end as next_due, runs,
                    failed_in_a_row, last_error as error
               from baton.jobs order by 1)sql"},
        {.name = "list_settings",
         .method = "GET",
         .path = "/settings",
         .about = "settings: what holds now, and the default",
         .answer = Answer::list,
         .shape = {{"setting", Kind::text, "name"},
                   {"value", Kind::text, "what holds"},
                   {"default", Kind::text, "what holds when nobody says"},
                   {"kind", Kind::text, "boolean or integer"},
                   {"about", Kind::text, "what it does"},
                   {"updated_at", Kind::time, "when it was set"},
                   {"updated_by", Kind::text, "by whom"}},
         .sql = R"sql(
             select d.name as setting, coalesce(s.value, d.value) as value, d.value as default, d.kind, d.description as about, s.updated_at, s.updated_by
               from baton.setting_defaults d left join baton.settings s using (name) order by 1)sql"},
        {.name = "set_setting",
         .method = "PUT",
         .path = "/settings/{setting}",
         .right = Right::operate,
         .about = "change a setting of this database",
         .parameters = {{"setting", Kind::text, "name", true}, {"value", Kind::text, "its value", true}},
         .shape = {{"setting", Kind::text, "name"}, {"value", Kind::text, "its value"}},
         .sql = "select $1::text as setting, $2::text as value from (select baton.set_setting($1::text, "
                "$2::text)) x"},
        {.name = "list_actions",
         .method = "GET",
         .path = "/audit",
         .about = "who changed what, the latest first",
         .parameters = {{"object", Kind::text, "only what was done to this"}},
         .answer = Answer::page,
         .shape = {{"at", Kind::time, "when"},
                   {"actor", Kind::text, "the role"},
                   {"acting_for", Kind::text, "for whom the role's program acted"},
                   {"action", Kind::text, "what"},
                   {"object", Kind::text, "to what"},
                   {"details", Kind::json, "how"},
                   {"cursor", Kind::text, "where to go on behind it"}},
         .sql = R"sql(
             select at, actor, details ->> 'acting_for' as acting_for, action, object, details, entry_id::text as cursor
               from baton.audit_trail where ($1::text is null or object = $1::text) and ($2::bigint is null or entry_id < $2::bigint) order by entry_id desc limit $3::int)sql"},
        {.name = "list_publishers",
         .method = "GET",
         .path = "/publishers",
         .about = "transactions that have published and are still open, the longest first",
         .answer = Answer::list,
         .shape = {{"outbox", Kind::text, "where they published"},
                   {"pid", Kind::integer, "process at the server"},
                   {"role", Kind::text, "role"},
                   {"application", Kind::text, "program"},
                   {"since", Kind::time, "when the transaction began"},
                   {"seconds", Kind::number, "how long ago that is"},
                   {"state", Kind::text, "what it does"}},
         .sql = R"sql(
             select outbox, pid, role::text as role, application_name as application, xact_start as since, extract(epoch from open_for)::float8 as seconds, state
               from baton.publishers_in_flight limit 100)sql"},
    };
}

}  // namespace baton::operations
