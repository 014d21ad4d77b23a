// Making of a query the text that is computed over leaves. The blocks of the query, and those within, are
// rebuilt one after the other, outside first: of a block's FROM clause the items that look nowhere else, with
// the conditions on them alone, become one leaf. Items that look outside stay beside the leaf.

#include "stream/compiler/template.hpp"

#include <map>
#include <set>

#include "stream/compiler/block.hpp"
#include "stream/compiler/ties.hpp"
#include "stream/compiler/time_filter.hpp"

namespace baton::stream {

namespace {

// Where the columns of a block's old items are in the rebuilt block.
struct Level {
    std::map<Origin, Origin> columns;
    std::map<int, int> items;  // those that stay, with all of their columns
};

// The queries of an expression, those within them left out.
bool note_query(Node* node, void* context) {
    if (node == nullptr) return false;
    if (IsA(node, Query)) {
        static_cast<std::vector<Query*>*>(context)->push_back(reinterpret_cast<Query*>(node));
        return false;
    }
    return pg::walk_expression(node, note_query, context);
}

// Whether an expression names the time, its queries left out.
bool note_time_itself(Node* node, void* context) {
    if (node == nullptr || IsA(node, Query)) return false;
    return is_time(node) || pg::walk_expression(node, note_time_itself, context);
}

bool names_time_itself(Node* expression) {
    return pg::call([&] { return note_time_itself(expression, nullptr); });
}

struct Rebinding {
    const std::vector<Level>* levels;
    const Operator* around;
    const std::map<Query*, Query*>* queries;
    std::set<int>* used;
    bool failed;
};

Node* rebound_column(Rebinding& binding, const Var& var) {
    const auto up = static_cast<std::size_t>(var.varlevelsup);
    const Origin old{static_cast<int>(var.varno), var.varattno};
    Origin place{0, 0};
    if (up < binding.levels->size()) {
        const Level& level = (*binding.levels)[binding.levels->size() - 1 - up];
        if (const auto item = level.items.find(old.range); item != level.items.end())
            place = {item->second, old.attribute};
        else if (const auto column = level.columns.find(old);
                 column != level.columns.end() && old.attribute > 0)
            place = column->second;
    } else if (up == binding.levels->size() && binding.around != nullptr) {
        const auto& origins = binding.around->origins;
        const auto found = std::find(origins.begin(), origins.end(), old);
        if (found != origins.end()) {
            const int index = static_cast<int>(found - origins.begin());
            binding.used->insert(index);
            place = {1, index + 1};
        }
    }
    if (place.range == 0) return nullptr;
    return reinterpret_cast<Node*>(makeVar(place.range, static_cast<AttrNumber>(place.attribute), var.vartype,
                                           var.vartypmod, var.varcollid, var.varlevelsup));
}

Node* rebind(Node* node, void* context) {
    auto& binding = *static_cast<Rebinding*>(context);
    if (node == nullptr || binding.failed) return node;
    if (IsA(node, Query)) return reinterpret_cast<Node*>(binding.queries->at(reinterpret_cast<Query*>(node)));
    if (!IsA(node, Var)) return pg::mutate_expression(node, rebind, context);
    Node* const place = rebound_column(binding, *reinterpret_cast<Var*>(node));
    binding.failed = place == nullptr;
    return place;
}

class Builder {
  public:
    Builder(Compiler& compiler, const Operator* around, Template& result)
        : compiler_(compiler), around_(around), result_(result) {}

    Query* query(Query* given) {
        Query* const query = pg::copy_tree(given);
        compiler_.levels().push_back(query);
        levels_.emplace_back();
        if (query->setOperations != nullptr) {
            for (auto* const entry : pg::elements<RangeTblEntry>(query->rtable))
                if (entry->rtekind == RTE_SUBQUERY) entry->subquery = this->query(entry->subquery);
            refuse_ties(*query, compiler_.levels());
            check_looks(query->setOperations);
            query->limitOffset = expression(query->limitOffset);
            query->limitCount = expression(query->limitCount);
        } else {
            make_plain(query);
            refuse_ties(*query, compiler_.levels());  // the result of before is computed again
            rebuild(query);
        }
        query->cteList = NIL;
        query->hasRecursive = false;
        levels_.pop_back();
        compiler_.levels().pop_back();
        return query;
    }

