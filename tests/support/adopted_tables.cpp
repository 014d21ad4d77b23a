#include "support/adopted_tables.hpp"

#include <algorithm>

#include "baton/error.hpp"

namespace baton::test {
namespace {

const AdoptedTable messages{
    "messages", "outbox_messages", R"(
    create table outbox_messages (
        id bigint generated always as identity primary key, tenant_id bigint not null, aggregate_type text not null,
        aggregate_id bigint not null, event_type text not null, event_version smallint not null default 1,
        payload jsonb not null, occurred_at timestamptz not null default now(),
        available_at timestamptz not null default now(), processed_at timestamptz,
        attempts smallint not null default 0, last_error text, trace_id text);
    create index outbox_messages_pending_idx on outbox_messages (available_at, id) where processed_at is null;
    create table consumer_offsets (
        consumer_name text not null, partition_key text not null default '', last_processed_id bigint not null,
        last_processed_at timestamptz not null default now(), primary key (consumer_name, partition_key)))",
    "insert into outbox_messages (tenant_id, aggregate_type, aggregate_id, event_type, payload) "
    "select 1, 'Order', n, 'OrderConfirmed', '{}' from generate_series(1, $1) n",
    "select min(id) from outbox_messages"};

const AdoptedTable status{
    "status", "outbox", R"(
    create table outbox (
        id uuid primary key default gen_random_uuid(), aggregate_type varchar(100) not null, aggregate_id uuid not null,
        event_type varchar(100) not null, topic varchar(100) not null, partition_key varchar(100),
        payload jsonb not null, headers jsonb default '{}',
        status varchar(20) not null default 'pending' check (status in ('pending', 'published', 'failed')),
        retry_count smallint not null default 0, max_retries smallint not null default 5, published_at timestamptz,
        expires_at timestamptz not null default (now() + interval '24 hours'),
        created_at timestamptz not null default now());
    create index idx_outbox_status_created on outbox (status, created_at) where status = 'pending';
    create table processed_events (
        event_id uuid primary key, consumer_group varchar(100) not null, processed_at timestamptz not null default now(),
        expires_at timestamptz not null default (now() + interval '24 hours')))",
    "insert into outbox (aggregate_type, aggregate_id, event_type, topic, payload) "
    "select 'User', gen_random_uuid(), 'user.registered', 'users', '{}' from generate_series(1, $1) n",
    "select min(id::text) from outbox"};

const AdoptedTable locks{
    "locks",
    "outbox_events",
    R"(
    create table outbox_events (
        id uuid primary key, event_type varchar(100) not null, aggregate_type varchar(50) not null,
        aggregate_id uuid not null, topic varchar(255) not null, partition_key varchar(255) not null,
        payload jsonb not null, headers jsonb, trace_id varchar(64), idempotency_key varchar(128),
        correlation_id varchar(64), causation_id varchar(64), schema_version varchar(50),
        status varchar(20) not null default 'pending', attempts_made integer not null default 0,
        max_attempts integer not null default 6, last_error varchar(2000), scheduled_at timestamptz not null,
        completed_at timestamptz, locked_at timestamptz, locked_by varchar(255),
        created_at timestamptz not null default timezone('UTC', now()),
        updated_at timestamptz default timezone('UTC', now()),
        check (attempts_made <= max_attempts),
        check ((status = 'completed' and completed_at is not null) or (status <> 'completed' and completed_at is null)),
        check ((locked_at is null and locked_by is null) or (locked_at is not null and locked_by is not null)));
    create index idx_outbox_events_pending_fetch on outbox_events (scheduled_at)
        where status = 'pending' and locked_at is null and attempts_made < max_attempts;
    create index idx_outbox_events_locked_at on outbox_events (locked_at) where locked_at is not null)",
    "insert into outbox_events (id, event_type, aggregate_type, aggregate_id, topic, partition_key, payload, "
    "scheduled_at) "
    "select gen_random_uuid(), 'order.paid', 'order', gen_random_uuid(), 'orders', n::text, '{}', now() "
    "from generate_series(1, $1) n",
    "select min(id::text) from outbox_events",
    true};

const AdoptedTable ulid{
    "ulid", "outbox_events", R"(
    create table outbox_events (
        id varchar(26) primary key, topic varchar(100) not null, occurred_at timestamptz not null,
        schema_version smallint not null default 1, aggregate_id varchar(64) not null, aggregate_type varchar(50) not null,
        tenant_id varchar(32) not null default 'default', routing_key varchar(100), payload jsonb not null,
        metadata jsonb default '{}', status smallint not null default 0, retry_count smallint not null default 0,
        retry_after timestamptz, created_at timestamptz not null default now());
    create index idx_outbox_processing on outbox_events (status, retry_after) where status in (0, 2))",
    "insert into outbox_events (id, topic, occurred_at, aggregate_id, aggregate_type, payload) "
    "select baton.ulid(), 'catalog.product.created', now(), n::text, 'Product', '{}' from generate_series(1, "
    "$1) n",
    "select min(id) from outbox_events"};

}  // namespace

const std::vector<AdoptedTable>& adopted_tables() {
    static const std::vector<AdoptedTable> tables{messages, status, locks, ulid};
    return tables;
}

const AdoptedTable& adopted_table(const std::string& preset) {
    const auto& tables = adopted_tables();
    const auto found = std::ranges::find(tables, preset, &AdoptedTable::preset);
    if (found == tables.end()) throw Error("no table for preset " + preset);
    return *found;
}

}  // namespace baton::test
