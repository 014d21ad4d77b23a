#pragma once
// The doorbell: a commit that published events wakes readers that sleep. NOTIFY would do the same, but takes
// a lock over all commits.
//
// A statement trigger marks the transaction. When the transaction has committed and its rows are visible, it
// adds one to the counter of its outbox in shared memory and wakes the readers that wait there. There are 256
// bells, hashed by database and outbox. When two outboxes share a bell, a reader may look once for nothing. A
// counter starts from the clock, so a value from before a restart never matches by accident.
//
// Not every event rings. Nothing rings on a server without room in shared memory. COMMIT PREPARED does not
// ring in a session that has not loaded the module, and neither do rows that are put directly into a
// partition without the trigger. So readers also poll slowly.

#include "pg/guard.hpp"

namespace baton::doorbell {

// Hook the doorbell into this process; called once, by _PG_init.
void install();

// The bell of everything that is captured for stream tables, in place of a table's.
constexpr Oid all_sources = InvalidOid;

// Ring the bell of a table when this transaction has committed. No effect without bells.
void ring_at_commit(Oid table);
// A number that every ring of the bell of a table changes.
std::uint64_t value(Oid table);
// Sleep until the number is another than `since`, the time is over or the process is wanted.
void sleep(Oid table, std::uint64_t since, long timeout_ms);
// Whether there are bells: on a server without room in shared memory there are none.
bool exists();

}  // namespace baton::doorbell
