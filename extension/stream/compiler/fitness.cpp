#include "stream/compiler/fitness.hpp"

#include <map>
#include <set>

#include "stream/compiler/time_filter.hpp"

namespace baton::stream {

namespace {

// Functions of the server that are not immutable only because settings of the session speak in: the time
// zone, the form of dates. A refresh has the same settings every time.
constexpr std::array by_settings{"date_trunc",
                                 "date_part",
                                 "extract",
                                 "timezone",
                                 "to_char",
                                 "to_date",
                                 "to_timestamp",
                                 "to_json",
                                 "to_jsonb",
                                 "concat",
                                 "concat_ws",
                                 "format",
                                 "date",
                                 "timestamp",
                                 "timestamptz",
                                 "time",
                                 "timetz",
                                 "timestamptz_pl_interval",
                                 "timestamptz_mi_interval",
                                 "interval_pl_timestamptz",
                                 "row_to_json",
                                 "json_build_object",
                                 "jsonb_build_object",
                                 "json_build_array",
                                 "jsonb_build_array",
                                 "array_to_json",
                                 "array_to_string",
                                 "text",
                                 "make_timestamptz",
                                 "timestamp_lt_timestamptz",
                                 "timestamp_le_timestamptz",
                                 "timestamp_eq_timestamptz",
                                 "timestamp_gt_timestamptz",
                                 "timestamp_ge_timestamptz",
                                 "timestamp_ne_timestamptz",
                                 "timestamptz_lt_timestamp",
                                 "timestamptz_le_timestamp",
                                 "timestamptz_eq_timestamp",
                                 "timestamptz_gt_timestamp",
                                 "timestamptz_ge_timestamp",
                                 "timestamptz_ne_timestamp",
                                 "date_lt_timestamptz",
                                 "date_le_timestamptz",
                                 "date_eq_timestamptz",
                                 "date_gt_timestamptz",
                                 "date_ge_timestamptz",
                                 "date_ne_timestamptz",
                                 "timestamptz_lt_date",
                                 "timestamptz_le_date",
                                 "timestamptz_eq_date",
                                 "timestamptz_gt_date",
                                 "timestamptz_ge_date",
                                 "timestamptz_ne_date",
                                 "json_agg",
                                 "jsonb_agg",
                                 "json_object_agg",
                                 "jsonb_object_agg",
                                 "textcat",
                                 "textanycat",
                                 "anytextcat",
                                 "quote_literal",
                                 "quote_nullable",
                                 "similar_to_escape",
                                 "generate_series"};

struct Culprit {
    const char* name;
};

bool is_unfit(Oid function, void* context) {
    const char volatility = func_volatile(function);
    if (volatility == PROVOLATILE_IMMUTABLE) return false;
    const char* const name = get_func_name(function);
    if (volatility == PROVOLATILE_STABLE && function < FirstUnpinnedObjectId &&
        std::any_of(by_settings.begin(), by_settings.end(),
                    [&](const char* known) { return strcmp(known, name) == 0; }))
        return false;
    static_cast<Culprit*>(context)->name = psprintf("%s()", name);
    return true;
}

// Whether values of a type are numbers of things in the catalogs, which as text are names.
bool is_name_of_thing(Oid type) {
    const Oid element = get_element_type(type);
    switch (OidIsValid(element) ? element : type) {
        case REGCLASSOID:
        case REGTYPEOID:
        case REGPROCOID:
        case REGPROCEDUREOID:
        case REGOPEROID:
        case REGOPERATOROID:
        case REGROLEOID:
        case REGNAMESPACEOID:
        case REGCOLLATIONOID:
        case REGCONFIGOID:
        case REGDICTIONARYOID:
            return true;
        default:
            return false;
    }
}

// Whether an expression turns the number of a thing into the name that the thing has now. A constant becomes
// no text: it is an argument of functions such as to_tsvector().
bool shows_name(Node* node, void* context) {
    if (node == nullptr || IsA(node, Const) || IsA(node, Query) || IsA(node, SortGroupClause)) return false;
    if (IsA(node, TargetEntry) || IsA(node, RowExpr)) return pg::walk_expression(node, shows_name, context);
    if (is_name_of_thing(exprType(node))) {
        static_cast<Culprit*>(context)->name = psprintf("the name of a %s", format_type_be(exprType(node)));
        return true;
    }
    return false;
}

bool find_unfit(Node* node, void* context) {
    if (node == nullptr) return false;
    if (is_time(node)) return false;  // see time_filter.cpp
    // A value becomes text and back: stable for the sake of settings, as above.
    if (!IsA(node, CoerceViaIO) && check_functions_in_node(node, is_unfit, context)) return true;
    if ((IsA(node, CoerceViaIO) || IsA(node, FuncExpr) || IsA(node, Aggref)) &&
        pg::walk_expression(node, shows_name, context))
        return true;
    if (IsA(node, SQLValueFunction) || IsA(node, NextValueExpr)) {
        static_cast<Culprit*>(context)->name =
            IsA(node, NextValueExpr)
                ? "nextval()"
                : "a value of the session (the time with a precision, the user, the schema)";
        return true;
    }
    if (IsA(node, Query))
        return pg::walk_query(reinterpret_cast<Query*>(node), find_unfit, context, QTW_IGNORE_JOINALIASES);
    return pg::walk_expression(node, find_unfit, context);
}

bool find_locking(Node* node, void* context) {
    if (node == nullptr) return false;
    if (IsA(node, Query)) {
        const auto* const query = reinterpret_cast<Query*>(node);
        return query->rowMarks != NIL || query->hasForUpdate ||
               pg::walk_query(const_cast<Query*>(query), find_locking, context, 0);
    }
    return pg::walk_expression(node, find_locking, context);
}

[[noreturn]] void refuse(const std::string& message, const char* sqlstate, const std::string& hint = {}) {
    throw SqlError(message, sqlstate, {}, hint);
}

// ---- sources ----

struct Reads {
    std::map<Oid, std::set<int>>* columns;
    std::map<Oid, Query*>* views;
    std::vector<Query*> levels;
};

void note_reads(Query* query, Reads& reads);

bool note_read(Node* node, void* context) {
    auto& reads = *static_cast<Reads*>(context);
    if (node == nullptr) return false;
    if (IsA(node, Query)) {
        note_reads(reinterpret_cast<Query*>(node), reads);
        return false;
    }
    if (IsA(node, Var)) {
        const auto* const var = reinterpret_cast<Var*>(node);
        if (var->varlevelsup >= reads.levels.size()) return false;
        const Query* const home = reads.levels[reads.levels.size() - 1 - var->varlevelsup];
        if (var->varno < 1 || static_cast<int>(var->varno) > list_length(home->rtable)) return false;
        const RangeTblEntry* const entry = rt_fetch(static_cast<int>(var->varno), home->rtable);
        if (entry->rtekind == RTE_RELATION && entry->relkind != RELKIND_VIEW && var->varattno > 0)
            (*reads.columns)[entry->relid].insert(var->varattno);
        return false;
    }
    return pg::walk_expression(node, note_read, context);
}

void note_reads(Query* query, Reads& reads) {
    reads.levels.push_back(query);
    for (auto* const entry : pg::elements<RangeTblEntry>(query->rtable)) {
        if (entry->rtekind != RTE_RELATION) continue;
        if (entry->relkind != RELKIND_VIEW) {
            (*reads.columns)[entry->relid];
            continue;
        }
        if (reads.views->contains(entry->relid)) continue;
        auto* const definition = pg::call([&] {
            Relation const view = table_open(entry->relid, AccessShareLock);
            auto* const copy = static_cast<Query*>(copyObjectImpl(get_view_query(view)));
            table_close(view, NoLock);
            return copy;
        });
        (*reads.views)[entry->relid] = definition;
        Reads inside{reads.columns, reads.views, {}};
        note_reads(definition, inside);
    }
    pg::call([&] { pg::walk_query(query, note_read, &reads, 0); });
    reads.levels.pop_back();
}

}  // namespace

void check_query(const Query* query) {
    if (query->commandType != CMD_SELECT || query->utilityStmt != nullptr)
        refuse("a stream table is made of a SELECT", "42601");
    if (query->hasModifyingCTE)
        refuse("a stream table's query cannot change data", "0A000", "write WITH queries that only select");
    const bool locks =
        pg::call([&] { return find_locking(reinterpret_cast<Node*>(const_cast<Query*>(query)), nullptr); });
    if (locks)
        refuse("a stream table's query cannot lock rows", "0A000", "leave out FOR UPDATE and FOR SHARE");
    std::set<std::string> names;
    for (const auto* const target : pg::elements<TargetEntry>(query->targetList)) {
        if (target->resjunk) continue;
        if (!names.insert(target->resname).second)
            refuse("the query has two columns named \"" + std::string(target->resname) + "\"", "42701",
                   "give each column a name of its own with AS");
    }
    if (names.empty()) refuse("the query has no columns", "42601");
}

void check_functions(const std::vector<Query*>& queries) {
    for (auto* const query : queries) {
        Culprit culprit{nullptr};
        pg::call([&] { find_unfit(reinterpret_cast<Node*>(query), &culprit); });
        if (culprit.name != nullptr)
            throw NotDifferential(std::string(culprit.name) +
                                  " may give another result when no row has changed");
    }
}

Reading find_sources(Query* query) {
    std::map<Oid, std::set<int>> columns;
    std::map<Oid, Query*> views;
    Reads reads{&columns, &views, {}};
    note_reads(query, reads);
    Reading reading{{}, {query}, std::nullopt};
    for (const auto& [view, definition] : views) reading.queries.push_back(definition);
    for (const auto& [relation, numbers] : columns) {
        const Oid table = relation;
        reading.sources.push_back({table, {numbers.begin(), numbers.end()}});
        if (pg::call([&] {
                return isTempNamespace(get_rel_namespace(table)) ||
                       isAnyTempNamespace(get_rel_namespace(table));
            }))
            refuse("the query reads " + table_text(table) + ", a temporary table", "0A000",
                   "a refresh runs in another session, which does not see it");
        if (pg::call([&] { return pg_class_aclcheck(table, GetUserId(), ACL_SELECT) != ACLCHECK_OK; }))
            reading.problem =
                "a view gives access to " + table_text(table) + ", which the owner may not read";
        else if (pg::call([&] { return check_enable_rls(table, InvalidOid, true) == RLS_ENABLED; }))
            reading.problem = "row-level security hides rows of " + table_text(table) + " from the owner";
    }
    return reading;
}

}  // namespace baton::stream
