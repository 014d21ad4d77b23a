// baton_internal.is_unseen(): which rows of a change buffer a frontier has not seen yet. The planner learns
// how many they are: it counts them, because a statement that follows changes is only quick when the planner
// knows how few they are, and nobody analyzes a buffer that fills and empties all the time.

#include "pg/query.hpp"
#include "stream/capture_target.hpp"
#include "stream/frontier.hpp"
#include "stream/held_state.hpp"

BATON_FUNCTION(baton_is_unseen);
BATON_FUNCTION(baton_is_unseen_now);
BATON_FUNCTION(baton_is_unseen_support);
BATON_FUNCTION(baton_unseen_changes);
BATON_FUNCTION(baton_frontier_time);

namespace baton::stream {

namespace {

const Frontier* of_this_refresh = nullptr;

}  // namespace

Frontier frontier_from(FunctionCallInfo fcinfo, int first_argument) {
    const bool has_own = !PG_ARGISNULL(first_argument + 1) && !PG_ARGISNULL(first_argument + 2);
    return {
        PG_GETARG_DATUM(first_argument), has_own,
        has_own ? DatumGetFullTransactionId(PG_GETARG_DATUM(first_argument + 1)) : InvalidFullTransactionId,
        has_own ? PG_GETARG_INT32(first_argument + 2) : 0};
}

FrontierScope::FrontierScope(const Frontier& frontier) noexcept
    : before_(std::exchange(of_this_refresh, &frontier)) {}

FrontierScope::~FrontierScope() {
    of_this_refresh = before_;
}

}  // namespace baton::stream

using namespace baton;
using stream::Frontier;

namespace {

// Arguments, in the order of the SQL functions.
enum Argument {
    row_xid,
    row_step,
    arguments_now,
    frontier_snapshot = arguments_now,
    frontier_xid,
    frontier_step,
    arguments
};

const Frontier& frontier_of_this_refresh() {
    if (stream::of_this_refresh == nullptr)
        throw SqlError("no refresh of a stream table is under way", "55000");
    return *stream::of_this_refresh;
}

// The same, to compare rows with: a full refresh has none, and its query may call what it likes.
const Frontier& comparable_frontier() {
    const Frontier& frontier = frontier_of_this_refresh();
    if (!frontier.is_comparable()) throw SqlError("no refresh that follows changes is under way", "55000");
    return frontier;
}

// ---- for the planner ----

constexpr std::uint64_t most_rows_to_count = 100000;

// Call `found` with each unseen row of a buffer, until `found` returns false. Returns how many rows were
// seen. Only for use inside of pg::call.
template <class Found>
std::int64_t for_each_unseen(Oid buffer, const Frontier& frontier, std::uint64_t most_rows, Found found) {
    Relation const table = table_open(buffer, AccessShareLock);
    TableScanDesc const scan = table_beginscan(table, GetActiveSnapshot(), 0, nullptr);
    TupleTableSlot* const slot = table_slot_create(table, nullptr);
    std::int64_t seen = 0;
    for (std::uint64_t rows = 0; rows < most_rows && table_scan_getnextslot(scan, ForwardScanDirection, slot);
         ++rows) {
        CHECK_FOR_INTERRUPTS();
        slot_getsomeattrs(slot, stream::buffer_first_value);
        if (frontier.has_seen(slot->tts_values[stream::buffer_xid],
                              DatumGetInt32(slot->tts_values[stream::buffer_step]))) {
            ++seen;
            continue;
        }
        if (!found(DatumGetInt16(slot->tts_values[stream::buffer_weight]))) break;
    }
    ExecDropSingleTupleTableSlot(slot);
    table_endscan(scan);
    table_close(table, NoLock);
    return seen;
}

// The value of an argument, as far as it is known while planning; null otherwise.
const Const* known(PlannerInfo* root, List* args, int which) {
    auto* const value = estimate_expression_value(root, static_cast<Node*>(list_nth(args, which)));
    return IsA(value, Const) ? reinterpret_cast<const Const*>(value) : nullptr;
}

// The frontier that the condition is about, as far as it is known while planning.
bool find_frontier(const SupportRequestSelectivity& request, Frontier& frontier) {
    if (list_length(request.args) == arguments_now) {
        if (stream::of_this_refresh == nullptr || !stream::of_this_refresh->is_comparable()) return false;
        frontier = *stream::of_this_refresh;
        return true;
    }
    const Const* const snapshot = known(request.root, request.args, frontier_snapshot);
    const Const* const own = known(request.root, request.args, frontier_xid);
    const Const* const seen = known(request.root, request.args, frontier_step);
    if (snapshot == nullptr || snapshot->constisnull || own == nullptr || seen == nullptr) return false;
    frontier = {snapshot->constvalue, !own->constisnull && !seen->constisnull,
                own->constisnull ? InvalidFullTransactionId : DatumGetFullTransactionId(own->constvalue),
                seen->constisnull ? 0 : DatumGetInt32(seen->constvalue)};
    return true;
}

// How much of its table the condition leaves; negative: unknown. Only for use inside of pg::call.
double selectivity(const SupportRequestSelectivity& request) {
    const auto* const xid = static_cast<Node*>(list_nth(request.args, row_xid));
    Frontier frontier{};
    if (!IsA(xid, Var) || !ActiveSnapshotSet() || !find_frontier(request, frontier)) return -1;
    const auto* const column = reinterpret_cast<const Var*>(xid);
    if (column->varlevelsup != 0 || column->varattno != stream::buffer_xid + 1) return -1;
    const RangeTblEntry* const entry = planner_rt_fetch(column->varno, request.root);
    if (entry->rtekind != RTE_RELATION || entry->relkind != RELKIND_RELATION) return -1;
    double unseen = 0;
    for_each_unseen(entry->relid, frontier, most_rows_to_count, [&](int16) {
        ++unseen;
        return true;
    });
    const double rows = find_base_rel(request.root, static_cast<int>(column->varno))->tuples;
    return std::clamp(unseen / std::max(rows, 1.0), 1e-9, 1.0);
}

// ---- for a refresh ----

struct Unseen {
    std::int64_t changes;
    bool missed;        // something that was not captured
    std::int64_t seen;  // rows that are of no use to the frontier any more
};

// Count the unseen rows of buffers. Only for use inside of pg::call.
Unseen count_unseen(ArrayType* buffers, const Frontier& frontier) {
    Datum* values = nullptr;
    bool* nulls = nullptr;
    int count = 0;
    deconstruct_array(buffers, OIDOID, sizeof(Oid), true, TYPALIGN_INT, &values, &nulls, &count);
    Unseen unseen{0, false, 0};
    for (int i = 0; i < count; ++i)
        unseen.seen += for_each_unseen(DatumGetObjectId(values[i]), frontier,
                                       std::numeric_limits<std::uint64_t>::max(), [&](int16 weight) {
                                           ++unseen.changes;
                                           unseen.missed |= weight == stream::something_was_missed;
                                           return true;
                                       });
    return unseen;
}

}  // namespace

