// FROM and WHERE: items become operators, inner joins are flattened into one, and conditions go where their
// columns are.

#include <set>

#include "stream/compiler/text.hpp"

namespace baton::stream {

namespace {

// ---- which columns does a block name? ----

struct Usage {
    std::set<Origin>* found;
    int depth;
};

bool note_column(Node* node, void* context) {
    auto& usage = *static_cast<Usage*>(context);
    if (node == nullptr) return false;
    if (IsA(node, Var)) {
        const auto* const var = reinterpret_cast<Var*>(node);
        if (static_cast<int>(var->varlevelsup) == usage.depth)
            usage.found->insert({static_cast<int>(var->varno), var->varattno});
        return false;
    }
    if (IsA(node, Query)) {
        ++usage.depth;
        pg::walk_query(reinterpret_cast<Query*>(node), note_column, context, 0);
        --usage.depth;
        return false;
    }
    return pg::walk_expression(node, note_column, context);
}

// What the expressions of a FROM item look at.
struct Contents {
    bool subqueries;
    bool outer_columns;
    bool columns;
};

bool note_contents(Node* node, void* context) {
    auto& contents = *static_cast<Contents*>(context);
    if (node == nullptr) return false;
    if (IsA(node, SubLink)) contents.subqueries = true;
    if (IsA(node, Var))
        (reinterpret_cast<Var*>(node)->varlevelsup > 0 ? contents.outer_columns : contents.columns) = true;
    return pg::walk_expression(node, note_contents, context);
}

// ---- the walk through the join tree ----

class FromClause {
  public:
    FromClause(Compiler& compiler, Query* query)
        : compiler_(compiler), query_(query), used_(used_columns(query)) {}

    const Operator& whole(List* conditions) {
        const Operator* op = &inner(reinterpret_cast<Node*>(query_->jointree), conditions, true);
        for (auto* const condition : subqueries_) op = &subquery_condition(compiler_, *op, condition);
        return *op;
    }

  private:
    // What an inner join gathers before it becomes an operator.
    struct Gathered {
        std::vector<const Operator*> items;
        std::vector<int> lateral_functions;
        std::vector<Node*> conditions;
    };

    // An inner join, however it is written: FROM a, b WHERE ..; a JOIN b ON ..
    const Operator& inner(Node* tree, List* conditions, bool may_have_subqueries) {
        Gathered gathered;
        gather(tree, gathered);
        for (auto* const condition : pg::elements<Node>(conditions)) gathered.conditions.push_back(condition);
        List* plain = NIL;
        for (auto* const condition : gathered.conditions) {
            if (!has_sublink(condition)) {
                plain = pg::call([&] { return lappend(plain, condition); });
            } else if (may_have_subqueries) {
                subqueries_.push_back(condition);
            } else {
                throw NotDifferential("a condition of an outer join holds a subquery");
            }
        }
        return joined(gathered, plain);
    }

    const Operator& joined(const Gathered& gathered, List* conditions) {
        std::vector<const Operator*> items = gathered.items;
        if (items.empty()) items.push_back(&single_row(compiler_));  // SELECT without FROM
        if (gathered.lateral_functions.empty())
            return items.size() == 1 && conditions == NIL ? *items.front()
                                                          : inner_join(compiler_, items, conditions);
        const Operator* op = items.size() == 1 ? items.front() : &inner_join(compiler_, items, NIL);
        for (const int range : gathered.lateral_functions)
            op = &function_rows(compiler_, *op, query_, range, used_);
        return conditions == NIL ? *op : inner_join(compiler_, {op}, conditions);
    }

    void gather(Node* tree, Gathered& into) {
        if (IsA(tree, RangeTblRef)) {
            const int range = reinterpret_cast<RangeTblRef*>(tree)->rtindex;
            if (is_lateral(range))
                into.lateral_functions.push_back(range);
            else
                into.items.push_back(&item(range));
        } else if (IsA(tree, FromExpr)) {
            const auto* const from = reinterpret_cast<FromExpr*>(tree);
            for (auto* const member : pg::elements<Node>(from->fromlist)) gather(member, into);
            if (tree != reinterpret_cast<Node*>(query_->jointree)) add_conditions(from->quals, into);
        } else {
            const auto* const join = reinterpret_cast<JoinExpr*>(tree);
            if (join->jointype == JOIN_INNER) {
                gather(join->larg, into);
                gather(join->rarg, into);
                add_conditions(join->quals, into);
            } else {
                const Operator& left = inner(join->larg, NIL, false);
                const Operator& right = inner(join->rarg, NIL, false);
                if (has_sublink(join->quals))
                    throw NotDifferential("a condition of an outer join holds a subquery");
                into.items.push_back(&outer_join(compiler_, join->jointype, left, right, join->quals));
            }
        }
    }

