#include "server/endpoints.hpp"

#include "operations/catalog.hpp"

namespace baton::server {

using operations::Answer;
using operations::Json;
using operations::Kind;
using operations::Parameter;
using operations::Right;

namespace {

Json object(const Json& properties) {
    Json required = Json::array();
    for (const auto& [name, schema] : properties.items()) required.push_back(name);
    return {{"type", "object"}, {"properties", properties}, {"required", required}};
}
Json typed(const Json& type, const char* about) {
    return {{"type", type}, {"description", about}};
}
Json maybe(const char* type, const char* about) {
    return typed(Json::array({type, "null"}), about);
}
Json list_of(const Json& item, const char* about = nullptr) {
    Json list{{"type", "array"}, {"items", item}};
    if (about != nullptr) list["description"] = about;
    return list;
}
Json map_of(const Json& value, const char* about) {
    return {{"type", "object"}, {"additionalProperties", value}, {"description", about}};
}

const Json text_or_null{{"type", Json::array({"string", "null"})}};

Json session_schema() {
    return object(
        {{"name", maybe("string", "whose token it is")},
         {"right", {{"enum", Json::array({"none", "view", "operate"})}, {"description", "what they may do"}}},
         {"tokens", typed("boolean", "somebody has a token")},
         {"csrf", maybe("string", "what changes with the cookie send as X-Baton-CSRF")}});
}

Json history_schema() {
    const Json numbers =
        list_of({{"type", Json::array({"number", "null"})}}, "one for each time; null: unknown");
    Json series = Json::object();
    for (const char* name : {"published", "delivered", "failed", "lag_events", "lag_seconds", "dead_letters",
                             "p50_ms", "p99_ms"})
        series[name] = numbers;
    Json pipeline = Json::object();
    for (const char* name : {"delivered", "failed", "p50_ms", "p99_ms"}) pipeline[name] = numbers;
    return object({{"step", typed("integer", "seconds between two times")},
                   {"times", list_of({{"type", "integer"}}, "seconds since 1970")},
                   {"series", object(series)},
                   {"pipelines", map_of(object(pipeline), "by name; the busiest 50")},
                   {"groups", map_of(object({{"lag_events", numbers}}), "by name; the 50 furthest behind")}});
}

Json running_pipeline() {
    return {{"pipeline", typed("string", "name")},
            {"group", maybe("string", "the group that keeps its place")},
            {"state", typed("string", "what it does")},
            {"detail", typed("string", "why")},
            {"trouble", typed("string", "what hinders it; empty when all is well")},
            {"delivered", typed("integer", "events since the relay started")},
            {"failed", typed("integer", "attempts that failed since then")},
            {"buffered", typed("integer", "events read and not settled")},
            {"p50_ms", maybe("number", "half of the events took less, lately")},
            {"p99_ms", maybe("number", "of a hundred events 99 took less, lately")}};
}

Json relays_schema() {
    Json pipeline{{"relay", typed("string", "name of the relay")}};
    pipeline.update(running_pipeline());
    return object({{"items", list_of(object(pipeline))}});
}

Json relay_schema() {
    const Json pipeline = object(running_pipeline());
    return object({{"name", maybe("string", "of the relay; null when there is none inside")},
                   {"pipelines", list_of(pipeline)},
                   {"ready", typed("boolean", "nothing is wrong")},
                   {"reasons", list_of({{"type", "string"}}, "what is wrong")},
                   {"started_at", maybe("string", "when")}});
}

Json alerts_schema() {
    return object({{"items", list_of(object({{"at", maybe("string", "when")},
                                             {"event", typed("string", "what happened")},
                                             {"object", maybe("string", "to what")},
                                             {"detail", {{"type", "object"}}}}))}});
}

Json render_schema() {
    const Json message = object({{"offset", typed("integer", "offset of the event")},
                                 {"event_id", typed("string", "id of the event")},
                                 {"destination", typed("string", "topic, subject, queue or path")},
                                 {"message_id", typed("string", "what the broker deduplicates by")},
                                 {"key", typed("string", "what it is ordered by")},
                                 {"content_type", typed("string", "of the body")},
                                 {"headers", map_of({{"type", "string"}}, "headers")},
                                 {"body", typed("string", "what is sent")}});
    return object(
        {{"waiting", typed("boolean", "these wait for the pipeline; else the last ones are shown")},
         {"items", list_of(message)},
         {"left_out", list_of(object({{"offset", typed("integer", "offset of the event")},
                                      {"why", typed("string", "filtered out, or can never be sent")}}))}});
}

std::vector<Endpoint> session_endpoints() {
    return {
        {{.name = "show_session",
          .method = "GET",
          .path = "/session",
          .about = "who asks, and what they may do"},
         session_schema(),
         true},
        {{.name = "open_session",
          .method = "POST",
          .path = "/session",
          .about = "exchange a token for a session; the answer sets the cookie baton_session",
          .parameters = {{"token", Kind::text, "a token", true}}},
         session_schema(),
         true},
        {{.name = "close_session",
          .method = "DELETE",
          .path = "/session",
          .about = "end the session of the cookie"},
         session_schema(),
         true},
    };
}

std::vector<Endpoint> pipeline_endpoints() {
    const Parameter name{"pipeline", Kind::text, "name of a pipeline", true};
    return {
        {{.name = "render_pipeline",
          .method = "GET",
          .path = "/pipelines/{pipeline}/render",
          .about = "what a pipeline would send for the next events; sends nothing",
          .parameters = {name, {"limit", Kind::integer, "events, at most 100", false, 10}}},
         render_schema()},
        {{.name = "lint_pipeline",
          .method = "POST",
          .path = "/lint",
          .right = Right::operate,
          .about =
              "everything that is wrong with a pipeline's settings; changes nothing and connects nowhere",
          .parameters = {{"settings", Kind::json, "its settings, as in a relay's file", true},
                         {"pipeline", Kind::text, "its name", false, "pipeline"}}},
         object(
             {{"ok", typed("boolean", "nothing is wrong")}, {"problems", list_of(wrong_setting_schema())}})},
        {{.name = "show_example",
          .method = "GET",
          .path = "/sinks/{sink}/example",
          .about = "a relay's file with a pipeline to begin with, with remarks",
          .parameters = {{"sink", Kind::text, "type of the sink: kafka, nats, http and so on", true},
                         {"outbox", Kind::text, "what to read", false, "orders"},
                         {"pipeline", Kind::text, "its name; without it: OUTBOX-to-SINK"}}},
         object({{"pipeline", typed("string", "its name")}, {"text", typed("string", "the file, TOML")}})},
    };
}

}  // namespace

Json wrong_setting_schema() {
    return object({{"setting", maybe("string", "which, with its tables: sink.url; null: several")},
                   {"what", typed("string", "what is wrong with it")},
                   {"hint", typed("string", "what to do; may be empty")}});
}

const std::vector<Endpoint>& own_endpoints() {
    static const std::vector<Endpoint> all = [] {
        std::vector<Endpoint> own = session_endpoints();
        own.push_back(
            {{.name = "show_history",
              .method = "GET",
              .path = "/history",
              .about = "a day of rates, lags and latencies, from memory",
              .parameters = {{"since", Kind::integer, "seconds since 1970; without it: the last hour"},
                             {"step", Kind::integer,
                              "seconds between two values; without it: 10 for "
                              "the last hour, else 60"}}},
             history_schema()});
        own.push_back({{.name = "show_relay",
                        .method = "GET",
                        .path = "/relay",
                        .about = "the relay inside this program, and its pipelines"},
                       relay_schema()});
        own.push_back({{.name = "list_relays",
                        .method = "GET",
                        .path = "/relays",
                        .about = "pipelines of all relays that run now, as each relay noted its own within "
                                 "the last seconds"},
                       relays_schema()});
        own.push_back({{.name = "list_alerts",
                        .method = "GET",
                        .path = "/alerts",
                        .about = "the newest 200 alerts that this program has heard, the latest first"},
                       alerts_schema()});
        for (auto& endpoint : pipeline_endpoints()) own.push_back(std::move(endpoint));
        own.push_back({{.name = "follow",
                        .method = "GET",
                        .path = "/live",
                        .about = "server-sent events: tick every 2 s (overview, relay, pipelines "
                                 "of all relays, sample), alert when one is "
                                 "heard"},
                       {{"type", "string"}},
                       false,
                       "text/event-stream"});
        own.push_back(
            {{.name = "describe_api", .method = "GET", .path = "/openapi.json", .about = "this description"},
             {{"type", "object"}},
             true});
        return own;
    }();
    return all;
}

const std::vector<Endpoint>& endpoints() {
    static const std::vector<Endpoint> all = [] {
        std::vector<Endpoint> joined;
        for (const auto& operation : operations::catalog()) joined.push_back({operation});
        joined.insert(joined.end(), own_endpoints().begin(), own_endpoints().end());
        return joined;
    }();
    return all;
}

}  // namespace baton::server
