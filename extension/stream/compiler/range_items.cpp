// Items of FROM that are no tables: finished blocks (subqueries, views, WITH queries), VALUES, and functions.
// A block's rows and change pass under new names. VALUES and functions of constants never change.

#include "stream/compiler/time_filter.hpp"

namespace baton::stream {

namespace {

std::string column_name(const Origin& origin) {
    return "v" + std::to_string(origin.range) + "_" + std::to_string(origin.attribute);
}

// The block with one item of its FROM clause and nothing else, as text; a column for each of that item's that
// is used.
struct Item {
    std::vector<Column> columns;
    std::vector<Origin> origins;
    List* targets;
};

Item describe_item(Query* query, int range, const std::vector<Origin>& used) {
    Item item{{}, {}, NIL};
    for (const auto& origin : used) {
        if (origin.range != range) continue;
        if (origin.attribute <= 0)
            throw NotDifferential("the query takes whole rows of a function or VALUES as a value");
        Var* const var = pg::call([&] {
            List* columns = NIL;
            expandRTE(rt_fetch(range, query->rtable), 1, 0, -1, true, nullptr, &columns);
            return static_cast<Var*>(list_nth(columns, origin.attribute - 1));
        });
        item.columns.push_back(column_of(column_name(origin), reinterpret_cast<Node*>(var)));
        item.origins.push_back(origin);
        item.targets = pg::call([&] {
            return lappend(item.targets,
                           makeTargetEntry(reinterpret_cast<Expr*>(var),
                                           static_cast<AttrNumber>(list_length(item.targets) + 1),
                                           pstrdup(item.columns.back().name.c_str()), false));
        });
    }
    if (item.columns.empty()) {
        item.columns.push_back({column_name({range, 0}), BOOLOID, -1, InvalidOid});
        item.origins.push_back({range, 0});
        item.targets = pg::call([&] {
            return list_make1(makeTargetEntry(reinterpret_cast<Expr*>(makeBoolConst(true, false)), 1,
                                              pstrdup(item.columns.back().name.c_str()), false));
        });
    }
    return item;
}

std::string item_text(RangeTblEntry* entry, List* targets) {
    return pg::call([&] {
        auto* const query = makeNode(Query);
        query->commandType = CMD_SELECT;
        query->rtable = list_make1(entry);
        auto* const reference = makeNode(RangeTblRef);
        reference->rtindex = 1;
        query->jointree = makeFromExpr(list_make1(reference), nullptr);
        query->targetList = targets;
        return pg_get_querydef(query, false);
    });
}

}  // namespace

const Operator& derived_table(Compiler& compiler, const Operator& block, int range,
                              const std::vector<Origin>& used) {
    Operator& op = compiler.make("subquery", {&block});
    std::vector<std::string> values;
    for (const auto& origin : used) {
        if (origin.range != range) continue;
        if (origin.attribute <= 0)
            throw NotDifferential("the query takes whole rows of a subquery as a value");
        op.columns.push_back(block.columns.at(static_cast<std::size_t>(origin.attribute) - 1));
        values.push_back(op.columns.back().name + " as " + column_name(origin));
        op.columns.back().name = column_name(origin);
        op.origins.push_back(origin);
    }
    if (values.empty()) {
        op.columns.push_back({column_name({range, 0}), BOOLOID, -1, InvalidOid});
        op.origins.push_back({range, 0});
        values.push_back("true as " + op.columns.back().name);
    }
    compiler.script().add_view(op.now, "select " + join(values, ", ") + " from " + block.now);
    if (block.is_constant())
        op.change.clear();
    else
        compiler.script().add_view(op.change,
                                   "select " + join(values, ", ") + ", baton_weight from " + block.change);
    return op;
}

const Operator& single_row(Compiler& compiler) {
    Operator& op = compiler.make("one row", {});
    op.columns.push_back({"v0_0", BOOLOID, -1, InvalidOid});
    op.origins.push_back({0, 0});
    op.change.clear();
    compiler.script().add_view(op.now, "select true as v0_0");
    return op;
}

const Operator& constant_rows(Compiler& compiler, Query* query, int range, const std::vector<Origin>& used) {
    RangeTblEntry* const entry = rt_fetch(range, query->rtable);
    if (names_time(reinterpret_cast<Node*>(entry->functions)) ||
        names_time(reinterpret_cast<Node*>(entry->values_lists)))
        throw NotDifferential(time_out_of_place);
    const Item item = describe_item(query, range, used);
    Operator& op = compiler.make(entry->rtekind == RTE_VALUES ? "values" : "function", {});
    op.columns = item.columns;
    op.origins = item.origins;
    op.change.clear();
    compiler.script().add_view(op.now, item_text(entry, item.targets));
    return op;
}

}  // namespace baton::stream