    // An expression of the present level, its queries rebuilt.
    template <class T>
    T* expression(T* given) {
        if (names_time_itself(reinterpret_cast<Node*>(given))) throw NotDifferential(time_out_of_place);
        std::vector<Query*> found;
        pg::call([&] { note_query(reinterpret_cast<Node*>(given), &found); });
        std::map<Query*, Query*> queries;
        for (auto* const inside : found) queries[inside] = query(inside);
        Rebinding binding{&levels_, around_, &queries, &result_.used, false};
        auto* const bound = pg::call([&] { return rebind(reinterpret_cast<Node*>(given), &binding); });
        if (binding.failed)
            throw NotDifferential("a subquery names a column that its changes cannot be followed by");
        return reinterpret_cast<T*>(bound);
    }

  private:
    // What the FROM clause of a block is taken apart to.
    struct Parts {
        List* local = NIL;         // trees that look nowhere else
        std::vector<int> staying;  // items that do
        std::vector<Node*> conditions;
    };

    // Refuse set operations that make one of rows that are equal and may look different.
    static void check_looks(Node* tree) {
        if (!IsA(tree, SetOperationStmt)) return;
        const auto& operation = *reinterpret_cast<SetOperationStmt*>(tree);
        check_looks(operation.larg);
        check_looks(operation.rarg);
        if (operation.op == SETOP_UNION && operation.all) return;
        std::vector<Column> columns;
        for (int i = 0; i < list_length(operation.colTypes); ++i)
            columns.push_back({"", list_nth_oid(operation.colTypes, i), list_nth_int(operation.colTypmods, i),
                               list_nth_oid(operation.colCollations, i)});
        refuse_ties(columns);
    }

    void rebuild(Query* query) {
        const std::set<int> staying = staying_items(*query);
        Parts parts;
        take_apart(reinterpret_cast<Node*>(query->jointree), staying, parts);
        const std::vector<RangeTblEntry*> old = pg::elements<RangeTblEntry>(query->rtable);
        List* entries = NIL;
        List* from = NIL;
        const auto add = [&](RangeTblEntry* entry) {
            pg::call([&] {
                entries = lappend(entries, entry);
                auto* const reference = makeNode(RangeTblRef);
                reference->rtindex = list_length(entries);
                from = lappend(from, reference);
            });
        };
        std::vector<Node*> rest = parts.conditions;
        if (parts.local != NIL) add(add_leaf(query, parts, staying, rest));
        for (const int range : parts.staying) {
            add(pg::copy_tree(old[static_cast<std::size_t>(range) - 1]));
            levels_.back().items[range] = list_length(entries);
        }
        for (const int range : parts.staying) rebuild_item(*rt_fetch(levels_.back().items[range], entries));
        List* conditions = NIL;
        for (auto* const condition : rest) {
            Node* const bound = expression(condition);
            conditions = pg::call([&] { return lappend(conditions, bound); });
        }
        query->targetList = expression(query->targetList);
        query->havingQual = expression(query->havingQual);
        query->windowClause = expression(query->windowClause);
        query->limitOffset = expression(query->limitOffset);
        query->limitCount = expression(query->limitCount);
        query->rtable = entries;
        query->jointree = pg::call([&] {
            return makeFromExpr(
                from, conditions == NIL ? nullptr : reinterpret_cast<Node*>(make_ands_explicit(conditions)));
        });
    }

    void rebuild_item(RangeTblEntry& entry) {
        if (entry.rtekind == RTE_SUBQUERY) entry.subquery = query(entry.subquery);
        if (entry.rtekind == RTE_FUNCTION) entry.functions = expression(entry.functions);
        if (entry.rtekind == RTE_VALUES) entry.values_lists = expression(entry.values_lists);
    }

