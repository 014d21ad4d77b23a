#pragma once
// The columns with which every row of an event begins, as baton_internal.relay_event_sql() gives them.

#include "event/event.hpp"
#include "postgres/result.hpp"

namespace baton::tables {

namespace column {
enum : int {
    id,
    event_id,
    tenant_id,
    aggregate_type,
    aggregate_id,
    event_type,
    schema_version,
    topic,
    partition_key,
    payload,
    headers,
    trace_id,
    correlation_id,
    causation_id,
    idempotency_key,
    occurred_at,
    others  // the first column that depends on the kind of row
};
}  // namespace column

inline Field field(const postgres::Result& rows, int row, int number) {
    if (rows.is_null(row, number)) return std::nullopt;
    return rows.view(row, number);
}

// Fill in the columns that are text in every kind of row.
inline void read_texts(Event& event, const postgres::Result& rows, int row) {
    event.tenant_id = field(rows, row, column::tenant_id);
    event.aggregate_type = field(rows, row, column::aggregate_type);
    event.aggregate_id = field(rows, row, column::aggregate_id);
    event.event_type = field(rows, row, column::event_type);
    event.topic = field(rows, row, column::topic);
    event.partition_key = field(rows, row, column::partition_key);
    event.trace_id = field(rows, row, column::trace_id);
    event.correlation_id = field(rows, row, column::correlation_id);
    event.causation_id = field(rows, row, column::causation_id);
    event.idempotency_key = field(rows, row, column::idempotency_key);
}

}  // namespace baton::tables
