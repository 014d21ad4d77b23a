// Ties: LIMIT, DISTINCT ON, row_number(), string_agg() and the like choose among rows, and what they choose
// is determined only if their order tells the rows apart. GROUP BY and DISTINCT choose how a value looks
// whose equals look different (1.0 and 1.00).
//
// A change is what a block makes of the rows of now, minus what it made of those of before. The latter is
// computed again. Where the block chooses, it may choose otherwise than it did, and the sum of such changes
// is nothing that the query ever gives. So a block must be determined, unless what it had given stands in the
// stream table: at the root.
//
// An expression is determined by keys if it is a constant, one of the keys, made of such expressions, a
// column of a table whose primary key is among the keys, or an aggregate while the keys determine the group.
// A key counts if values of it that are equal look the same.

#include "stream/compiler/ties.hpp"

#include "stream/compiler/numeric_scale.hpp"

namespace baton::stream {

namespace {

bool is_alike(Oid type, int32 typmod, Oid collation) {
    int32 modifier = typmod;
    Oid base = getBaseTypeAndTypmod(type, &modifier);
    if (const Oid element = get_element_type(base); OidIsValid(element))
        base = getBaseTypeAndTypmod(element, &modifier);
    switch (base) {
        case BOOLOID:
        case CHAROID:
        case NAMEOID:
        case INT2OID:
        case INT4OID:
        case INT8OID:
        case OIDOID:
        case CASHOID:
        case DATEOID:
        case TIMEOID:
        case TIMETZOID:
        case TIMESTAMPOID:
        case TIMESTAMPTZOID:
        case UUIDOID:
        case BYTEAOID:
        case BITOID:
        case VARBITOID:
        case MACADDROID:
        case INETOID:
            return true;
        case NUMERICOID:  // with so many digits behind the point
            return modifier >= 0;
        case BPCHAROID:  // filled up with blanks
            return modifier >= 0 && get_collation_isdeterministic(collation);
        case TEXTOID:
        case VARCHAROID:
            return get_collation_isdeterministic(collation);
        default:
            return type_is_enum(base);
    }
}

bool is_alike_expression(const Node* node) {
    return is_alike(exprType(node), exprTypmod(node), exprCollation(node));
}

struct Block {
    const Query* query;
    const std::set<int>* decided;       // see Keys
    const std::vector<Query*>* blocks;  // around, itself the last
};

struct Keys {
    const Query* query;
    std::vector<Node*> all;        // whose equality is the server's
    std::vector<Node*> alike;      // of these, whose equals look the same
    const std::set<int>* decided;  // ranges of values that the group determines
    bool groups = true;            // they determine the group
    bool in_windows = false;       // what window functions are of is looked at, not they themselves
};

void add_keys(Keys& keys, const List* clauses, const List* targets) {
    for (auto* const clause : pg::elements<SortGroupClause>(clauses)) {
        if (clause->eqop >= FirstUnpinnedObjectId) continue;
        pg::call([&] {
            Node* const key = get_sortgroupclause_expr(clause, const_cast<List*>(targets));
            keys.all.push_back(key);
            if (!is_alike_expression(key)) return;
            keys.alike.push_back(key);
            if (IsA(key, CoerceViaIO))  // what looks the same as text
                keys.alike.push_back(reinterpret_cast<Node*>(reinterpret_cast<CoerceViaIO*>(key)->arg));
        });
    }
}

bool has_column(const Keys& keys, int range, int attribute) {
    return std::any_of(keys.all.begin(), keys.all.end(), [&](const Node* key) {
        const auto* const var = reinterpret_cast<const Var*>(key);
        return IsA(key, Var) && var->varlevelsup == 0 && static_cast<int>(var->varno) == range &&
               var->varattno == attribute;
    });
}

// Whether the primary key of a column's table is among the keys. Children of a table have keys of their own.
bool is_known_by_primary_key(const Keys& keys, const Var& column) {
    if (static_cast<int>(column.varno) > list_length(keys.query->rtable)) return false;  // of a subquery
    const RangeTblEntry* const entry = rt_fetch(static_cast<int>(column.varno), keys.query->rtable);
    if (entry->rtekind != RTE_RELATION) return false;
    if (entry->relkind == RELKIND_RELATION ? entry->inh && has_subclass(entry->relid)
                                           : entry->relkind != RELKIND_PARTITIONED_TABLE)
        return false;
    Oid constraint = InvalidOid;
    const Bitmapset* const key = get_primary_key_attnos(entry->relid, false, &constraint);
    if (key == nullptr) return false;
    for (int member = bms_next_member(key, -1); member >= 0; member = bms_next_member(key, member))
        if (!has_column(keys, static_cast<int>(column.varno), member + FirstLowInvalidHeapAttributeNumber))
            return false;
    return true;
}

// True for what the keys leave open.
bool is_open(Node* node, void* context) {
    const auto& keys = *static_cast<const Keys*>(context);
    if (node == nullptr || IsA(node, Const) || IsA(node, Param) || IsA(node, SortGroupClause)) return false;
    if (std::any_of(keys.alike.begin(), keys.alike.end(), [&](const Node* key) { return equal(node, key); }))
        return false;
    if (IsA(node, Var)) {
        const auto* const column = reinterpret_cast<Var*>(node);
        if (keys.decided->contains(static_cast<int>(column->varno))) return !keys.groups;
        return column->varlevelsup == 0 && !is_known_by_primary_key(keys, *column);
    }
    if (IsA(node, Aggref)) return reinterpret_cast<Aggref*>(node)->agglevelsup == 0 && !keys.groups;
    if (IsA(node, GroupingFunc)) return true;
    if (IsA(node, WindowFunc) && !keys.in_windows) return true;
    if (IsA(node, SubLink)) return contain_vars_of_level(node, 0);
    if (IsA(node, FuncExpr) && reinterpret_cast<FuncExpr*>(node)->funcretset) return true;
    return pg::walk_expression(node, is_open, context);
}

bool are_determined(const Keys& keys, const List* expressions) {
    return !pg::call([&] {
        return is_open(reinterpret_cast<Node*>(const_cast<List*>(expressions)), const_cast<Keys*>(&keys));
    });
}

// The columns that a block gives.
List* outputs_of(const Query& query) {
    List* outputs = NIL;
    for (auto* const target : pg::elements<TargetEntry>(query.targetList))
        if (!target->resjunk) outputs = pg::call([&] { return lappend(outputs, target); });
    return outputs;
}

// Keys by which a block orders its result, with whether they say which group a row is.
Keys keys_of(const Block& block, std::initializer_list<const List*> clauses) {
    const Query& query = *block.query;
    Keys keys{&query, {}, {}, block.decided};
    for (const auto* const clause : clauses) add_keys(keys, clause, query.targetList);
    const auto grouped = pg::elements<SortGroupClause>(query.groupClause);
    keys.groups = query.groupingSets == NIL &&
                  std::all_of(grouped.begin(), grouped.end(), [&](SortGroupClause* clause) {
                      return !pg::call(
                          [&] { return is_open(get_sortgroupclause_expr(clause, query.targetList), &keys); });
                  });
    return keys;
}

// ---- aggregates ----

bool is_one_of(const char* name, std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](const char* known) { return strcmp(known, name) == 0; });
}

