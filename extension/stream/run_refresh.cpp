// baton_internal.run_refresh(...): the statement of a refresh runs with the rights of the stream table's
// owner, on the state that is held (held_state.hpp). Its plan is kept: a plan takes longer than a small
// change.
//
// A plan that is right for three changed rows is not for a million. So there is one for each order of
// magnitude, made when the first refresh of that size comes.

#include <map>

#include "owner.hpp"
#include "pg/role.hpp"
#include "pg/spi.hpp"
#include "stream/frontier.hpp"
#include "stream/held_state.hpp"

BATON_FUNCTION(baton_run_refresh);

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

SPIPlanPtr prepare(const char* sql, bool keep) {
    return pg::call([&] {
        SPIPlanPtr const plan = SPI_prepare(sql, 0, nullptr);
        if (plan == nullptr) elog(ERROR, "cannot prepare: %s", SPI_result_code_string(SPI_result));
        if (keep) SPI_keepplan(plan);
        return plan;
    });
}

// The plan for a statement, for changes of a magnitude; negative: not kept.
SPIPlanPtr find_plan(Oid owner, std::int32_t size, const char* sql) {
    static std::uint64_t uses = 0;
    if (size < 0) return prepare(sql, false);
    const PlanKey key{owner, size, sql};
    auto found = plans().find(key);
    if (found == plans().end()) {
        if (plans().size() >= most_plans) drop_oldest_plan();
        found = plans().emplace(key, Plan{prepare(sql, true), 0}).first;
    }
    found->second.used = ++uses;
    return found->second.prepared;
}

void execute(SPIPlanPtr plan) {
    pg::call([&] {
        const int outcome = SPI_execute_snapshot(plan, nullptr, nullptr, stream::held_snapshot(),
                                                 InvalidSnapshot, false, true, 0);
        if (outcome < 0) elog(ERROR, "statement failed: %s", SPI_result_code_string(outcome));
    });
}

}  // namespace

extern "C" Datum baton_run_refresh(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
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
            execute(find_plan(owner, PG_ARGISNULL(magnitude) ? -1 : PG_GETARG_INT32(magnitude), sql));
        }
        spi.give_rows(fcinfo);
        return Datum{0};
    });
}
