// baton_internal.begin_time_limit(milliseconds), end_time_limit(): what runs in between is cancelled when the
// time is over. The server arms statement_timeout for a client's statements alone: a worker has none, and
// several refreshes are one statement.
//
// The limit belongs to the subtransaction that began it, so that an error ends the limit.

#include "pg/xact.hpp"

BATON_FUNCTION(baton_begin_time_limit);
BATON_FUNCTION(baton_end_time_limit);

using namespace baton;

namespace {

SubTransactionId limited_since = InvalidSubTransactionId;  // invalid: there is no limit

// Runs in the handler of a signal.
void cancel() {
    InterruptPending = 1;
    QueryCancelPending = 1;
}

TimeoutId timeout() {
    static const TimeoutId own = RegisterTimeout(USER_TIMEOUT, cancel);
    return own;
}

void disarm() {
    if (std::exchange(limited_since, InvalidSubTransactionId) != InvalidSubTransactionId)
        disable_timeout(timeout(), false);
}

void at_transaction_event(XactEvent event) noexcept {
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE) disarm();
}

void at_subtransaction_event(SubXactEvent event, SubTransactionId ended, SubTransactionId, void*) {
    if (event == SUBXACT_EVENT_ABORT_SUB && limited_since >= ended) disarm();
}

}  // namespace

extern "C" Datum baton_begin_time_limit(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        static const bool watching = [] {
            pg::on_transaction_event(at_transaction_event);
            RegisterSubXactCallback(at_subtransaction_event, nullptr);
            return true;
        }();
        static_cast<void>(watching);
        pg::call([&] {
            disarm();
            if (PG_GETARG_INT32(0) <= 0) return;
            const TimeoutId own = timeout();
            limited_since = GetCurrentSubTransactionId();
            enable_timeout_after(own, PG_GETARG_INT32(0));
        });
        PG_RETURN_VOID();
    });
}

extern "C" Datum baton_end_time_limit(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        pg::call([] {
            disarm();
            CHECK_FOR_INTERRUPTS();  // the time was over just now: the cancel is for nobody else
        });
        PG_RETURN_VOID();
    });
}
