#pragma once
// SQL text of expressions, columns and bags.

#include "stream/compiler/operators.hpp"

namespace baton::stream {

// An operator under an alias, for the expressions of one query level (0: the block's own, 1: the block
// around).
struct Alias {
    const char* name;
    const Operator* op;
    int level = 0;
};

// An expression whose columns are those of the scope's operators. Parameters of a sublink are replaced by
// expressions that are bound to the same scope.
Node* bound(Node* expression, const std::vector<Alias>& scope, List* sublink_columns = nullptr);
std::string bound_text(Node* expression, const std::vector<Alias>& scope);
// Both in one.
std::string expression_text(Node* expression, const std::vector<Alias>& scope);
// Compares two bound expressions.
std::string equality_text(Oid equality, Node* left, Node* right, const std::vector<Alias>& scope);
// The expressions, connected by AND; "true" for none.
std::string all_of(const std::vector<std::string>& conditions);

// Text of a block whose FROM is one operator, under the name of a common table expression. The columns are
// x1, x2, ...
std::string block_text(const Query* query, const Operator& core, const std::string& input);

// An operator's rows as an item of FROM, under the name of a common table expression. For use inside of
// pg::call.
RangeTblEntry* range_of(const char* name, const Operator* op);

std::string join(const std::vector<std::string>& parts, std::string_view separator);
// a.v1_1, a.v1_2; or without an alias.
std::string column_list(const std::vector<Column>& columns, std::string_view alias = {});
// Nulls under the columns' names.
std::string null_list(const std::vector<Column>& columns);
// A column as a list of column definitions has it.
std::string definition_text(const Column& column);
Column column_of(std::string name, const Node* expression);
// Columns of a block's targets, named x1, x2, ...
std::vector<Column> output_columns(const List* targets);

std::string type_text(Oid type, int32 typmod);
std::string quoted(const char* identifier);
std::string table_text(Oid relation);

// Whether two values of a column that are equal always have the same bytes.
bool equality_is_image(const Column& column);
// What to group by so that only rows with the same bytes fall together.
std::string image_text(const Column& column, const std::string& reference);
// Rows with weights, netted: every row once, under the columns' names and baton_weight.
std::string netted(const std::vector<Column>& columns, const std::string& weighted_rows);
// Rows with weights as a bag: each row as often as it weighs.
std::string spread(const std::vector<Column>& columns, const std::string& weighted_rows);

}  // namespace baton::stream
