#pragma once
// The statement of the settings, and what it gets.
//
// The statement is run for each event, which it sees as `event`:
//
//   event.id, event.key, event.type, event.aggregate_type, event.aggregate_id, event.tenant_id,
//   event.occurred_at     texts; null where the event has none
//   event.headers         a map of texts
//   event.payload         the payload: a JSON value, or a text; bytes that are no text as base64, with
//   event.encoding        = "base64" then, else null
//
// A batch of events is one transaction. Each event leaves a mark, a node with its id, in the transaction that
// applied it: an event that has one is not applied again.

#include <string>

#include "event/event.hpp"

namespace baton::brokers {

// What is run for a batch, $events. Without a label for marks there are none.
std::string neo4j_batch_statement(const std::string& statement, const std::string& marks);
// Makes marks unique, which also lets them be found.
std::string neo4j_mark_constraint(const std::string& marks);
// Removes the index of a constraint that was not made to the end: a server that is killed meanwhile keeps the
// index, and makes no constraint of that name any more. An index that belongs to a constraint stays.
std::string neo4j_drop_index_of_marks(const std::string& marks);
// The event as the statement sees it, as JSON. `as_text`: JSON payloads as their text.
std::string neo4j_event(const Message& message, bool as_text);

}  // namespace baton::brokers
