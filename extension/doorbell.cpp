#include "doorbell.hpp"

#include "owner.hpp"
#include "pg/guard.hpp"
#include "pg/memory.hpp"
#include "pg/role.hpp"
#include "pg/shmem.hpp"
#include "pg/spi.hpp"
#include "pg/xact.hpp"
#include "sift.hpp"

BATON_FUNCTION(baton_ring_doorbell);
BATON_FUNCTION(baton_doorbell_value);
BATON_FUNCTION(baton_wait_for_events);

namespace baton::doorbell {

namespace {

constexpr std::uint32_t bell_count = 256;  // 16 KB in all: fits the slack of a server that does not preload
constexpr std::size_t cache_line = 64;
constexpr long nap_without_bells_ms = 100;

struct alignas(cache_line) Bell {
    pg_atomic_uint64 rings;
    ConditionVariable sleepers;
};

struct Bells {
    std::array<Bell, bell_count> all;
};

void initialize(Bells& bells) {
    const auto seed = static_cast<std::uint64_t>(GetCurrentTimestamp());
    for (auto& bell : bells.all) {
        pg_atomic_init_u64(&bell.rings, seed);
        ConditionVariableInit(&bell.sleepers);
    }
}

constinit pg::Shared<Bells> shared{"baton doorbell", initialize};

// The bells that this transaction will ring. Static, so that nothing is allocated at commit.
std::array<std::uint32_t, bell_count> marked;
std::array<bool, bell_count> is_marked;
std::uint32_t marked_count = 0;

// The bells, or null with one warning per session where shared memory has no room for them.
Bells* attached() {
    static bool warned = false;
    Bells* const bells = shared.get();
    if (bells == nullptr && !warned) {
        warned = true;
        pg::call([] {
            ereport(WARNING,
                    (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("no shared memory left for the doorbell"),
                     errdetail("Events are found by polling only."),
                     errhint("add baton to shared_preload_libraries and restart the server")));
        });
    }
    return bells;
}

std::uint32_t bell_of(Oid outbox) noexcept {
    constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;
    const std::uint64_t key = (std::uint64_t{MyDatabaseId} << 32U | outbox) * golden;
    return static_cast<std::uint32_t>(key >> 40U) % bell_count;
}

void ring(Bell& bell) noexcept {
    pg_atomic_fetch_add_u64(&bell.rings, 1);  // a full barrier
    // Looking without the lock is safe: a waiter enters the list, then passes a barrier, then reads the
    // counter. Either we see it in the list or it sees the counter that we moved.
    if (!proclist_is_empty(&bell.sleepers.wakeup)) ConditionVariableBroadcast(&bell.sleepers);
}

void mark(std::uint32_t bell) noexcept {
    if (is_marked[bell]) return;
    is_marked[bell] = true;
    marked[marked_count++] = bell;
}

void clear_marks() noexcept {
    while (marked_count > 0) is_marked[marked[--marked_count]] = false;
}

// Ring at COMMIT, not at PRE_COMMIT: only now do others see the rows.
void at_transaction_event(XactEvent event) noexcept {
    if (marked_count == 0) return;
    if (event == XACT_EVENT_COMMIT) {
        Bells* const bells = shared.get();
        for (std::uint32_t i = 0; i < marked_count; ++i) ring(bells->all[marked[i]]);
    }
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE) clear_marks();
}

// COMMIT PREPARED fires no transaction event for the prepared one, and nobody remembers what that one marked,
// least of all across a restart: ring every bell.
void after_utility_statement(const Node* statement) {
    if (!IsA(statement, TransactionStmt)) return;
    if (reinterpret_cast<const TransactionStmt*>(statement)->kind != TRANS_STMT_COMMIT_PREPARED) return;
    Bells* const bells = attached();
    if (bells == nullptr) return;
    for (auto& bell : bells->all) ring(bell);
}

// The topmost table of a partition, which names the bell.
Oid root_of(Oid relation, bool is_partition) {
    return is_partition ? pg::call([&] { return llast_oid(get_partition_ancestors(relation)); }) : relation;
}

// Find the outbox that a user names.
Oid find_outbox(const text* name) {
    const Oid relation = pg::call([&] {
        return DatumGetObjectId(DirectFunctionCall1(regclassin, CStringGetDatum(text_to_cstring(name))));
    });
    return root_of(relation, pg::call([&] { return get_rel_relispartition(relation); }));
}

// Sleep until the counter differs from `since` or the time is over; returns the counter.
std::uint64_t sleep_on(Bell& bell, std::uint64_t since, long timeout_ms) {
    const TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);
    std::uint64_t now = since;
    ConditionVariablePrepareToSleep(&bell.sleepers);
    for (;;) {
        pg_memory_barrier();
        now = pg_atomic_read_u64(&bell.rings);
        if (now != since) break;
        const long left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
        if (left <= 0) break;
        ConditionVariableTimedSleep(&bell.sleepers, left, PG_WAIT_EXTENSION);
    }
    ConditionVariableCancelSleep();
    return now;
}

// Sleep a little where there are no bells; the caller will poll.
void nap(long timeout_ms) {
    (void)WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
                    std::min(timeout_ms, nap_without_bells_ms), PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
}

// Whether the procedure was called outside of a transaction block, so that it may commit.
bool may_commit(FunctionCallInfo fcinfo) noexcept {
    const Node* const context = fcinfo->context;
    return context != nullptr && IsA(context, CallContext) &&
           !reinterpret_cast<const CallContext*>(context)->atomic;
}