// Whether an aggregate may give another result when the same values come in another order. For use inside of
// pg::call.
bool minds_order(Oid function, const Node* argument, bool is_distinct, bool is_alike) {
    if (function >= FirstUnpinnedObjectId) return true;
    const char* const name = get_func_name(function);
    if (is_one_of(name, {"count", "regr_count", "bool_and", "bool_or", "every", "bit_and", "bit_or",
                         "bit_xor", "range_agg", "range_intersect_agg"}))
        return false;
    if (argument == nullptr) return true;
    if (is_one_of(name, {"min", "max"})) return !is_alike;
    if (!is_one_of(name,
                   {"sum", "avg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"}))
        return true;
    const Oid type = getBaseType(exprType(argument));
    return type == FLOAT4OID || type == FLOAT8OID || (is_distinct && !is_alike);
}

// Whether values of an argument that are equal look the same: numerics, too, where they have one scale.
bool is_alike_argument(const Block& block, const Node* argument) {
    if (argument == nullptr) return false;
    return pg::call([&] { return is_alike_expression(argument); }) ||
           (pg::call([&] { return getBaseType(exprType(argument)); }) == NUMERICOID &&
            fixed_scale(argument, *block.blocks).has_value());
}

struct Calls {
    std::vector<Aggref*> aggregates;
    std::vector<WindowFunc*> windows;
};

