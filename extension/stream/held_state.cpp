#include "stream/held_state.hpp"

#include "pg/xact.hpp"

BATON_FUNCTION(baton_hold_state);
BATON_FUNCTION(baton_release_state);
BATON_FUNCTION(baton_holds_state);

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

// Lock tables against those who change their make-up. One that is gone meanwhile is no table of the query
// any more, which the statement finds out. Only for use inside of pg::call.
void lock_tables(ArrayType* tables) {
    Datum* values = nullptr;
    bool* nulls = nullptr;
    int count = 0;
    deconstruct_array(tables, OIDOID, sizeof(Oid), true, TYPALIGN_INT, &values, &nulls, &count);
    for (int i = 0; i < count; ++i) LockRelationOid(DatumGetObjectId(values[i]), AccessShareLock);
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
