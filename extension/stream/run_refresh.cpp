// baton_internal.run_refresh(...): the statement of a refresh runs with the rights of the stream table's
// owner, on the state that is held (held_state.hpp). Its plan is kept: a plan takes longer than a small
// change.
//
// baton_internal.run_publishing(...): the statement around it, which writes the outbox, as baton's owner.
//
// A plan that is right for three changed rows is not for a million. So there is one for each order of
// magnitude, made when the first refresh of that size comes.

#include <map>

#include "owner.hpp"
#include "pg/role.hpp"
#include "pg/spi.hpp"
#include "stream/frontier.hpp"
#include "stream/held_state.hpp"
#include "stream/immediate.hpp"

BATON_FUNCTION(baton_run_refresh);
BATON_FUNCTION(baton_run_publishing);

using namespace baton;

namespace {

// Arguments, in the order of the SQL function.
enum Argument { relation, statement, magnitude, first_of_frontier, frontier_time = first_of_frontier + 3 };

constexpr std::size_t most_plans = 256;

struct Plan {
    SPIPlanPtr prepared;
    std::uint64_t used;  // when, by the count of uses
};

struct PlanKey {
    Oid owner;
    std::int32_t magnitude;
    std::string statement;
    auto operator<=>(const PlanKey&) const = default;
};

auto& plans() {
    static auto& all = *new std::map<PlanKey, Plan>;  // never destroyed: nothing of ours runs at exit
    return all;
}

void drop_oldest_plan() {
    const auto oldest =
        std::ranges::min_element(plans(), {}, [](const auto& entry) { return entry.second.used; });
    SPIPlanPtr const plan = oldest->second.prepared;
    plans().erase(oldest);
    pg::call([&] { SPI_freeplan(plan); });
}

SPIPlanPtr prepare(const char* sql, bool keep, std::vector<Oid> types) {
    return pg::call([&] {
        SPIPlanPtr const plan = SPI_prepare(sql, static_cast<int>(types.size()), types.data());
        if (plan == nullptr) elog(ERROR, "cannot prepare: %s", SPI_result_code_string(SPI_result));
        if (keep) SPI_keepplan(plan);
        return plan;
    });
}

// The plan for a statement, for changes of a magnitude; negative: not kept.
SPIPlanPtr find_plan(Oid owner, std::int32_t size, const char* sql, const std::vector<Oid>& types = {}) {
    static std::uint64_t uses = 0;
    if (size < 0) return prepare(sql, false, types);
    const PlanKey key{owner, size, sql};
    auto found = plans().find(key);
    if (found == plans().end()) {
        if (plans().size() >= most_plans) drop_oldest_plan();
        found = plans().emplace(key, Plan{prepare(sql, true, types), 0}).first;
    }
    found->second.used = ++uses;
    return found->second.prepared;
}

// Run the plan on the state that is held and give the rows to the caller of a set-returning function, by way
// of a tuplestore: a delta may be larger than the memory, in which SPI would keep all of it. As SPI does it
// otherwise.
void execute(SPIPlanPtr plan, bool is_kept, const char* sql, FunctionCallInfo caller) {
    pg::call([&] {
        auto* const result = reinterpret_cast<ReturnSetInfo*>(caller->resultinfo);
        if (result == nullptr || !IsA(result, ReturnSetInfo) ||
            (result->allowedModes & SFRM_Materialize) == 0)
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("a function that returns rows is called where none are taken")));
        PushCopiedSnapshot(stream::held_snapshot() != nullptr ? stream::held_snapshot()
                                                              : GetTransactionSnapshot());
        ResourceOwner const owner = is_kept ? CurrentResourceOwner : nullptr;
        CachedPlan* const cached = SPI_plan_get_cached_plan(plan);
        if (cached == nullptr || list_length(cached->stmt_list) != 1 ||
            linitial_node(PlannedStmt, cached->stmt_list)->utilityStmt != nullptr)
            ereport(ERROR,
                    (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("the statement returns no rows")));
        CommandCounterIncrement();
        UpdateActiveSnapshotCommandId();
        MemoryContext const memory = result->econtext->ecxt_per_query_memory;
        MemoryContext const before = MemoryContextSwitchTo(memory);
        Tuplestorestate* const store =
            tuplestore_begin_heap((result->allowedModes & SFRM_Materialize_Random) != 0, false, work_mem);
        MemoryContextSwitchTo(before);
        DestReceiver* const rows = CreateDestReceiver(DestTuplestore);
        SetTuplestoreDestReceiverParams(rows, store, memory, false, nullptr, nullptr);
        QueryDesc* const query =
            CreateQueryDesc(linitial_node(PlannedStmt, cached->stmt_list), sql, GetActiveSnapshot(),
                            InvalidSnapshot, rows, nullptr, nullptr, 0);
        ExecutorStart(query, 0);
        MemoryContextSwitchTo(memory);
        result->setDesc = CreateTupleDescCopy(query->tupDesc);
        MemoryContextSwitchTo(before);
        ExecutorRun(query, ForwardScanDirection, 0, true);
        ExecutorFinish(query);
        ExecutorEnd(query);
        FreeQueryDesc(query);
        rows->rDestroy(rows);
        PopActiveSnapshot();
        ReleaseCachedPlan(cached, owner);
        CommandCounterIncrement();
        result->setResult = store;
        result->returnMode = SFRM_Materialize;
    });
}