    // Items that look outside of the block, or at items that do, and functions of subqueries.
    static std::set<int> staying_items(const Query& query) {
        const std::vector<RangeTblEntry*> entries = pg::elements<RangeTblEntry>(query.rtable);
        std::set<int> staying;
        for (std::size_t before = entries.size() + 1; before != staying.size();) {
            before = staying.size();
            for (std::size_t i = 0; i < entries.size(); ++i) {
                const Mentions mentions = mentions_of_item(*entries[i]);
                if (mentions.looks_outside() || names_any(mentions, staying) || holds_subquery(*entries[i]))
                    staying.insert(static_cast<int>(i) + 1);
            }
        }
        return staying;
    }

    static bool names_any(const Mentions& mentions, const std::set<int>& items) {
        return std::any_of(mentions.columns.begin(), mentions.columns.end(),
                           [&](const Origin& column) { return items.contains(column.range); });
    }

    static bool tree_stays(Node* tree, const std::set<int>& staying) {
        if (IsA(tree, RangeTblRef)) return staying.contains(reinterpret_cast<RangeTblRef*>(tree)->rtindex);
        if (IsA(tree, FromExpr)) {
            const auto* const from = reinterpret_cast<FromExpr*>(tree);
            const auto members = pg::elements<Node>(from->fromlist);
            return std::any_of(members.begin(), members.end(),
                               [&](Node* member) { return tree_stays(member, staying); });
        }
        const auto* const join = reinterpret_cast<JoinExpr*>(tree);
        const Mentions mentions = mentions_of(join->quals);
        return mentions.looks_outside() || tree_stays(join->larg, staying) || tree_stays(join->rarg, staying);
    }

    void take_apart(Node* tree, const std::set<int>& staying, Parts& parts) {
        const auto add_conditions = [&](Node* conditions) {
            List* const list =
                pg::call([&] { return make_ands_implicit(reinterpret_cast<Expr*>(conditions)); });
            for (auto* const condition : pg::elements<Node>(list)) parts.conditions.push_back(condition);
        };
        if (IsA(tree, FromExpr)) {
            const auto* const from = reinterpret_cast<FromExpr*>(tree);
            for (auto* const member : pg::elements<Node>(from->fromlist)) take_apart(member, staying, parts);
            add_conditions(from->quals);
        } else if (IsA(tree, JoinExpr) && reinterpret_cast<JoinExpr*>(tree)->jointype == JOIN_INNER) {
            const auto* const join = reinterpret_cast<JoinExpr*>(tree);
            take_apart(join->larg, staying, parts);
            take_apart(join->rarg, staying, parts);
            add_conditions(join->quals);
        } else if (!tree_stays(tree, staying)) {
            parts.local = pg::call([&] { return lappend(parts.local, tree); });
        } else if (IsA(tree, RangeTblRef)) {
            parts.staying.push_back(reinterpret_cast<RangeTblRef*>(tree)->rtindex);
        } else {
            throw NotDifferential("an outer join within a subquery looks outside of the subquery");
        }
    }

