#pragma once
// The doorbell: a commit that published events wakes the readers that sleep, without NOTIFY's lock over all
// commits.
//
// A statement trigger marks the transaction; when it has committed and its rows are visible, it adds one to
// its outbox's counter in shared memory and wakes whoever waits there. There are 256 bells, hashed by
// database and outbox: two outboxes on one bell only cost a reader a look for nothing. A counter starts from
// the clock, so a value remembered from before a restart never matches by accident.
//
// Not every event rings: nothing does on a server without room in shared memory, nor COMMIT PREPARED in a
// session that has not loaded the module (when it is not preloaded), nor rows put directly into a partition
// without the trigger. Readers keep a slow poll as their safety net.

namespace baton::doorbell {

// Hook the doorbell into this process; called once, by _PG_init.
void install();

}  // namespace baton::doorbell