// Store what is written with lz4, where the server has that: pglz takes as long for a payload as making it.
// Ends with the present level of parameters. Only for use inside of pg::call.
void compress_quickly() {
#ifdef USE_LZ4
    set_config_option("default_toast_compression", "lz4", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true,
                      0, false);
#endif
}

void refuse_nulls(FunctionCallInfo fcinfo, std::initializer_list<int> needed) {
    for (const int argument : needed)
        if (PG_ARGISNULL(argument))
            throw SqlError("argument " + std::to_string(argument + 1) + " of a refresh's statement is null",
                           "22004");
}

}  // namespace

extern "C" Datum baton_run_refresh(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        refuse_nulls(fcinfo, {relation, statement});
        const Oid owner = owner::lock(PG_GETARG_OID(relation));
        const char* const sql = pg::call([&] { return text_to_cstring(PG_GETARG_TEXT_PP(statement)); });
        stream::Frontier frontier{};
        if (!PG_ARGISNULL(first_of_frontier)) frontier = stream::frontier_from(fcinfo, first_of_frontier);
        frontier.has_time = !PG_ARGISNULL(frontier_time);
        if (frontier.has_time) frontier.time = PG_GETARG_TIMESTAMPTZ(frontier_time);
        pg::Spi spi;
        {
            const owner::Acting acting(owner);
            const pg::RestrictedRole role(owner);
            const stream::FrontierScope scope(frontier);
            const stream::ForeignCode foreign;
            const std::int32_t size = PG_ARGISNULL(magnitude) ? -1 : PG_GETARG_INT32(magnitude);
            execute(find_plan(owner, size, sql), size >= 0, sql, fcinfo);
        }
        return Datum{0};
    });
}

// The first argument is the statement, the others are its parameters.
extern "C" Datum baton_run_publishing(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        refuse_nulls(fcinfo, {0});
        const char* const sql = pg::call([&] { return text_to_cstring(PG_GETARG_TEXT_PP(0)); });
        std::vector<Oid> types;
        std::vector<Datum> values;
        std::string nulls;
        for (short i = 1; i < PG_NARGS(); ++i) {
            types.push_back(pg::call([&] { return get_fn_expr_argtype(fcinfo->flinfo, i); }));
            values.push_back(PG_GETARG_DATUM(i));
            nulls += PG_ARGISNULL(i) ? 'n' : ' ';
        }
        pg::Spi spi;
        SPIPlanPtr const plan = find_plan(InvalidOid, 0, sql, types);
        pg::call([&] {
            const int level = NewGUCNestLevel();
            compress_quickly();
            const int outcome = SPI_execute_plan(plan, values.data(), nulls.c_str(), false, 0);
            if (outcome < 0) elog(ERROR, "statement failed: %s", SPI_result_code_string(outcome));
            AtEOXact_GUC(true, level);
        });
        spi.give_rows(fcinfo);
        return Datum{0};
    });
}
