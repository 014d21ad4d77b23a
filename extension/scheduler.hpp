#pragma once
// The scheduler: a launcher, and for each database with the extension a worker that runs the jobs of
// baton.jobs.
//
// The launcher is started with the server, the workers by the launcher, at most baton.scheduler_workers at a
// time; when more databases than that want one, they take turns. A worker runs each job in a transaction, as
// the extension's owner in a restricted context; an error is logged and followed by back-off. It gets out of
// the way of DROP DATABASE and of copying, renaming or moving the database, and ends when the extension is
// gone.

namespace baton::scheduler {

// Register the launcher and watch for new and dropped databases. Called by _PG_init; without preload it does
// nothing.
void install();

}  // namespace baton::scheduler
