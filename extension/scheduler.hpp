#pragma once
// The scheduler: a launcher, and for each database with the extension a worker that runs the jobs of
// baton.jobs.
//
// The server starts the launcher, and the launcher starts the workers, at most baton.scheduler_workers at a
// time. When more databases want a worker, they take turns. A worker runs each job in a transaction, as the
// extension's owner in a restricted context. An error is logged, and the job pauses. A worker ends for DROP
// DATABASE, for copying, renaming or moving the database, and when the extension is gone.

namespace baton::scheduler {

// Register the launcher and watch for new and dropped databases. Called by _PG_init. Does nothing without
// preload.
void install();

}  // namespace baton::scheduler
