// Stream tables: a query kept up to date.

#include "operations/catalog.hpp"

namespace baton::operations {

namespace {

const Parameter stream{"stream_table", Kind::text, "name of a stream table", true};

const Shape stream_shape{
    {"stream_table", Kind::text, "name"},
    {"state", Kind::text, "what it does"},
    {"mode", Kind::text, "the refresh mode that was asked for"},
    {"effective_mode", Kind::text, "the one that it has"},
    {"reason", Kind::text, "why they differ"},
    {"schedule", Kind::text, "when it is refreshed"},
    {"next_due", Kind::time, "when it is due"},
    {"refreshed_at", Kind::time,
     "when it was refreshed last; as long as its tables do not change, nothing is to do"},
    {"last_mode", Kind::text, "how it was refreshed last"},
    {"last_inserted", Kind::integer, "rows that came"},
    {"last_deleted", Kind::integer, "rows that went"},
    {"last_milliseconds", Kind::number, "how long that took"},
    {"refreshes", Kind::integer, "how often it was refreshed"},
    {"failed_in_a_row", Kind::integer, "how often that failed since it succeeded"},
    {"error", Kind::text, "what it failed with"},
    {"outbox", Kind::text, "where its changes go"},
};

const std::string stream_rows = R"sql(
    select s.stream_table, s.state, s.refresh_mode as mode, s.effective_mode, s.reason, s.schedule, case when isfinite(s.next_due) then s.next_due end as next_due,
           s.refreshed_at, s.last_mode, s.last_inserted, s.last_deleted,
           s.last_milliseconds::float8 as last_milliseconds, s.refreshes, s.failed_in_a_row, s.last_error as error, s.outbox
      from baton.stream_table_status()sql";

const Shape refreshed{{"mode", Kind::text, "how it was refreshed"},
                      {"inserted", Kind::integer, "rows that came"},
                      {"deleted", Kind::integer, "rows that went"},
                      {"milliseconds", Kind::number, "how long it took"}};

Operation act(const std::string& name, const std::string& verb, const std::string& about, const Shape& shape,
              const std::string& sql) {
    return {.name = name,
            .method = "POST",
            .path = "/stream-tables/{stream_table}/" + verb,
            .right = Right::operate,
            .about = about,
            .parameters = {stream},
            .shape = shape,
            .sql = sql,
            .limit = std::chrono::minutes(10)};
}

}  // namespace

std::vector<Operation> stream_operations() {
    const Shape paused{{"stream_table", Kind::text, "name"}, {"state", Kind::text, "what it does now"}};
    return {
        by_name({.name = "list_stream_tables",
                 .method = "GET",
                 .path = "/stream-tables",
                 .about = "stream tables, and how fresh they are",
                 .shape = stream_shape,
                 .sql = stream_rows + ") s"},
                "stream_table"),
        {.name = "show_stream_table",
         .method = "GET",
         .path = "/stream-tables/{stream_table}",
         .about = "one stream table",
         .parameters = {stream},
         .shape = stream_shape,
         .sql = stream_rows + "$1) s"},
        {.name = "list_refreshes",
         .method = "GET",
         .path = "/stream-tables/{stream_table}/refreshes",
         .about = "the last refreshes of a stream table",
         .parameters = {stream},
         .answer = Answer::list,
         .shape = {{"begun_at", Kind::time, "when"},
                   {"mode", Kind::text, "how"},
                   {"inserted", Kind::integer, "rows that came"},
                   {"deleted", Kind::integer, "rows that went"},
                   {"milliseconds", Kind::number, "how long it took"},
                   {"error", Kind::text, "what it failed with"}},
         .sql = "select begun_at, mode, inserted, deleted, milliseconds::float8 as milliseconds, error from "
                "baton.stream_table_history($1)"},
        {.name = "explain_stream_table",
         .method = "GET",
         .path = "/stream-tables/{stream_table}/explanation",
         .about = "how a stream table is kept up to date",
         .parameters = {stream},
         .shape = {{"explanation", Kind::text,
                    "the operators, the statement, and why it is not differential where it is not"}},
         .sql = "select string_agg(e, E'\\n') as explanation from baton.explain_stream_table($1) e"},
        act("refresh_stream_table", "refresh", "refresh a stream table now", refreshed,
            "select mode, inserted, deleted, milliseconds::float8 as milliseconds from "
            "baton.refresh_stream_table($1)"),
        act("repair_stream_table", "repair", "compute a stream table anew and let it go on", refreshed,
            "select mode, inserted, deleted, milliseconds::float8 as milliseconds from "
            "baton.repair_stream_table($1)"),
        act("verify_stream_table", "verify", "compare a stream table with its query",
            {{"missing", Kind::integer, "rows that it lacks"},
             {"surplus", Kind::integer, "rows that it has too many"}},
            "select missing, surplus from baton.verify_stream_table($1)"),
        act("pause_stream_table", "pause", "stop refreshing a stream table by schedule", paused,
            "select $1::text as stream_table, 'paused' as state from (select "
            "baton.alter_stream_table($1::text, paused => true)) x"),
        act("resume_stream_table", "resume", "refresh a stream table by schedule again", paused,
            "select $1::text as stream_table, 'active' as state from (select "
            "baton.alter_stream_table($1::text, paused => false)) x"),
    };
}

}  // namespace baton::operations