bool note_call(Node* node, void* context) {
    if (node == nullptr || IsA(node, SubLink)) return false;
    auto& calls = *static_cast<Calls*>(context);
    if (IsA(node, Aggref) && reinterpret_cast<Aggref*>(node)->agglevelsup == 0)
        calls.aggregates.push_back(reinterpret_cast<Aggref*>(node));
    if (IsA(node, WindowFunc)) calls.windows.push_back(reinterpret_cast<WindowFunc*>(node));
    return pg::walk_expression(node, note_call, context);
}

Calls calls_of(const Query& query) {
    Calls calls;
    pg::call([&] {
        note_call(reinterpret_cast<Node*>(query.targetList), &calls);
        note_call(query.havingQual, &calls);
    });
    return calls;
}

std::string name_of(Oid function) {
    return pg::call([&] { return get_func_name(function); });
}

void check_aggregate(const Block& block, const Aggref& aggregate) {
    const Node* const argument =
        aggregate.args == NIL ? nullptr
                              : reinterpret_cast<Node*>(linitial_node(TargetEntry, aggregate.args)->expr);
    const bool is_alike = is_alike_argument(block, argument);
    if (!pg::call([&] {
            return minds_order(aggregate.aggfnoid, argument, aggregate.aggdistinct != NIL, is_alike);
        }))
        return;
    Keys keys = keys_of(block, {block.query->groupClause});
    add_keys(keys, aggregate.aggorder, aggregate.args);
    if (!are_determined(keys, aggregate.args))
        throw NotDifferential(name_of(aggregate.aggfnoid) +
                              "() within the query, whose result depends on the order of rows that its "
                              "ORDER BY does not tell apart");
}

// ---- window functions ----

bool minds_ties(const Block& block, const WindowFunc& call, const WindowClause& window) {
    const Node* const argument = call.args == NIL ? nullptr : static_cast<Node*>(linitial(call.args));
    const bool is_alike = is_alike_argument(block, argument);
    return pg::call([&] {
        if (call.winfnoid < FirstUnpinnedObjectId &&
            is_one_of(get_func_name(call.winfnoid), {"rank", "dense_rank", "percent_rank", "cume_dist"}))
            return false;
        if (!call.winagg) return true;
        if (minds_order(call.winfnoid, argument, false, is_alike)) return true;
        constexpr int whole = FRAMEOPTION_START_UNBOUNDED_PRECEDING | FRAMEOPTION_END_UNBOUNDED_FOLLOWING;
        return (window.frameOptions & FRAMEOPTION_ROWS) != 0 && (window.frameOptions & whole) != whole;
    });
}

void check_window(const Block& block, const WindowFunc& call) {
    const Query& query = *block.query;
    for (const auto* const window : pg::elements<WindowClause>(query.windowClause)) {
        if (window->winref != call.winref || !minds_ties(block, call, *window)) continue;
        Keys keys = keys_of(block, {window->partitionClause, window->orderClause});
        keys.in_windows = true;
        if (!are_determined(keys, query.targetList))
            throw NotDifferential(name_of(call.winfnoid) +
                                  "() within the query, whose result depends on the order of rows that the "
                                  "window's ORDER BY does not tell apart");
    }
}