    // The leaf of a block. Takes the conditions that go with it out of `conditions`.
    RangeTblEntry* add_leaf(Query* query, const Parts& parts, const std::set<int>& staying,
                            std::vector<Node*>& conditions) {
        List* local = NIL;
        std::vector<Node*> asked;
        std::vector<Node*> rest;
        for (auto* const condition : conditions) {
            const Mentions mentions = mentions_of(condition);
            if (names_any(mentions, staying))
                rest.push_back(condition);
            else if (!mentions.looks_outside())
                local = pg::call([&] { return lappend(local, condition); });
            else if (around_ != nullptr && mentions.levels == std::set{static_cast<int>(levels_.size())} &&
                     !has_sublink(condition))
                asked.push_back(condition);
            else
                rest.push_back(condition);
        }
        conditions = rest;
        Query narrowed = *query;
        narrowed.jointree = pg::call([&] { return makeFromExpr(parts.local, nullptr); });
        const Operator& op = from_clause(compiler_, &narrowed, local, used_columns(query));
        Leaf leaf{&op, Compiler::name("baton_leaf", op), {}, false};
        for (auto* const condition : asked) {
            leaf.conditions.push_back(
                expression_text(condition, {{"a", around_, static_cast<int>(levels_.size())}, {"b", &op}}));
            leaf.has_equality = leaf.has_equality || is_equality(condition);
            note_used(condition);
        }
        result_.leaves.push_back(leaf);
        for (std::size_t i = 0; i < op.origins.size(); ++i)
            levels_.back().columns[op.origins[i]] = {1, static_cast<int>(i) + 1};
        return pg::call([&] { return range_of(leaf.name.c_str(), &op); });
    }

    // Whether a condition says that a value of the row around equals one of the leaf.
    static bool is_equality(Node* condition) {
        if (!IsA(condition, OpExpr)) return false;
        const auto* const operation = reinterpret_cast<OpExpr*>(condition);
        if (list_length(operation->args) != 2) return false;
        const bool joins = pg::call([&] {
            const Oid type = exprType(static_cast<Node*>(linitial(operation->args)));
            return op_hashjoinable(operation->opno, type) || op_mergejoinable(operation->opno, type);
        });
        const Mentions left = mentions_of(static_cast<Node*>(linitial(operation->args)));
        const Mentions right = mentions_of(static_cast<Node*>(lsecond(operation->args)));
        return joins && left.columns.empty() != left.levels.empty() &&
               right.columns.empty() != right.levels.empty() && left.levels.empty() != right.levels.empty();
    }

    // Note the columns of the row around that a condition names. It is bound elsewhere.
    void note_used(Node* condition) {
        List* const vars =
            pg::call([&] { return pull_vars_of_level(condition, static_cast<int>(levels_.size())); });
        for (const auto* const var : pg::elements<Var>(vars)) {
            const Origin origin{static_cast<int>(var->varno), var->varattno};
            const auto found = std::find(around_->origins.begin(), around_->origins.end(), origin);
            if (found != around_->origins.end())
                result_.used.insert(static_cast<int>(found - around_->origins.begin()));
        }
    }

