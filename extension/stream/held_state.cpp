#include "stream/held_state.hpp"

#include "pg/xact.hpp"

BATON_FUNCTION(baton_lock_tables);
BATON_FUNCTION(baton_hold_state);
BATON_FUNCTION(baton_release_state);
BATON_FUNCTION(baton_holds_state);
BATON_FUNCTION(baton_keep_table);
BATON_FUNCTION(baton_table_being_written);

namespace baton::stream {

namespace {

// Belongs to the transaction; a subtransaction that is rolled back takes along what it took.
Snapshot held = nullptr;
SubTransactionId held_since = InvalidSubTransactionId;

void release() {
    if (held != nullptr)
        UnregisterSnapshotFromOwner(std::exchange(held, nullptr), TopTransactionResourceOwner);
}

// The end of the transaction has let go of the snapshot already.
void at_transaction_event(XactEvent event) noexcept {
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
        held = nullptr;
}

void at_subtransaction_event(SubXactEvent event, SubTransactionId ended, SubTransactionId, void*) {
    if (event == SUBXACT_EVENT_ABORT_SUB && held_since >= ended) release();
}

// Call something for each number of an array, until one gives false; returns that number, or the invalid one.
// Only for use inside of pg::call.
template <class Each>
Oid find_refused(ArrayType* numbers, const Each& each) {
    Datum* values = nullptr;
    bool* nulls = nullptr;
    int count = 0;
    deconstruct_array(numbers, OIDOID, sizeof(Oid), true, TYPALIGN_INT, &values, &nulls, &count);
    for (int i = 0; i < count; ++i)
        if (!each(DatumGetObjectId(values[i]))) return DatumGetObjectId(values[i]);
    return InvalidOid;
}

// Lock tables against those who change their make-up. One that is gone meanwhile is no table of the query
// any more, which the statement finds out. Only for use inside of pg::call.
void lock_tables(ArrayType* tables) {
    find_refused(tables, [](Oid table) {
        LockRelationOid(table, AccessShareLock);
        return true;
    });
}

// Lock tables without waiting; returns one that somebody else has locked, or the invalid number. Only for use
// inside of pg::call.
Oid try_lock_tables(ArrayType* tables, LOCKMODE mode) {
    return find_refused(tables, [mode](Oid table) { return ConditionalLockRelationOid(table, mode); });
}

// Whether a statement of this session that is still running uses a table, which this transaction writes to.
// The server knows no more. Only for use inside of pg::call.
bool is_being_written(Oid table) {
    Relation const relation = RelationIdGetRelation(table);
    if (!RelationIsValid(relation)) return false;
    const int users = relation->rd_refcnt - 1 - (relation->rd_isnailed ? 1 : 0);
    const bool found = users > 0 && CheckRelationLockedByMe(relation, RowExclusiveLock, true);
    RelationClose(relation);
    return found;
}

// The first of the tables that is being written to, or invalid. Only for use inside of pg::call.
Oid find_written(ArrayType* tables) {
    Datum* values = nullptr;
    bool* nulls = nullptr;
    int count = 0;
    deconstruct_array(tables, OIDOID, sizeof(Oid), true, TYPALIGN_INT, &values, &nulls, &count);
    const Datum* const found = std::find_if(
        values, values + count, [](Datum table) { return is_being_written(DatumGetObjectId(table)); });
    return found == values + count ? InvalidOid : DatumGetObjectId(*found);
}

}  // namespace

Snapshot held_snapshot() noexcept {
    return held;
}

void push_held_snapshot() {
    if (held == nullptr) return;
    PushCopiedSnapshot(held);
    UpdateActiveSnapshotCommandId();
}

void pop_held_snapshot() {
    if (held != nullptr) PopActiveSnapshot();
}

}  // namespace baton::stream

using namespace baton;

// baton_internal.lock_tables(read, written): a table that somebody else has locked, null when all are had.
extern "C" Datum baton_lock_tables(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const Oid refused = pg::call([&] {
            const Oid first = stream::try_lock_tables(PG_GETARG_ARRAYTYPE_P(0), AccessShareLock);
            return OidIsValid(first) ? first
                                     : stream::try_lock_tables(PG_GETARG_ARRAYTYPE_P(1), RowExclusiveLock);
        });
        if (!OidIsValid(refused)) PG_RETURN_NULL();
        PG_RETURN_OID(refused);
    });
}

// baton_internal.hold_state(tables): everything that is refreshed in this transaction sees this state, until
// release_state().
extern "C" Datum baton_hold_state(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        static const bool watching = [] {
            pg::on_transaction_event(stream::at_transaction_event);
            RegisterSubXactCallback(stream::at_subtransaction_event, nullptr);
            return true;
        }();
        static_cast<void>(watching);
        pg::call([&] {
            stream::release();
            stream::lock_tables(PG_GETARG_ARRAYTYPE_P(0));
            stream::held = RegisterSnapshotOnOwner(GetLatestSnapshot(), TopTransactionResourceOwner);
            stream::held_since = GetCurrentSubTransactionId();
        });
        PG_RETURN_VOID();
    });
}

extern "C" Datum baton_release_state(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        pg::call([] { stream::release(); });
        PG_RETURN_VOID();
    });
}

extern "C" Datum baton_holds_state(PG_FUNCTION_ARGS) {
    PG_RETURN_BOOL(stream::held_snapshot() != nullptr);
}

// baton_internal.keep_table(relation): locks as whoever writes to the table does.
extern "C" Datum baton_keep_table(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const Oid table = PG_GETARG_OID(0);
        PG_RETURN_BOOL(pg::call([&] {
            LockRelationOid(table, RowExclusiveLock);
            if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table))) return true;
            UnlockRelationOid(table, RowExclusiveLock);
            return false;
        }));
    });
}

// baton_internal.table_being_written(tables): null when none is.
extern "C" Datum baton_table_being_written(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const Oid found = pg::call([&] { return stream::find_written(PG_GETARG_ARRAYTYPE_P(0)); });
        if (!OidIsValid(found)) PG_RETURN_NULL();
        PG_RETURN_OID(found);
    });
}
