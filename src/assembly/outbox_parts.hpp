#pragma once
// Sources that are tables of a PostgreSQL server, this one or another: a group of an outbox of baton's own,
// or an adopted table. Which of both a name means is known only when the server is asked.

#include "assembly/pipeline_parts.hpp"

namespace baton::assembly {

// Let the pipeline read the table that the settings name. Connects nowhere.
void read_from_outbox(relay::PipelineParts& parts, const relay::Settings& source,
                      const relay::Settings& failure, const RelayIdentity& identity);

// Look whether the table is there and may be worked. Throws Error.
void check_outbox(const relay::Settings& source, const relay::Settings& failure,
                  const RelayIdentity& identity);

}  // namespace baton::assembly
