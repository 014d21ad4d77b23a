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

namespace baton::doorbell {

// Hook the doorbell into this process; called once, by _PG_init.
void install();

}  // namespace baton::doorbell
