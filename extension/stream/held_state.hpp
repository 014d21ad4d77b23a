#pragma once
// The state of the database that a refresh computes from: one snapshot for everything that is refreshed
// together, taken when the tables that are read are locked. A TRUNCATE takes effect for older snapshots, too;
// behind the lock there is none that the snapshot does not see whole.

#include "pg/guard.hpp"

namespace baton::stream {

// The snapshot that is held; null when none is.
Snapshot held_snapshot() noexcept;

// Make the held snapshot the active one for a scope, with all that this transaction did itself until now. No
// effect when none is held. Only for use inside of pg::call: on an error the server puts things right.
void push_held_snapshot();
void pop_held_snapshot();

}  // namespace baton::stream