    static void add_conditions(Node* quals, Gathered& into) {
        List* const list = pg::call([&] { return make_ands_implicit(reinterpret_cast<Expr*>(quals)); });
        for (auto* const condition : pg::elements<Node>(list)) into.conditions.push_back(condition);
    }

    static bool has_sublink(Node* expression) {
        return pg::call([&] { return checkExprHasSubLink(expression); });
    }

    const RangeTblEntry& entry(int range) const { return *rt_fetch(range, query_->rtable); }

    // Whether a function or VALUES works on columns of other items. Refuses what is neither such an item nor
    // constant.
    bool is_lateral(int range) const {
        const RangeTblEntry& from = entry(range);
        if (from.rtekind != RTE_FUNCTION && from.rtekind != RTE_VALUES) return false;
        Contents contents{};
        pg::call([&] {
            note_contents(reinterpret_cast<Node*>(from.functions), &contents);
            note_contents(reinterpret_cast<Node*>(from.values_lists), &contents);
        });
        if (contents.subqueries) throw NotDifferential("a subquery within a function or VALUES in FROM");
        if (contents.outer_columns)
            throw NotDifferential("a function or VALUES in FROM that looks outside of its subquery");
        if (contents.columns && from.rtekind == RTE_VALUES)
            throw NotDifferential("VALUES of another item's columns");
        return contents.columns;
    }

    const Operator& item(int range) {
        const RangeTblEntry& from = entry(range);
        switch (from.rtekind) {
            case RTE_RELATION:
                return relation(from, range);
            case RTE_SUBQUERY:
                if (from.lateral) throw NotDifferential("a LATERAL subquery");
                return derived_table(compiler_, compiler_.block(from.subquery), range, used_);
            case RTE_CTE:
                return derived_table(compiler_, with_query(from), range, used_);
            case RTE_VALUES:
            case RTE_FUNCTION:
                return constant_rows(compiler_, query_, range, used_);
            default:
                throw NotDifferential("an item of FROM that is neither a table nor a subquery");
        }
    }

    const Operator& relation(const RangeTblEntry& from, int range) {
        if (from.tablesample != nullptr) throw NotDifferential("TABLESAMPLE takes rows by chance");
        switch (from.relkind) {
            case RELKIND_RELATION:
            case RELKIND_PARTITIONED_TABLE:
                return scan(compiler_, from, range, used_);
            case RELKIND_VIEW: {
                auto* const definition = pg::call([&] {
                    Relation const view = table_open(from.relid, AccessShareLock);
                    auto* const query = static_cast<Query*>(copyObjectImpl(get_view_query(view)));
                    table_close(view, NoLock);
                    return query;
                });
                auto outside = std::exchange(compiler_.levels(), {});
                const Operator& op = derived_table(compiler_, compiler_.block(definition), range, used_);
                compiler_.levels() = std::move(outside);
                return op;
            }
            case RELKIND_FOREIGN_TABLE:
                throw NotDifferential(table_text(from.relid) + " is a foreign table");
            case RELKIND_MATVIEW:
                throw NotDifferential(table_text(from.relid) + " is a materialized view");
            default:
                throw NotDifferential(table_text(from.relid) + " is no table");
        }
    }

    const Operator& with_query(const RangeTblEntry& from) {
        if (from.self_reference) throw NotDifferential("WITH RECURSIVE");
        auto& levels = compiler_.levels();
        const std::size_t up = from.ctelevelsup;
        if (up >= levels.size()) throw NotDifferential("a WITH query that is out of reach");
        Query* const home = levels[levels.size() - 1 - up];
        for (auto* const with : pg::elements<CommonTableExpr>(home->cteList)) {
            if (strcmp(with->ctename, from.ctename) != 0) continue;
            if (with->cterecursive) throw NotDifferential("WITH RECURSIVE");
            // The WITH query sees what its home sees.
            const std::vector<Query*> here = levels;
            levels.resize(levels.size() - up);
            const Operator& op = compiler_.block(pg::copy_tree(castNode(Query, with->ctequery)));
            levels = here;
            return op;
        }
        throw NotDifferential("a WITH query that is out of reach");
    }

    Compiler& compiler_;
    Query* query_;
    std::vector<Origin> used_;
    std::vector<Node*> subqueries_;
};

}  // namespace

std::vector<Origin> used_columns(Query* query) {
    std::set<Origin> found;
    Usage usage{&found, 0};
    pg::call([&] { pg::walk_query(query, note_column, &usage, QTW_IGNORE_JOINALIASES); });
    return {found.begin(), found.end()};
}

const Operator& from_clause(Compiler& compiler, Query* query, List* conditions) {
    return FromClause(compiler, query).whole(conditions);
}

}  // namespace baton::stream
