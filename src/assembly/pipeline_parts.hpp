#pragma once
// Makes the parts of a pipeline from its settings: the source, the sink, and the policy between them.
//
//   name, enabled
//   [source]   outbox, lease, batch, batch_bytes, wake_up
//              type = "postgres", url                     ... of another server
//              group, start                               an outbox of baton's own
//              claim_check_rows                           ... of a stream table: large deltas in parts
//              poll, hold_limit, ordered                  an adopted table
//              consumer, partition                        ... read by a consumer with its own offset
//              or a broker: type and what that source knows (docs/sources.md)
//   [sink]     type and what that sink knows; envelope, destination
//   [filter]   tenants, topics, event_types
//   [failure]  attempts, backoff, backoff_limit           tries in a row before an event is parked
//              max_attempts, retry_base, retry_limit      tries of a parked event before it is dead
//              breaker_threshold, breaker_backoff, breaker_limit
//              give_up_limit                              events in a row before no more are given up
//              on_poison = "park" | "block_key" | "halt"
//              of a broker: backoff, breaker_..., on_poison = "retry" | "halt"; nothing is ever parked
//   [limits]   max_in_flight, max_bytes, max_event_bytes, rate, drain

#include "relay/pipeline.hpp"
#include "relay/settings.hpp"

namespace baton::assembly {

struct RelayIdentity {
    std::string db;     // connection string of the database with the outboxes
    std::string owner;  // this relay's name, by show_life(); no other relay has it
};

// Throws SettingsError with place and key when the settings cannot work. Connects nowhere.
relay::PipelineParts make_parts(const relay::Settings& pipeline, const RelayIdentity& identity);

// Check that the pipeline's source exists and may be read. Takes nothing. Throws Error.
void check_source(const relay::Settings& pipeline, const RelayIdentity& identity);
// Check that the pipeline's sink can be reached and that its destination exists. Sends nothing. Throws Error.
void check_sink(const relay::Settings& pipeline);

}  // namespace baton::assembly
