#pragma once
// Putting a pipeline together from its settings: the source that they name, the sink, and what lies between.
//
//   name, enabled
//   [source]   outbox, lease, batch, batch_bytes, wake_up
//              type = "postgres", url                     ... of another server
//              group, start                               an outbox of baton's own
//              poll, hold_limit, ordered                  an adopted table
//              consumer, partition                        ... read by a consumer with its own offset
//              or a broker: type and what that source knows (docs/sources.md)
//   [sink]     type and what that sink knows; envelope, destination
//   [filter]   tenants, topics, event_types
//   [failure]  attempts, backoff, backoff_limit           in a row, before an event is parked
//              max_attempts, retry_base, retry_limit      of a parked event, before it is dead
//              breaker_threshold, breaker_backoff, breaker_limit
//              give_up_limit                              events in a row, before none is given up any more
//              on_poison = "park" | "block_key" | "halt"
//              of a broker: backoff, breaker_..., on_poison = "retry" | "halt"; nothing is ever parked
//   [limits]   max_in_flight, max_bytes, max_event_bytes, rate, drain

#include "relay/pipeline.hpp"
#include "relay/settings.hpp"

namespace baton::assembly {

struct RelayIdentity {
    std::string db;     // connection string of the database with the outboxes
    std::string owner;  // this relay's name, unlike any other's
};

// Throws SettingsError, with place and key, when the settings cannot be. Connects nowhere.
relay::PipelineParts make_parts(const relay::Settings& pipeline, const RelayIdentity& identity);

// Look whether what the pipeline reads from is there and may be read, without taking anything. Throws Error.
void check_source(const relay::Settings& pipeline, const RelayIdentity& identity);
// Look whether the pipeline's sink can be reached and what it writes to is there, without sending anything.
// Throws Error.
void check_sink(const relay::Settings& pipeline);

// A name for this process that no other has.
std::string make_owner_name();

}  // namespace baton::assembly
