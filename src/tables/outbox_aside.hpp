#pragma once
// Events that a relay has read and that cannot go now: they are not due, or an earlier one holds back their
// key.

#include <cstdint>
#include <string>
#include <vector>

#include "postgres/pipe.hpp"
#include "tables/outbox_batch.hpp"

namespace baton::tables {

// Let the server park what cannot go now. Returns the ids of all events of the batch that are parked, in
// order.
std::vector<std::int64_t> set_aside_what_cannot_go(postgres::Pipe& pipe, const std::string& group_id,
                                                   const std::string& epoch, const OutboxBatch& batch);

}  // namespace baton::tables
