// Pipelines: those of the catalog, and those of files that relays run now.

#include "operations/catalog.hpp"

namespace baton::operations {

namespace {

const Parameter pipeline{"pipeline", Kind::text, "name of a pipeline in the catalog", true};

const Shape pipeline_shape{
    {"pipeline", Kind::text, "name"},
    {"kept_in", Kind::text, "catalog, or file: then a relay has it in its own file"},
    {"enabled", Kind::boolean, "relays run it"},
    {"state", Kind::text, "what its relay does with it; disabled; or no relay"},
    {"trouble", Kind::text, "what hinders it, in that relay's words"},
    {"trouble_since", Kind::time, "since when"},
    {"source", Kind::text, "what it reads"},
    {"group", Kind::text, "the group that keeps its place"},
    {"sink", Kind::text, "where it writes"},
    {"owner", Kind::text, "the relay that runs it"},
    {"owned_until", Kind::time, "how long the relay has it, unless it renews"},
    {"delivered", Kind::integer, "events, since that relay began"},
    {"failed", Kind::integer, "attempts that failed since then"},
    {"lag_events", Kind::integer, "events that it has not delivered"},
    {"lag_seconds", Kind::number, "age of the oldest of them"},
    {"dead_letters", Kind::integer, "events that were given up"},
    {"revision", Kind::integer, "how often it was changed"},
    {"updated_at", Kind::time, "when it was changed last"},
    {"updated_by", Kind::text, "by whom"},
    {"settings", Kind::json, "its settings; secrets are never stored"},
};

// Of several relays that have a pipeline, the one counts that does not stand by. A relay says what hinders a
// pipeline of the catalog even where it cannot begin to run it.
const std::string pipeline_rows = R"sql(
    with running as (
        select distinct on (r.pipeline) r.* from baton.relay_pipelines r order by r.pipeline, r.state = 'standby', r.noted_at desc),
    troubles as (
        select t.pipeline, max(t.state) as state, min(t.since) as since, string_agg(t.trouble, '; ' order by t.relay) as trouble
          from baton.relay_troubles t where t.pipeline is not null group by t.pipeline),
    named as (
        select coalesce(p.name, r.pipeline) as name, coalesce(p.group_name, r.group_name) as group_name, p as kept, r as run
          from baton.list_pipelines() p full join running r on r.pipeline = p.name)
    select n.name as pipeline, case when (n.kept).name is null then 'file' else 'catalog' end as kept_in, (n.kept).enabled,
           case when not (n.kept).enabled then 'disabled' else coalesce((n.run).state, t.state, case when (n.kept).owner is null then 'no relay' else 'running' end) end as state,
           coalesce(t.trouble, (n.run).trouble) as trouble, t.since as trouble_since, coalesce((n.kept).outbox, (n.kept).settings #>> '{source,type}', g.outbox) as source,
           n.group_name as "group", (n.kept).sink, coalesce((n.kept).owner, (n.run).relay) as owner, (n.kept).owned_until, (n.run).delivered, (n.run).failed,
           l.lag_rows as lag_events, l.lag_seconds::float8 as lag_seconds, d.dead_letters, (n.kept).revision, (n.kept).updated_at, (n.kept).updated_by, (n.kept).settings
      from named n
      left join troubles t on t.pipeline = n.name
      left join baton.group_lag l on l.group_name = n.group_name
      left join baton.dead_letter_depth d on d.group_name = n.group_name
      left join lateral (select o.relation::text as outbox from baton.consumer_groups c join baton.outboxes o using (outbox_id) where c.group_name = n.group_name) g on true)sql";

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
                 .about = "pipelines of the catalog, and those of files that relays run now",
                 .shape = pipeline_shape,
                 .sql = pipeline_rows},
                "pipeline"),
        {.name = "show_pipeline",
         .method = "GET",
         .path = "/pipelines/{pipeline}",
         .about = "one pipeline",
         .parameters = {pipeline},
         .shape = pipeline_shape,
         .sql = pipeline_rows + " where n.name = $1"},
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
