// UNION, INTERSECT and EXCEPT, each with and without ALL.
//
// UNION ALL is linear: the changes of both sides, together. UNION is DISTINCT over it. The others work apart
// by whole rows: whether a row is in the result depends only on how often it is on either side. So the rows
// that occur in a side's change are looked at: the operation over them now, minus the operation over them
// before. Which of several looks a row has must not be open then (ties.cpp).

#include "stream/compiler/ties.hpp"

namespace baton::stream {

namespace {

class SetOperation {
  public:
    SetOperation(Compiler& compiler, Query* query) : compiler_(compiler), query_(query) {}

    // With a target the operation is the root: what it had put out stands in the stream table.
    const Operator& node(Node* tree, const Target* target) {
        if (IsA(tree, RangeTblRef))
            return compiler_.block(
                rt_fetch(reinterpret_cast<RangeTblRef*>(tree)->rtindex, query_->rtable)->subquery);
        const auto& operation = *reinterpret_cast<SetOperationStmt*>(tree);
        const Operator& left = coerced(operation, node(operation.larg, nullptr));
        const Operator& right = coerced(operation, node(operation.rarg, nullptr));
        if (operation.op == SETOP_UNION) {
            const Operator& all = union_all(operation, left, right);
            return operation.all ? all : keyed(operation, "union", all, all, target);
        }
        const bool is_intersect = operation.op == SETOP_INTERSECT;
        const std::string word =
            std::string(is_intersect ? "intersect" : "except") + (operation.all ? " all" : "");
        return keyed(operation, word, left, right, target);
    }

  private:
    std::vector<Column> columns_of(const SetOperationStmt& operation) const {
        std::vector<Column> columns;
        for (int i = 0; i < list_length(operation.colTypes); ++i)
            columns.push_back({"x" + std::to_string(i + 1), list_nth_oid(operation.colTypes, i),
                               list_nth_int(operation.colTypmods, i),
                               list_nth_oid(operation.colCollations, i)});
        return columns;
    }

    // A side whose columns have the types of the result.
    const Operator& coerced(const SetOperationStmt& operation, const Operator& side) {
        const std::vector<Column> columns = columns_of(operation);
        std::vector<std::string> values;
        bool fits = true;
        for (std::size_t i = 0; i < columns.size(); ++i) {
            fits = fits && side.columns[i].type == columns[i].type;
            values.push_back(side.columns[i].name + "::" + type_text(columns[i].type, columns[i].typmod) +
                             " as " + columns[i].name);
        }
        if (fits) return side;
        Operator& op = compiler_.make("cast", {&side});
        op.columns = columns;
        compiler_.script().add_view(op.now, "select " + join(values, ", ") + " from " + side.now);
        if (side.is_constant())
            op.change.clear();
        else
            compiler_.script().add_view(
                op.change, "select " + join(values, ", ") + ", baton_weight from " + side.change);
        return op;
    }

    const Operator& union_all(const SetOperationStmt& operation, const Operator& left,
                              const Operator& right) {
        Operator& op = compiler_.make("union all", {&left, &right});
        op.columns = columns_of(operation);
        const std::string columns = column_list(op.columns);
        compiler_.script().add_view(op.now, "select " + columns + " from " + left.now + " union all select " +
                                                columns + " from " + right.now);
        std::vector<std::string> terms;
        for (const auto* const side : {&left, &right})
            if (!side->is_constant())
                terms.push_back("select " + columns + ", baton_weight from " + side->change);
        if (terms.empty())
            op.change.clear();
        else
            compiler_.script().add_table(op.change, join(terms, " union all "));
        return op;
    }

    // The rows of an operator, or of what has its columns, that occur in a change.
    static std::string of_touched(const SetOperationStmt& operation, const Operator& touched,
                                  const Operator& like, const std::string& rows, const char* extra = "") {
        std::vector<Node*> values;
        std::vector<Oid> equalities;
        for (std::size_t i = 0; i < like.columns.size(); ++i) {
            const Column& column = like.columns[i];
            values.push_back(pg::call([&] {
                return reinterpret_cast<Node*>(makeVar(1, static_cast<AttrNumber>(i + 1), column.type,
                                                       column.typmod, column.collation, 0));
            }));
            equalities.push_back(
                static_cast<SortGroupClause*>(list_nth(operation.groupClauses, static_cast<int>(i)))->eqop);
        }
        return rows_of_touched(touched, values, equalities,
                               "select " + column_list(like.columns, "a") + extra, {"a", &like}, rows);
    }

    // What the fresh rows of a side were before.
    std::string stale(const Operator& op, const Operator& side, const std::string& fresh) {
        const std::string columns = column_list(op.columns);
        std::string weighted = "select " + columns + ", 1::bigint as baton_weight from " + fresh;
        if (!side.is_constant())
            weighted += " union all select " + columns + ", -baton_weight from " + side.change;
        std::string view = "stale" + fresh.substr(fresh.find('_'));
        compiler_.script().add_view(view, spread(op.columns, weighted));
        return view;
    }

    const Operator& keyed(const SetOperationStmt& operation, const std::string& word, const Operator& left,
                          const Operator& right, const Target* target) {
        const bool is_union = operation.op == SETOP_UNION;  // of rows that are gathered already
        Operator& op = compiler_.make(word, is_union ? std::vector{&left} : std::vector{&left, &right});
        op.columns = columns_of(operation);
        const std::string columns = column_list(op.columns);
        const auto combined = [&](const std::string& a, const std::string& b) {
            return is_union ? "select distinct " + columns + " from " + a
                            : "select " + columns + " from " + a + " " + word + " select " + columns +
                                  " from " + b;
        };
        compiler_.script().add_view(op.now, combined(left.now, right.now));
        std::vector<std::string> changed;
        if (!left.is_constant()) changed.push_back("select " + columns + " from " + left.change);
        if (!right.is_constant() && !is_union)
            changed.push_back("select " + columns + " from " + right.change);
        if (changed.empty()) {
            op.change.clear();
            return op;
        }
        Operator& touched = compiler_.make("touched rows", {});  // nobody sees it, but it has columns
        touched.now = Compiler::name("touched", op);
        touched.columns = op.columns;
        compiler_.script().add_table(
            touched.now, "select distinct " + columns + " from (" + join(changed, " union all ") + ") c");
        const std::vector<const Operator*> sides = is_union ? std::vector{&left} : std::vector{&left, &right};
        std::vector<std::string> now;
        for (const auto* const side : sides) {
            now.push_back(Compiler::name("fresh", op) + (side == &left ? "_left" : "_right"));
            compiler_.script().add_table(now.back(), of_touched(operation, touched, op, side->now));
        }
        std::string change = "select " + columns + ", 1::bigint as baton_weight from (" +
                             combined(now.front(), now.back()) + ") r\n union all ";
        if (target != nullptr) {
            change += of_touched(operation, touched, op, compiler_.stored(op, *target),
                                 ", -1::bigint as baton_weight");
        } else {
            refuse_ties(op.columns);
            std::vector<std::string> before;
            for (std::size_t i = 0; i < sides.size(); ++i) before.push_back(stale(op, *sides[i], now[i]));
            change +=
                "select " + columns + ", -1::bigint from (" + combined(before.front(), before.back()) + ") r";
        }
        compiler_.script().add_table(op.change, change);
        return op;
    }

    Compiler& compiler_;
    Query* query_;
};

}  // namespace

const Operator& set_operation(Compiler& compiler, Query* query, const Target* target) {
    return SetOperation(compiler, query).node(query->setOperations, target);
}

}  // namespace baton::stream