// ---- what chooses rows and looks ----

bool takes_some(const Query& query) {
    const auto is_given = [](const Node* limit) {
        return limit != nullptr && !(IsA(limit, Const) && reinterpret_cast<const Const*>(limit)->constisnull);
    };
    if (query.limitOption == LIMIT_OPTION_WITH_TIES) return is_given(query.limitOffset);
    return is_given(query.limitCount) || is_given(query.limitOffset);
}

using Columns = std::set<Origin>;

// The columns that an expression of the block names beside aggregates.
bool note_columns(Node* node, void* context) {
    if (node == nullptr || (IsA(node, Aggref) && reinterpret_cast<Aggref*>(node)->agglevelsup == 0))
        return false;
    if (!IsA(node, Var)) return pg::walk_expression(node, note_columns, context);
    const auto* const column = reinterpret_cast<Var*>(node);
    if (column->varlevelsup == 0)
        static_cast<Columns*>(context)->insert({static_cast<int>(column->varno), column->varattno});
    return false;
}

// Whether a block shows values of a clause that may be equal and look different.
bool shows_some_look(const Block& block, const List* clauses) {
    const Query& query = *block.query;
    const Keys keys = keys_of(block, {clauses});
    List* const outputs = outputs_of(query);
    Columns named;
    pg::call([&] {
        note_columns(reinterpret_cast<Node*>(outputs), &named);
        note_columns(query.havingQual, &named);
    });
    for (auto* const clause : pg::elements<SortGroupClause>(clauses)) {
        Node* const value = pg::call([&] { return get_sortgroupclause_expr(clause, query.targetList); });
        if (!pg::call([&] { return is_open(value, const_cast<Keys*>(&keys)); })) continue;
        Columns inside;
        pg::call([&] { note_columns(value, &inside); });
        if (std::any_of(inside.begin(), inside.end(),
                        [&](const Origin& column) { return named.contains(column); }))
            return true;
    }
    return false;
}

constexpr const char* several_looks = " within the query, of values that may be equal and look different";

}  // namespace

bool looks_alike(const Node* expression) {
    return pg::call([&] { return is_alike_expression(expression); });
}

bool looks_alike(const Column& column) {
    return pg::call([&] { return is_alike(column.type, column.typmod, column.collation); });
}

void refuse_ties(Query& query, std::vector<Query*> blocks, const std::set<int>& decided) {
    if (blocks.empty() || blocks.back() != &query) blocks.push_back(&query);
    const Block block{&query, &decided, &blocks};
    const Calls calls = calls_of(query);
    for (const auto* const aggregate : calls.aggregates) check_aggregate(block, *aggregate);
    for (const auto* const window : calls.windows) check_window(block, *window);
    if (shows_some_look(block, query.groupClause))
        throw NotDifferential(std::string("GROUP BY") + several_looks);
    if (query.hasDistinctOn) {
        if (!are_determined(keys_of(block, {query.distinctClause, query.sortClause}), outputs_of(query)))
            throw NotDifferential(
                "DISTINCT ON within the query, whose ORDER BY leaves open which row it takes");
    } else if (shows_some_look(block, query.distinctClause)) {
        throw NotDifferential(std::string("DISTINCT") + several_looks);
    }
    if (takes_some(query) && !are_determined(keys_of(block, {query.sortClause}), outputs_of(query)))
        throw NotDifferential("LIMIT within the query, whose ORDER BY leaves open which rows it takes");
}

void refuse_ties(const std::vector<Column>& columns) {
    if (!std::all_of(columns.begin(), columns.end(),
                     [](const Column& column) { return looks_alike(column); }))
        throw NotDifferential(std::string("UNION, INTERSECT or EXCEPT") + several_looks);
}

}  // namespace baton::stream
