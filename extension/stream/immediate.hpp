#pragma once
// Stream tables that are refreshed in the writer's transaction.
//
// A refresh must not run while rows are visible that are not captured yet: those of a statement whose
// triggers have not fired. A statement on a source may run other statements on sources, by foreign keys,
// triggers and functions, and several may be parts of one. So each statement on a source opens when it begins
// and closes when it is captured, and the refresh comes when nothing is open any more.
//
// Invariants:
//   - a statement is open from before its first row is visible until its changes are in the buffer;
//   - a rolled back subtransaction closes what it opened;
//   - where the server does not tell two statements apart (a function that writes to the table of the very
//     statement which calls it), nothing is derived from changes any more until the transaction ends.

#include "pg/guard.hpp"

namespace baton::stream {

// A kind of statement on a table, as far as triggers tell it from others.
struct Change {
    Oid table;
    TriggerEvent operation;
    int depth;  // of triggers
};

// A statement on a source of an immediate stream table begins.
void open_change(const Change& change);
// A statement was captured. `source` is the source whose buffer got rows, or invalid. Refreshes when nothing
// else is open. `refresher` is a function whose owner may refresh.
void close_change(const Change& change, Oid source, Oid refresher);

}  // namespace baton::stream
