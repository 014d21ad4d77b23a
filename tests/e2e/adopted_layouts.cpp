#include "adopted_layouts.hpp"

#include <algorithm>

#include "support/adopted_tables.hpp"

namespace baton::test {

namespace {

// A failed event is tried again soon, so that a test need not wait long.
constexpr const char* soon = R"("backoff": {"kind": "fixed", "base_seconds": 1})";

Layout messages() {
    const auto& table = adopted_table("messages");
    return {"messages",
            table.name,
            table.ddl,
            "{" + std::string(soon) + "}",
            "insert into outbox_messages (tenant_id, aggregate_type, aggregate_id, event_type, payload) "
            "values (1, 'Order', substr($1, 2)::bigint, 'OrderConfirmed', jsonb_build_object('n', $2::int))",
            "select count(*) from outbox_messages where processed_at is not null",
            "select string_agg(payload ->> 'n', ' ') from outbox_messages_dlq"};
}

Layout status() {
    const auto& table = adopted_table("status");
    return {
        "status",
        table.name,
        table.ddl,
        "{" + std::string(soon) + "}",
        "insert into outbox (aggregate_type, aggregate_id, event_type, topic, partition_key, payload) "
        "values ('User', gen_random_uuid(), 'user.changed', 'users', $1, jsonb_build_object('n', $2::int))",
        "select count(*) from outbox where status = 'published' and published_at is not null",
        "select string_agg(payload ->> 'n', ' ') from outbox where status = 'failed'",
        true};
}

Layout locks(bool partitioned) {
    const auto& table = adopted_table("locks");
    std::string ddl = table.ddl;
    if (partitioned) {
        ddl.replace(ddl.find("id uuid primary key"), 19, "id uuid");
        const std::string end = "locked_by is not null)));";
        ddl.replace(
            ddl.find(end), end.size(),
            "locked_by is not null)), primary key (id, created_at)) partition by range (created_at);");
        ddl += "; create table outbox_events_now partition of outbox_events default";
    }
    return {partitioned ? "locks_partitioned" : "locks",
            table.name,
            ddl,
            "{" + std::string(soon) + "}",
            "insert into outbox_events (id, event_type, aggregate_type, aggregate_id, topic, partition_key, "
            "payload, scheduled_at) values (gen_random_uuid(), 'order.paid', 'order', gen_random_uuid(), "
            "'orders', $1, jsonb_build_object('n', $2::int), clock_timestamp())",
            "select count(*) from outbox_events where status = 'completed' and locked_by is null",
            "select string_agg(payload ->> 'n', ' ') from outbox_events where status = 'failed'",
            true};
}

Layout ulid() {
    const auto& table = adopted_table("ulid");
    return {
        "ulid",
        table.name,
        table.ddl,
        "{" + std::string(soon) + "}",
        "insert into outbox_events (id, topic, occurred_at, aggregate_id, aggregate_type, payload) values "
        "(baton.ulid(), 'catalog.changed', now(), $1, 'Product', jsonb_build_object('n', $2::int))",
        "select count(*) from outbox_events where status = 1",
        "select string_agg(payload ->> 'n', ' ') from outbox_events where status = 9"};
}

// An enum of states with one for claimed rows, payloads that are text, attempts kept by baton, and a table of
// its own for what is dead.
Layout mails() {
    return {"custom",
            "Mails",
            R"(create type mail_state as enum ('new', 'working', 'gone');
               create table "Mails" ("No" bigint generated always as identity primary key, state mail_state not
               null default 'new', body text, recipient text, taken timestamptz, taker varchar(20)))",
            R"({"columns": {"id": "No", "payload": "body", "status": "state", "partition_key": "recipient",
                            "locked_at": "taken", "locked_by": "taker"},
                "states": {"pending": "new", "claimed": "working", "done": "gone"}, "order": ["id"],
                "attempts": {"limit": 5}, "dead": {"as": "move", "table": "{table} returned"}, )" +
                std::string(soon) + "}",
            R"(insert into "Mails" (recipient, body) values ($1, '{"n": ' || $2::int || '}'))",
            R"(select count(*) from "Mails" where state = 'gone' and taken is null)",
            R"(select string_agg(body::json ->> 'n', ' ') from "Mails returned")",
            true};
}

}  // namespace

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{messages(), status(), locks(false), locks(true), ulid(), mails()};
    return all;
}

const Layout& layout(const std::string& label) {
    return *std::ranges::find(layouts(), label, &Layout::label);
}

}  // namespace baton::test
