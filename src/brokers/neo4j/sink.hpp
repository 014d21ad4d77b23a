#pragma once
// Projects events into a Neo4j database: nodes and edges by a Cypher statement from the settings
// (brokers/neo4j/statement.hpp), a batch per transaction, one transaction after the other.
//
// Delivered means that the transaction was committed. Events are applied in the order in which they are
// given, and an event that was applied is not applied again. When one is not taken, nothing of its key that
// was given after it is applied (keeps_order_after_failure).
//
// When the database refuses a batch, the sink runs the statement for no events. If that fails too,
// the statement is wrong, and all is shut until somebody mends the settings. Else it is an event: the batch
// is halved until the guilty one is alone, which is rejected, and the others are applied.
//
//   statement    Cypher, run for each event
//   marks        "BatonEvent": the label of the nodes that say which events were applied. Another label
//                begins a projection anew; "" leaves no marks, and the statement must bear repetition itself
//   payload      "json" | "text": a JSON payload as a value, or as its text
//   batch_size   500; batch_bytes 1 MiB
//   and what brokers/neo4j/access.hpp knows

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_neo4j_sink(const relay::Settings& settings);

}  // namespace baton::brokers
