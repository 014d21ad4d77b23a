// baton_internal.is_unseen(): which rows of a change buffer a frontier has not seen yet. The planner learns
// how many they are: it counts them, because a statement that follows changes is only quick when the planner
// knows how few they are, and nobody analyzes a buffer that fills and empties all the time.

#include "pg/query.hpp"

BATON_FUNCTION(baton_is_unseen);
BATON_FUNCTION(baton_is_unseen_support);

using namespace baton;

namespace {

// Where the last refresh stood.
struct Frontier {
    Datum snapshot;
    bool has_own;           // the refresh ran in a transaction that had changed sources itself,
    FullTransactionId own;  // and had seen these of its changes
    std::int32_t step;

    // Only for use inside of pg::call.
    bool has_seen(Datum xid, std::int32_t row_step) const {
        if (has_own && FullTransactionIdEquals(DatumGetFullTransactionId(xid), own)) return row_step <= step;
        return DatumGetBool(DirectFunctionCall2(pg_visible_in_snapshot, xid, snapshot));
    }
};

// Arguments, in the order of the SQL function.
enum Argument { row_xid, row_step, frontier_snapshot, frontier_xid, frontier_step, arguments };

// ---- for the planner ----

constexpr std::uint64_t most_rows_to_count = 100000;

// Count the unseen rows of a buffer, up to a limit. Only for use inside of pg::call.
std::uint64_t count_unseen(Oid buffer, AttrNumber xid_column, AttrNumber step_column,
                           const Frontier& frontier) {
    Relation const table = table_open(buffer, AccessShareLock);
    TableScanDesc const scan = table_beginscan(table, GetActiveSnapshot(), 0, nullptr);
    TupleTableSlot* const slot = table_slot_create(table, nullptr);
    std::uint64_t count = 0;
    for (std::uint64_t rows = 0;
         rows < most_rows_to_count && table_scan_getnextslot(scan, ForwardScanDirection, slot); ++rows) {
        bool is_null = false;
        const Datum xid = slot_getattr(slot, xid_column, &is_null);
        const Datum step = slot_getattr(slot, step_column, &is_null);
        if (!frontier.has_seen(xid, DatumGetInt32(step))) ++count;
    }
    ExecDropSingleTupleTableSlot(slot);
    table_endscan(scan);
    table_close(table, NoLock);
    return count;
}

// The value of an argument, as far as it is known while planning; null otherwise.
const Const* known(PlannerInfo* root, List* args, int which) {
    auto* const value = estimate_expression_value(root, static_cast<Node*>(list_nth(args, which)));
    return IsA(value, Const) ? reinterpret_cast<const Const*>(value) : nullptr;
}

// How much of its table the condition leaves; negative: unknown.
double selectivity(const SupportRequestSelectivity& request) {
    if (list_length(request.args) != arguments) return -1;
    const auto* const xid = static_cast<Node*>(list_nth(request.args, row_xid));
    const auto* const step = static_cast<Node*>(list_nth(request.args, row_step));
    const Const* const snapshot = known(request.root, request.args, frontier_snapshot);
    const Const* const own = known(request.root, request.args, frontier_xid);
    const Const* const seen = known(request.root, request.args, frontier_step);
    if (!IsA(xid, Var) || !IsA(step, Var) || snapshot == nullptr || snapshot->constisnull || own == nullptr ||
        seen == nullptr || !ActiveSnapshotSet())
        return -1;
    const auto* const column = reinterpret_cast<const Var*>(xid);
    if (column->varlevelsup != 0 || column->varattno <= 0) return -1;
    const RangeTblEntry* const entry = planner_rt_fetch(column->varno, request.root);
    if (entry->rtekind != RTE_RELATION || entry->relkind != RELKIND_RELATION) return -1;
    const Frontier frontier{
        snapshot->constvalue, !own->constisnull && !seen->constisnull,
        own->constisnull ? InvalidFullTransactionId : DatumGetFullTransactionId(own->constvalue),
        seen->constisnull ? 0 : DatumGetInt32(seen->constvalue)};
    const auto unseen = static_cast<double>(
        count_unseen(entry->relid, column->varattno, reinterpret_cast<const Var*>(step)->varattno, frontier));
    const double rows = find_base_rel(request.root, static_cast<int>(column->varno))->tuples;
    return std::clamp(unseen / std::max(rows, 1.0), 1e-9, 1.0);
}

}  // namespace

extern "C" Datum baton_is_unseen(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const bool has_own = !PG_ARGISNULL(frontier_xid) && !PG_ARGISNULL(frontier_step);
        const Frontier frontier{
            PG_GETARG_DATUM(frontier_snapshot), has_own,
            has_own ? DatumGetFullTransactionId(PG_GETARG_DATUM(frontier_xid)) : InvalidFullTransactionId,
            has_own ? PG_GETARG_INT32(frontier_step) : 0};
        if (PG_ARGISNULL(row_xid) || PG_ARGISNULL(row_step) || PG_ARGISNULL(frontier_snapshot))
            PG_RETURN_NULL();
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