long milliseconds(const Interval& interval) {
    constexpr std::int64_t longest = INT_MAX;
    constexpr std::int64_t msecs_per_day = 24LL * 3600 * 1000;
    const std::int64_t days = std::int64_t{interval.month} * DAYS_PER_MONTH + interval.day;
    if (days > 0 && days > longest / msecs_per_day) return longest;
    return std::clamp<std::int64_t>(days * msecs_per_day + interval.time / 1000, 0, longest);
}

// Commit, so that no snapshot is held, and sleep.
std::uint64_t commit_and_sleep(Bell* bell, std::uint64_t since, long timeout_ms) {
    const pg::MemoryScope scope(CurrentMemoryContext);
    return pg::call([&] {
        std::uint64_t now = since;
        SPI_connect_ext(SPI_OPT_NONATOMIC);
        SPI_commit();
        if (bell != nullptr)
            now = sleep_on(*bell, since, timeout_ms);
        else
            nap(timeout_ms);
        SPI_finish();
        return now;
    });
}

Datum one_column(FunctionCallInfo fcinfo, std::int64_t value) {
    return pg::call([&] {
        TupleDesc shape = nullptr;
        if (get_call_result_type(fcinfo, nullptr, &shape) != TYPEFUNC_COMPOSITE)
            elog(ERROR, "wait_for_events was declared without its inout parameter");
        Datum values[] = {Int64GetDatum(value)};
        bool nulls[] = {false};
        return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(shape), values, nulls));
    });
}

// Let the log notice that it came from another history: once per session, before its first event here
// commits. As baton's owner, because a writer needs no right but INSERT. What is remembered outlives a
// rollback: verify_era() says so only of what another transaction has committed.
void verify_era(Oid outbox, bool made_by_baton, Oid trigger_function) {
    static auto& verified = *new std::vector<Oid>;  // never destroyed: nothing of ours runs at exit
    if (std::find(verified.begin(), verified.end(), outbox) != verified.end()) return;
    sift::forget_mark();
    const pg::RestrictedRole role(owner::of_function(trigger_function));
    pg::Spi spi;
    const std::array<pg::SqlParam, 2> params{
        {{REGCLASSOID, ObjectIdGetDatum(outbox)}, {BOOLOID, BoolGetDatum(made_by_baton)}}};
    spi.execute("select baton_internal.verify_era($1, $2)", params);
    const auto lasting = spi.datum(0, 1);
    if (lasting && DatumGetBool(*lasting)) verified.push_back(outbox);
}

}  // namespace

bool exists() {
    return attached() != nullptr;
}

void ring_at_commit(Oid table) {
    if (exists()) mark(bell_of(table));
}

std::uint64_t value(Oid table) {
    Bells* const bells = attached();
    return bells != nullptr ? pg_atomic_read_u64(&bells->all[bell_of(table)].rings) : 0;
}

void sleep(Oid table, std::uint64_t since, long timeout_ms) {
    Bells* const bells = attached();
    pg::call([&] {
        if (bells != nullptr)
            sleep_on(bells->all[bell_of(table)], since, timeout_ms);
        else
            nap(timeout_ms);
    });
}

void install() {
    if (process_shared_preload_libraries_in_progress)
        pg::request_shared_memory(sizeof(Bells), [] { shared.attach(); });
    pg::on_transaction_event(at_transaction_event);
    pg::observe_utility_statements({.before = nullptr, .after = after_utility_statement});
}

}  // namespace baton::doorbell

using namespace baton;
using namespace baton::doorbell;

// baton_internal.ring_doorbell(): statement trigger of every outbox.
extern "C" Datum baton_ring_doorbell(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        if (!CALLED_AS_TRIGGER(fcinfo))
            throw SqlError("ring_doorbell is a trigger function", "39P01", "",
                           "attach it to an outbox with create trigger");
        const auto* const trigger = reinterpret_cast<const TriggerData*>(fcinfo->context);
        const Relation table = trigger->tg_relation;
        const Oid outbox = root_of(RelationGetRelid(table), table->rd_rel->relispartition);
        verify_era(outbox, trigger->tg_trigger->tgnargs > 0, fcinfo->flinfo->fn_oid);
        ring_at_commit(outbox);
        return PointerGetDatum(nullptr);
    });
}

// baton.doorbell_value(outbox): the counter to wait on.
extern "C" Datum baton_doorbell_value(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        const Oid outbox = find_outbox(PG_GETARG_TEXT_PP(0));
        return Int64GetDatum(static_cast<std::int64_t>(value(outbox)));
    });
}

// baton.wait_for_events(outbox, inout since, timeout)
extern "C" Datum baton_wait_for_events(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        if (PG_ARGISNULL(0))
            throw SqlError("an outbox is needed", "22004", "", "give the name of the outbox's table");
        const Oid outbox = find_outbox(PG_GETARG_TEXT_PP(0));
        const long timeout_ms = PG_ARGISNULL(2) ? 0 : milliseconds(*PG_GETARG_INTERVAL_P(2));
        if (!may_commit(fcinfo))
            throw SqlError("wait_for_events cannot run inside a transaction block", "2D000",
                           "It commits before it sleeps, so that a sleeping reader holds no snapshot.",
                           "call it on its own, outside of begin and commit");
        Bells* const bells = attached();
        Bell* const bell = bells != nullptr ? &bells->all[bell_of(outbox)] : nullptr;
        std::uint64_t now = bell != nullptr ? pg_atomic_read_u64(&bell->rings) : 0;
        if (!PG_ARGISNULL(1) && timeout_ms > 0) {
            const auto since = static_cast<std::uint64_t>(PG_GETARG_INT64(1));
            if (bell == nullptr || now == since) now = commit_and_sleep(bell, since, timeout_ms);
        }
        return one_column(fcinfo, static_cast<std::int64_t>(now));
    });
}