    Compiler& compiler_;
    const Operator* around_;
    Template& result_;
    std::vector<Level> levels_;  // outermost first
};

// The text of a query in parentheses, or of a subquery's value.
std::string text_of(SubLink* sublink, const Operator* around) {
    std::vector<Alias> scope;
    if (around != nullptr) scope.push_back({"a", around});
    return bound_text(reinterpret_cast<Node*>(sublink), scope);
}

SubLink* as_sublink(Query* query) {
    return pg::call([&] {
        auto* const sublink = makeNode(SubLink);
        sublink->subLinkType = EXPR_SUBLINK;
        sublink->subselect = reinterpret_cast<Node*>(query);
        return sublink;
    });
}

// SELECT * of an item of FROM that stands alone.
Query* selection_of(RangeTblEntry* entry) {
    return pg::call([&] {
        auto* const query = makeNode(Query);
        query->commandType = CMD_SELECT;
        query->rtable = list_make1(entry);
        auto* const reference = makeNode(RangeTblRef);
        reference->rtindex = 1;
        query->jointree = makeFromExpr(list_make1(reference), nullptr);
        List* columns = NIL;
        expandRTE(entry, 1, 0, -1, true, nullptr, &columns);
        ListCell* cell = nullptr;
        foreach (cell, columns) {
            const auto number = static_cast<AttrNumber>(list_length(query->targetList) + 1);
            query->targetList = lappend(
                query->targetList,
                makeTargetEntry(static_cast<Expr*>(lfirst(cell)), number, psprintf("f%d", number), false));
        }
        return query;
    });
}

}  // namespace

bool Template::is_constant() const {
    return std::all_of(leaves.begin(), leaves.end(), [](const Leaf& leaf) { return leaf.op->is_constant(); });
}

std::string Template::filled(const std::function<std::string(const Leaf&)>& rows) const {
    std::string result = text;
    for (const auto& leaf : leaves) {
        const std::string place = "FROM " + leaf.name;
        std::size_t at = result.find(place);
        // Not another leaf, and not a column of this one: IS DISTINCT FROM leaf.column
        while (at != std::string::npos &&
               (std::isdigit(result[at + place.size()]) != 0 || result[at + place.size()] == '.'))
            at = result.find(place, at + 1);
        if (at == std::string::npos) throw SqlError("unexpected text of a subquery: " + result, "XX000");
        result.replace(at + 5, leaf.name.size(), rows(leaf));
    }
    return result;
}

Template subquery_template(Compiler& compiler, const Operator& around, const SubLink& sublink) {
    Template result;
    Builder builder(compiler, &around, result);
    SubLink* const copy = pg::copy_tree(&sublink);
    result.text = text_of(builder.expression(copy), &around);
    return result;
}

Template lateral_template(Compiler& compiler, const Operator& around, const RangeTblEntry& entry) {
    Template result;
    Builder builder(compiler, &around, result);
    Query* query = entry.subquery;
    if (entry.rtekind != RTE_SUBQUERY) {
        RangeTblEntry* const copy = pg::copy_tree(&entry);
        pg::call([&] { IncrementVarSublevelsUp_rtable(list_make1(copy), 1, 0); });
        query = selection_of(copy);
    }
    result.text = text_of(as_sublink(builder.query(query)), &around);
    return result;
}

Template recursive_template(Compiler& compiler, const CommonTableExpr& with) {
    if (with.search_clause != nullptr || with.cycle_clause != nullptr)
        throw NotDifferential("SEARCH or CYCLE of a recursive query");
    Template result;
    Builder builder(compiler, nullptr, result);
    CommonTableExpr* const copy = pg::copy_tree(&with);
    copy->ctequery = reinterpret_cast<Node*>(builder.query(castNode(Query, with.ctequery)));
    RangeTblEntry* const entry = pg::call([&] {
        auto* const made = makeNode(RangeTblEntry);
        made->rtekind = RTE_CTE;
        made->ctename = copy->ctename;
        made->inFromCl = true;
        made->coltypes = copy->ctecoltypes;
        made->coltypmods = copy->ctecoltypmods;
        made->colcollations = copy->ctecolcollations;
        made->eref = makeAlias(copy->ctename, static_cast<List*>(copyObjectImpl(copy->ctecolnames)));
        return made;
    });
    Query* const home = selection_of(entry);
    home->cteList = pg::call([&] { return list_make1(copy); });
    home->hasRecursive = true;
    result.text = text_of(as_sublink(home), nullptr);
    return result;
}

std::string leaf_now(const Leaf& leaf) {
    if (leaf.conditions.empty()) return leaf.op->now + " " + leaf.name;
    return "(select " + column_list(leaf.op->columns, "b") + " from " + leaf.op->now + " b where " +
           all_of(leaf.conditions) + ") " + leaf.name;
}

std::string leaf_before(Compiler& compiler, const Leaf& leaf) {
    if (leaf.op->is_constant()) return leaf_now(leaf);
    if (leaf.conditions.empty()) return compiler.past(*leaf.op) + " " + leaf.name;
    const std::string columns = column_list(leaf.op->columns, "b");
    const std::string where = " b where " + all_of(leaf.conditions);
    return "(" +
           spread(leaf.op->columns, "select " + columns + ", 1::bigint as baton_weight from " + leaf.op->now +
                                        where + " union all select " + columns + ", -b.baton_weight from " +
                                        leaf.op->change + where) +
           ") " + leaf.name;
}

}  // namespace baton::stream
