#pragma once
// Sources that are tables of a PostgreSQL server, the relay's own or another: a group of a baton outbox, or
// an adopted table. Only the server knows which of the two a name means.

#include "assembly/pipeline_parts.hpp"

namespace baton::assembly {

// Let the pipeline read the table that the settings name. Connects nowhere.
void read_from_outbox(relay::PipelineParts& parts, const relay::Settings& source,
                      const relay::Settings& failure, const RelayIdentity& identity);

// Check that the table exists and may be worked. Throws Error.
void check_outbox(const relay::Settings& source, const relay::Settings& failure,
                  const RelayIdentity& identity);

}  // namespace baton::assembly
