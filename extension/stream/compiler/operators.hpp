#pragma once
// A query as a tree of operators, each of which knows its present rows and how they changed.
//
// A change is a bag of rows with weights: +1 for a row that came, -1 for one that went. The changes of the
// sources since the last refresh stand in their change buffers. Each operator has a rule that makes its own
// change from the present rows and the changes of its inputs; the rows before the change are the present ones
// minus the change. The rule, and why it is right, stands at the top of the operator's file.
//
// Operators speak SQL. Each one adds common table expressions to one statement: now_N has the present rows,
// change_N the change with the column baton_weight. The server's deparser writes every expression, and its
// planner finds the way.

#include <deque>
#include <optional>
#include <set>

#include "pg/query.hpp"

namespace baton::stream {

// A query that cannot be kept up to date by changes; says why, as the end of "not differential: ...".
class NotDifferential : public Error {
  public:
    using Error::Error;
};

struct Column {
    std::string name;
    Oid type;
    int32 typmod;
    Oid collation;
};

// A column of the FROM clause, as its block's expressions name it.
struct Origin {
    int range;      // varno
    int attribute;  // varattno
    auto operator<=>(const Origin&) const = default;
};

// Operators live as long as the compilation, and do not move.
struct Operator {
    std::string label;  // what people see in explain_stream_table()
    std::vector<const Operator*> inputs;
    std::vector<Column> columns;
    std::vector<Origin> origins;  // of the columns, as long as they belong to a FROM clause
    std::string now;              // names of the common table expressions
    std::string change;           // empty: the rows never change

    bool is_constant() const { return change.empty(); }
};

// The statement under construction.
class Script {
  public:
    // Add a common table expression that the planner dissolves into its readers.
    void add_view(const std::string& name, const std::string& text);
    // Add one that is computed once.
    void add_table(const std::string& name, const std::string& text);
    // The whole, in front of its final SELECT.
    std::string with_clause() const;

  private:
    std::string parts_;
};

// The tables that the query reads, with the columns that it needs.
struct Source {
    Oid relation;
    std::vector<int> columns;
};

// The stream table, as the root of the tree sees it.
struct Target {
    std::vector<std::string> columns;
};

class Compiler {
  public:
    // Operator of a whole query block. With a target the block is the root: what it had put out before may be
    // read from the stream table.
    const Operator& block(Query* query, const Target* target = nullptr);

    // A new operator, to be completed by its rule.
    Operator& make(std::string label, std::vector<const Operator*> inputs);
    // Name a common table expression after an operator.
    static std::string name(const char* role, const Operator& of);
    // The rows of an operator before the change, with weights.
    std::string before(const Operator& op);

    // The same as a bag: each row as often as it was there.
    std::string past(const Operator& op);

    // The stream table's rows, as those of the root.
    std::string stored(const Operator& root, const Target& target);

    // Numbers for the values of subqueries: how many were taken before.
    int take_values(int count) { return std::exchange(values_, values_ + count); }

    // Ranges of subqueries' values that are the same for all rows of a group.
    std::set<int>& decided_values() { return decided_values_; }

    Script& script() { return script_; }
    std::vector<Query*>& levels() { return levels_; }

  private:
    Script script_;
    std::deque<Operator> operators_;
    std::vector<std::string> known_befores_;  // before_N and past_N
    int values_ = 0;
    std::set<int> decided_values_;
    std::vector<Query*> levels_;  // the blocks around, for WITH
};

// The text of the operators, indented.
std::string describe(const Operator& root);

// ---- the operators, a file each ----

const Operator& scan(Compiler& compiler, const RangeTblEntry& entry, int range,
                     const std::vector<Origin>& used);
const Operator& constant_rows(Compiler& compiler, Query* query, int range, const std::vector<Origin>& used);
// The one row of a SELECT without FROM.
const Operator& single_row(Compiler& compiler);
// A finished block as an item of another one's FROM clause.
const Operator& derived_table(Compiler& compiler, const Operator& block, int range,
                              const std::vector<Origin>& used);
const Operator& inner_join(Compiler& compiler, const std::vector<const Operator*>& inputs, List* conditions);
const Operator& outer_join(Compiler& compiler, JoinType type, const Operator& left, const Operator& right,
                           Node* condition);
// An item of FROM that is computed for each row of others: LATERAL, or a function of columns. It is joined by
// the condition, or by LEFT JOIN.
const Operator& lateral_item(Compiler& compiler, const Operator& left, Query* query, int range,
                             const std::vector<Origin>& used, JoinType type, Node* condition);
const Operator& recursion(Compiler& compiler, const CommonTableExpr& with);
// Rows of `left` for which `right` has some row, or none. The condition is bound: a and b.
const Operator& semi_join(Compiler& compiler, const Operator& left, const Operator& right,
                          const std::string& condition, bool negated, std::string label);
const Operator& projection(Compiler& compiler, Query* query, const Operator& core);
const Operator& touched_keys(Compiler& compiler, Query* query, const Operator& core, const Target* target);
const Operator& set_operation(Compiler& compiler, Query* query, const Target* target);

// ---- parts that several operators share ----

// An operator under an alias.
struct Side {
    const Operator* op;
    const char* alias;
};

// The rows of a side before the change that have a partner in the other side's change; numbered by baton_row.
std::string affected_rows(Compiler& compiler, const Operator& owner, const Side& side, const Side& partner,
                          const std::string& condition);
// The same with partners_now and partners_before.
std::string partner_counts(Compiler& compiler, const Operator& owner, const Side& side, const Side& partner,
                           const std::string& condition);

// The rows of `source` whose values are among the touched ones: `select` FROM .. WHERE. The values are bound
// to the alias, which is the first of the scope; the touched ones are the second, k.
struct Alias;
std::string rows_of_touched(const Operator& touched, const std::vector<Node*>& values,
                            const std::vector<Oid>& equalities, const std::string& select, const Alias& alias,
                            const std::string& source);

// FROM and WHERE of a block: an operator whose columns have their origins in the block. `used` are the
// columns that somebody names.
const Operator& from_clause(Compiler& compiler, Query* query, List* conditions,
                            const std::vector<Origin>& used);
// Apply a condition that holds a subquery: EXISTS, IN, ANY, ALL and their negations.
const Operator& subquery_condition(Compiler& compiler, const Operator& left, Node* condition);
// The columns of the block's FROM items that its expressions name, its subqueries included.
std::vector<Origin> used_columns(Query* query);

}  // namespace baton::stream