extern "C" Datum baton_is_unseen(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        if (PG_ARGISNULL(row_xid) || PG_ARGISNULL(row_step) || PG_ARGISNULL(frontier_snapshot))
            PG_RETURN_NULL();
        const Frontier frontier = stream::frontier_from(fcinfo, frontier_snapshot);
        return BoolGetDatum(pg::call(
            [&] { return !frontier.has_seen(PG_GETARG_DATUM(row_xid), PG_GETARG_INT32(row_step)); }));
    });
}

extern "C" Datum baton_is_unseen_now(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const Frontier& frontier = comparable_frontier();
        return BoolGetDatum(pg::call(
            [&] { return !frontier.has_seen(PG_GETARG_DATUM(row_xid), PG_GETARG_INT32(row_step)); }));
    });
}

extern "C" Datum baton_is_unseen_support(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        auto* const request = reinterpret_cast<Node*>(PG_GETARG_POINTER(0));
        if (!IsA(request, SupportRequestSelectivity)) PG_RETURN_POINTER(nullptr);
        auto* const wanted = reinterpret_cast<SupportRequestSelectivity*>(request);
        const double share = pg::call([&] { return selectivity(*wanted); });
        if (share < 0) PG_RETURN_POINTER(nullptr);
        wanted->selectivity = share;
        PG_RETURN_POINTER(wanted);
    });
}

extern "C" Datum baton_frontier_time(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const Frontier& frontier = frontier_of_this_refresh();
        if (!frontier.has_time) PG_RETURN_NULL();
        PG_RETURN_TIMESTAMPTZ(frontier.time);
    });
}

// baton_internal.unseen_changes(buffers, frontier, frontier_xid, frontier_step)
extern "C" Datum baton_unseen_changes(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
            throw SqlError("unseen_changes takes buffers and a frontier, not null", "22004");
        const Frontier frontier = stream::frontier_from(fcinfo, 1);
        return pg::call([&] {
            stream::push_held_snapshot();
            const Unseen unseen = count_unseen(PG_GETARG_ARRAYTYPE_P(0), frontier);
            const Datum sight = DirectFunctionCall1(pg_current_snapshot, Datum{0});
            stream::pop_held_snapshot();
            TupleDesc shape = nullptr;
            if (get_call_result_type(fcinfo, nullptr, &shape) != TYPEFUNC_COMPOSITE)
                elog(ERROR, "unseen_changes was declared without its out parameters");
            Datum values[] = {Int64GetDatum(unseen.changes), BoolGetDatum(unseen.missed), sight,
                              Int64GetDatum(unseen.seen)};
            bool nulls[] = {false, false, false, false};
            return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(shape), values, nulls));
        });
    });
}
