#pragma once
// A board in shared memory: the launcher, the workers, and the sessions that create or drop databases tell
// each other what they do.
//
// Every database that allows connections has a seat: which worker serves the database, and from when on the
// database wants a worker. A worker looks at a database without the extension at long intervals, and at once
// when CREATE EXTENSION has committed.

#include <optional>
#include <span>

#include "pg/guard.hpp"

namespace baton::board {

// Ask for memory. Called while the server preloads.
void request();
// True when this server preloads the module, so that there is a board.
bool exists();

// The launcher's side.
void enter_launcher();
// Compare the seats with the databases that exist, and take the databases whose turn it is: at most `room`
// minus the databases that are served already. Returns how long the launcher may sleep.
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
// True when other databases wait for a worker.
bool others_wait();
// Reserve a place for a helper of this database's worker; nothing when it has `most` of them already.
std::optional<int> reserve_helper(int most);
// Give the place back: the helper could not be started.
void release_helper(int place);

// A helper's side: take the place that was reserved. False when the database must be left alone.
bool join_as_helper(Oid database, int place);

// The sessions' side.
// Stop the database's worker, and keep new workers away for a while: a session wants the database for itself.
void clear_database(Oid database);
// Let the launcher look at a database now.
void poke(Oid database) noexcept;

}  // namespace baton::board
