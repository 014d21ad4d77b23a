// Pipelines of the catalog. Those of a relay's file are the relay's own, and it tells of them itself.

#include "operations/catalog.hpp"

namespace baton::operations {

namespace {

const Parameter pipeline{"pipeline", Kind::text, "name of a pipeline in the catalog", true};

const Shape pipeline_shape{
    {"pipeline", Kind::text, "name"},
    {"enabled", Kind::boolean, "relays run it"},
    {"source", Kind::text, "what it reads"},
    {"group", Kind::text, "the group that keeps its place"},
    {"sink", Kind::text, "where it writes"},
    {"owner", Kind::text, "the relay that runs it"},
    {"owned_until", Kind::time, "how long the relay has it, unless it renews"},
    {"trouble", Kind::text, "what hinders it, in that relay's words"},
    {"lag_events", Kind::integer, "events that it has not delivered"},
    {"lag_seconds", Kind::number, "age of the oldest of them"},
    {"dead_letters", Kind::integer, "events that were given up"},
    {"revision", Kind::integer, "how often it was changed"},
    {"updated_at", Kind::time, "when it was changed last"},
    {"updated_by", Kind::text, "by whom"},
    {"settings", Kind::json, "its settings; secrets are never stored"},
};

const std::string pipeline_rows = R"sql(
    select p.name as pipeline, p.enabled, coalesce(p.outbox, p.settings #>> '{source,type}') as source, p.group_name as "group", p.sink,
           case when p.owned_until > clock_timestamp() then p.owner end as owner, case when p.owned_until > clock_timestamp() then p.owned_until end as owned_until,
           (select string_agg(t.trouble, '; ' order by t.relay) from baton.relay_troubles t where t.pipeline = p.name) as trouble,
           l.lag_rows as lag_events, l.lag_seconds::float8 as lag_seconds, d.dead_letters, p.revision, p.updated_at, p.updated_by, p.settings
      from baton.list_pipelines() p
      left join baton.group_lag l on l.group_name = p.group_name
      left join baton.dead_letter_depth d on d.group_name = p.group_name)sql";

Operation change(const std::string& name, const std::string& method, const std::string& path,
                 const std::string& about, const std::string& call) {
    return {.name = name,
            .method = method,
            .path = path,
            .right = Right::operate,
            .about = about,
            .parameters = {pipeline},
            .shape = {{"pipeline", Kind::text, "name"}, {"done", Kind::text, "what was done"}},
            .sql = "select $1::text as pipeline, '" + name + "' as done from (select " + call + ") x"};
}

}  // namespace

std::vector<Operation> pipeline_operations() {
    return {
        by_name({.name = "list_pipelines",
                 .method = "GET",
                 .path = "/pipelines",
                 .about = "pipelines of the catalog",
                 .shape = pipeline_shape,
                 .sql = pipeline_rows},
                "pipeline"),
        {.name = "show_pipeline",
         .method = "GET",
         .path = "/pipelines/{pipeline}",
         .about = "one pipeline",
         .parameters = {pipeline},
         .shape = pipeline_shape,
         .sql = pipeline_rows + " where p.name = $1"},
        {.name = "set_pipeline",
         .method = "PUT",
         .path = "/pipelines/{pipeline}",
         .right = Right::operate,
         .about = "make a pipeline, or change it",
         .parameters = {pipeline,
                        {"settings", Kind::json, "its settings, as in a relay's file", true},
                        {"enabled", Kind::boolean,
                         "relays run it; left out: as it was, and a new one is run"}},
         .shape = {{"pipeline", Kind::text, "name"}, {"done", Kind::text, "what was done"}},
         .sql = "select $1::text as pipeline, 'set_pipeline' as done from (select "
                "baton.set_pipeline($1::text, $2::jsonb, coalesce($3::boolean, (select p.enabled from "
                "baton.pipelines p where p.name = $1), true))) x"},
        change("delete_pipeline", "DELETE", "/pipelines/{pipeline}",
               "delete a pipeline; its group keeps its place", "baton.delete_pipeline($1::text)"),
        change("enable_pipeline", "POST", "/pipelines/{pipeline}/enable", "let relays run a pipeline",
               "baton.enable_pipeline($1::text)"),
        change("disable_pipeline", "POST", "/pipelines/{pipeline}/disable",
               "make relays drain and stop a pipeline", "baton.disable_pipeline($1::text)"),
    };
}

}  // namespace baton::operations
