// FROM and WHERE: items become operators, inner joins are flattened into one, and conditions go where their
// columns are.

#include <set>

#include "stream/compiler/block.hpp"
#include "stream/compiler/time_filter.hpp"

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

// ---- the walk through the join tree ----

class FromClause {
  public:
    FromClause(Compiler& compiler, Query* query, const std::vector<Origin>& used)
        : compiler_(compiler), query_(query), used_(used) {}

    const Operator& whole(List* conditions) {
        const Operator* op = &inner(reinterpret_cast<Node*>(query_->jointree), conditions, true);
        for (auto* const condition : subqueries_) op = &subquery_condition(compiler_, *op, condition);
        return *op;
    }

  private:
    // An item that is computed for each row of others.
    struct Lateral {
        int range;
        JoinType type;
        Node* condition;
    };

    // What an inner join gathers before it becomes an operator.
    struct Gathered {
        std::vector<const Operator*> items;
        std::vector<Lateral> laterals;
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
        conditions = filtered_by_time(items, conditions);
        if (items.empty()) items.push_back(&single_row(compiler_));  // SELECT without FROM
        List* early = NIL;
        List* late = NIL;
        for (auto* const condition : pg::elements<Node>(conditions)) {
            List*& list = names_lateral(condition, gathered) || names_time(condition) ? late : early;
            list = pg::call([&] { return lappend(list, condition); });
        }
        const Operator* op =
            items.size() == 1 && early == NIL ? items.front() : &inner_join(compiler_, items, early);
        for (const auto& lateral : gathered.laterals)
            op = &lateral_item(compiler_, *op, query_, lateral.range, used_, lateral.type, lateral.condition);
        List* const rest = late;
        late = NIL;
        for (auto* const condition : pg::elements<Node>(rest))
            if (names_time(condition))
                op = &time_filter(compiler_, *op, condition);
            else
                late = pg::call([&] { return lappend(late, condition); });
        return late == NIL ? *op : inner_join(compiler_, {op}, late);
    }

    // Apply conditions that name the time, those of a single item to the item; returns the others.
    List* filtered_by_time(std::vector<const Operator*>& items, List* conditions) {
        List* rest = NIL;
        for (auto* const condition : pg::elements<Node>(conditions)) {
            const Mentions mentions = mentions_of(condition);
            const auto home = std::find_if(items.begin(), items.end(), [&](const Operator* item) {
                return std::all_of(mentions.columns.begin(), mentions.columns.end(),
                                   [&](const Origin& column) {
                                       return std::find(item->origins.begin(), item->origins.end(), column) !=
                                              item->origins.end();
                                   });
            });
            if (names_time(condition) && home != items.end())
                *home = &time_filter(compiler_, **home, condition);
            else
                rest = pg::call([&] { return lappend(rest, condition); });
        }
        return rest;
    }

    static bool names_lateral(Node* condition, const Gathered& gathered) {
        const Mentions mentions = mentions_of(condition);
        return std::any_of(mentions.columns.begin(), mentions.columns.end(), [&](const Origin& column) {
            return std::any_of(gathered.laterals.begin(), gathered.laterals.end(),
                               [&](const Lateral& lateral) { return lateral.range == column.range; });
        });
    }

    void gather(Node* tree, Gathered& into) {
        if (IsA(tree, RangeTblRef)) {
            const int range = reinterpret_cast<RangeTblRef*>(tree)->rtindex;
            if (is_lateral(range))
                into.laterals.push_back({range, JOIN_INNER, nullptr});
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
            } else if (join->jointype == JOIN_LEFT && IsA(join->rarg, RangeTblRef) &&
                       is_lateral(reinterpret_cast<RangeTblRef*>(join->rarg)->rtindex)) {
                gather(join->larg, into);
                if (has_sublink(join->quals))
                    throw NotDifferential("a condition of an outer join holds a subquery");
                into.laterals.push_back(
                    {reinterpret_cast<RangeTblRef*>(join->rarg)->rtindex, JOIN_LEFT, join->quals});
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

    const RangeTblEntry& entry(int range) const { return *rt_fetch(range, query_->rtable); }

    // Whether an item is computed for each row of others: it names their columns, or it is of subqueries.
    bool is_lateral(int range) const {
        const RangeTblEntry& from = entry(range);
        const Mentions mentions = mentions_of_item(from);
        if (!mentions.columns.empty() || !mentions.levels.empty()) return true;
        return holds_subquery(from);
    }

    const Operator& item(int range) {
        const RangeTblEntry& from = entry(range);
        switch (from.rtekind) {
            case RTE_RELATION:
                return relation(from, range);
            case RTE_SUBQUERY:
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
        if (from.self_reference)
            throw NotDifferential("a recursive query within a join that is no inner one");
        auto& levels = compiler_.levels();
        const std::size_t up = from.ctelevelsup;
        if (up >= levels.size()) throw NotDifferential("a WITH query that is out of reach");
        Query* const home = levels[levels.size() - 1 - up];
        for (auto* const with : pg::elements<CommonTableExpr>(home->cteList)) {
            if (strcmp(with->ctename, from.ctename) != 0) continue;
            // The WITH query sees what its home sees.
            const std::vector<Query*> here = levels;
            levels.resize(levels.size() - up);
            const Operator& op = with->cterecursive
                                     ? recursion(compiler_, *with)
                                     : compiler_.block(pg::copy_tree(castNode(Query, with->ctequery)));
            levels = here;
            return op;
        }
        throw NotDifferential("a WITH query that is out of reach");
    }

    Compiler& compiler_;
    Query* query_;
    const std::vector<Origin> used_;
    std::vector<Node*> subqueries_;
};

}  // namespace

std::vector<Origin> used_columns(Query* query) {
    std::set<Origin> found;
    Usage usage{&found, 0};
    pg::call([&] { pg::walk_query(query, note_column, &usage, QTW_IGNORE_JOINALIASES); });
    return {found.begin(), found.end()};
}

const Operator& from_clause(Compiler& compiler, Query* query, List* conditions,
                            const std::vector<Origin>& used) {
    return FromClause(compiler, query, used).whole(conditions);
}

}  // namespace baton::stream
