#pragma once
// Stream tables that are refreshed in the writer's transaction.
//
// A refresh must not run while rows are visible that are not captured yet: those of a statement whose
// triggers have not fired. A statement on a source may run other statements on sources, by foreign keys,
// triggers and functions, and several may be parts of one. So each statement on a source opens when it begins
// and closes when it is captured, and the refresh comes when nothing is open any more.
//
// The server fires one AFTER trigger for each BEFORE trigger of a statement: what a foreign key does within a
// statement shares both with the statement, unless the statement's transition tables are closed already, and
// then has both of its own. Which of two statements of one kind a trigger closes need not be known, only how
// many are open.
//
// Invariants:
//   - a statement is open from before its first row is visible until its changes are in the buffer;
//   - a rolled back subtransaction closes what it opened.

#include "pg/guard.hpp"

namespace baton::stream {

// A kind of statement on a table, as far as triggers tell it from others.
struct Change {
    Oid table;
    TriggerEvent operation;
};

// A statement on a source of an immediate stream table begins.
void open_change(const Change& change);
// A statement was captured. `source` is the source whose buffer got rows, or invalid. Refreshes when nothing
// else is open. `refresher` is a function whose owner may refresh.
void close_change(const Change& change, Oid source, Oid refresher);
// A row was captured that belongs to no statement: one that logical replication applies.
void row_captured(Oid source, Oid refresher);
// Sources, an array of oid, got or lost parts: have the new ones captured, and refresh what nobody else is at
// work on, when nothing is open any more.
void follow_parts(Datum sources, Oid refresher);
// Whether a statement on one of these tables is open.
bool is_open(const std::vector<Oid>& tables);

// For a scope, the code that runs is not the refresh itself: triggers of users, for example.
class ForeignCode {
  public:
    ForeignCode() noexcept;
    ~ForeignCode();
    ForeignCode(const ForeignCode&) = delete;
    ForeignCode& operator=(const ForeignCode&) = delete;

  private:
    bool before_;
};

}  // namespace baton::stream
