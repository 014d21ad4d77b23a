#pragma once
// What the launcher, the workers and the sessions that create or drop databases tell each other, in shared
// memory.
//
// Every connectable database has a seat: which worker serves it, and from when on it wants one. A database
// without the extension gets a look at long intervals, and at once when CREATE EXTENSION has committed.

#include <span>

#include "pg/guard.hpp"

namespace baton::board {

// Ask for room; called while the server preloads.
void request();
// Whether this server preloads the module, so that there is a board.
bool exists();

// The launcher's side.
void enter_launcher();
// Bring the seats in line with the databases that are there, and take those out whose turn it is, at most
// `room` minus those that are served already. Returns how long the launcher may sleep.
struct Turn {
    std::vector<Oid> start;
    long sleep_ms;
};
Turn next_turn(const std::vector<Oid>& databases, int room);
// Give a seat back whose worker could not be started.
void postpone(Oid database, long milliseconds);

// A worker's side. sit_down is false when the database must be left alone or is served already.
bool sit_down(Oid database);
// Choose when this database wants its next worker, once this one has ended well.
void come_back_at(TimestampTz when);
// Whether other databases wait for a worker.
bool others_wait();

// The sessions' side.
// Stop the database's worker, and keep new ones away for a while: somebody wants the database for itself.
void clear_database(Oid database);
// Have the launcher look at a database now.
void poke(Oid database) noexcept;

}  // namespace baton::board
