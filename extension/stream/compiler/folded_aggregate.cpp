// count(), sum(), min(), max() and the like at the root: a group's new value is its old one, which stands in
// the stream table, and what the rows of the change contribute. No other row of the group is read.
//
// A group of which n rows and m values are known to be there before has n + rows and m + values now. Both are
// known where columns count them. Where not: a group that stands in the table has at least one row, and one
// whose sum is not null at least one value; so the group stays if no fewer rows come than go, and the sum is
// of something if no fewer values come than go. Otherwise the group is computed again, as touched keys are.
//
// Sums are exact where nothing is lost in the old value: sums of integers; sums of numerics that all have the
// same number of digits behind the point, for then the sum has as many, whichever rows are in it. NaN
// swallows what it is added to: groups in which one turns up are computed again. An average is what the
// server makes of it: the sum divided by the number, if both are columns as well.
//
// The least value is the lesser of the old one and of those that came, if the old one is still there: none as
// little as it went, or one as little came. For this the change is netted, for a row that came and went says
// nothing. The greatest, and bool_and() and bool_or(), are the same. Bits that were set together are known
// while no value goes.

#include "stream/compiler/folded_aggregate.hpp"

#include "stream/compiler/exact_sum.hpp"

namespace baton::stream {

namespace {

using Kind = FoldedColumn::Kind;

bool are_equal(const Node* a, const Node* b) {
    return pg::call([&] { return static_cast<bool>(equal(a, b)); });
}

// An aggregate of the server that can be carried on; nothing for others.
std::optional<FoldedColumn> folded(const Aggref& aggregate) {
    if (aggregate.aggdistinct != NIL || aggregate.aggorder != NIL || aggregate.agglevelsup != 0 ||
        aggregate.aggfnoid >= FirstUnpinnedObjectId || list_length(aggregate.args) > 1)
        return std::nullopt;
    FoldedColumn column;
    column.filter = reinterpret_cast<Node*>(aggregate.aggfilter);
    if (aggregate.aggfnoid == F_COUNT_) return column;
    if (aggregate.args == NIL) return std::nullopt;
    column.argument = reinterpret_cast<Node*>(linitial_node(TargetEntry, aggregate.args)->expr);
    column.function = pg::call([&] { return get_func_name(aggregate.aggfnoid); });
    const Column value = column_of("value", column.argument);
    const auto sum_cast = cast_for_sum(column.argument);
    if (aggregate.aggfnoid == F_COUNT_ANY) return column;
    if (column.function == "sum" && sum_cast) {
        column.kind = Kind::sum;
        column.cast = *sum_cast;
    } else if (column.function == "avg" && sum_cast) {
        column.kind = Kind::average;
    } else if (column.function == "min" && equality_is_image(value)) {
        column.kind = Kind::least;
    } else if (column.function == "max" && equality_is_image(value)) {
        column.kind = Kind::greatest;
    } else if (column.function == "bool_and" || column.function == "every") {
        column.kind = Kind::least;
    } else if (column.function == "bool_or") {
        column.kind = Kind::greatest;
    } else if ((column.function == "bit_and" || column.function == "bit_or") &&
               (value.type == INT2OID || value.type == INT4OID || value.type == INT8OID)) {
        column.kind = Kind::bits;
        column.combination = column.function == "bit_and" ? " & " : " | ";
    } else {
        return std::nullopt;
    }
    return column;
}

// Find the columns that say of how many values a sum or an average is, and of which sum an average.
bool find_companions(const Query& query, Fold& fold, FoldedColumn& column) {
    if (column.kind != Kind::sum && column.kind != Kind::average) return true;
    for (std::size_t i = 0; i < fold.columns.size(); ++i) {
        const auto& other = fold.columns[i];
        if (other.key != 0 || other.argument == nullptr || !are_equal(other.argument, column.argument) ||
            !are_equal(other.filter, column.filter))
            continue;
        if (other.kind == Kind::count) column.nonnull = static_cast<int>(i) + 1;
        if (other.kind == Kind::sum) column.sum = static_cast<int>(i) + 1;
    }
    if (column.nonnull == 0 && column.filter == nullptr && is_never_null(query, column.argument))
        column.nonnull = fold.rows;
    return column.kind == Kind::sum || (column.nonnull != 0 && column.sum != 0);
}

bool needs_netting(const Fold& fold) {
    return std::any_of(fold.columns.begin(), fold.columns.end(), [](const FoldedColumn& column) {
        return column.key == 0 &&
               (column.kind == Kind::least || column.kind == Kind::greatest || column.kind == Kind::bits);
    });
}

// What a column gathers of the change's rows q.
void add_contribution(std::vector<std::string>& values, const FoldedColumn& column,
                      const std::string& number) {
    const std::string value = "q.e" + number;
    const std::string counted = column.filter == nullptr ? "" : " and q.f" + number;
    const auto weights = [&](const std::string& condition) {
        return "coalesce(sum(q.baton_weight) filter (where " + condition + counted + "), 0)::bigint as ";
    };
    const auto gathered = [&](const std::string& condition) {
        return column.function + "(" + value + ") filter (where q.baton_weight " + condition + " 0" +
               counted + ") as ";
    };
    if (column.argument == nullptr) {
        values.push_back(weights("true") + "d" + number);
        return;
    }
    const std::string present = weights(value + " is not null");
    switch (column.kind) {
        case Kind::count:
            values.push_back(present + "d" + number);
            break;
        case Kind::sum:
            values.push_back("coalesce(sum(" + value + column.cast + " * q.baton_weight) filter (where true" +
                             counted + "), 0) as d" + number);
            values.push_back(present + "n" + number);
            break;
        case Kind::average:
            break;
        case Kind::bits:
            values.push_back(gathered(">") + "in" + number);
            values.push_back(weights(value + " is not null and q.baton_weight < 0") + "out" + number);
            break;
        default:
            values.push_back(gathered(">") + "in" + number);
            values.push_back(gathered("<") + "out" + number);
    }
}

// The text of a group's values. The old row is o, null where there is none; the contributions are s.
class FoldedRow {
  public:
    FoldedRow(const Fold& fold, const std::vector<Column>& columns) : fold_(fold), columns_(columns) {}

    // A column, and under which conditions that is sure.
    std::string value(std::size_t index, std::vector<std::string>& sure) const {
        const auto& column = fold_.columns[index];
        const std::string number = std::to_string(index + 1);
        const std::string old = "o.x" + number;
        const std::string came = "s.in" + number;
        const std::string went = "s.out" + number;
        if (column.key != 0) return "s.k" + std::to_string(column.key);
        switch (column.kind) {
            case Kind::count:
                return present(static_cast<int>(index) + 1);
            case Kind::sum:
                return sum(index, sure);
            case Kind::average:
                return "case when " + present(column.nonnull) + " > 0 then " + present(column.sum) +
                       "::numeric / " + present(column.nonnull) + "::numeric end";
            case Kind::bits:
                sure.push_back(went + " = 0");
                return "coalesce(" + old + column.combination + came + ", " + old + ", " + came + ")";
            default: {
                const bool is_least = column.kind == Kind::least;
                sure.push_back("(" + went + " is null or coalesce(" + went + (is_least ? " > " : " < ") +
                               old + " or " + came + (is_least ? " <= " : " >= ") + old + ", false))");
                return (is_least ? "least(" : "greatest(") + old + ", " + came + ")";
            }
        }
    }

    std::string present(int column) const {
        const std::string number = std::to_string(column);
        return "(coalesce(o.x" + number + ", 0) + s.d" + number + ")";
    }

  private:
    std::string sum(std::size_t index, std::vector<std::string>& sure) const {
        const auto& column = fold_.columns[index];
        const std::string number = std::to_string(index + 1);
        const std::string now = present(static_cast<int>(index) + 1);
        std::string has_some = present(column.nonnull) + " > 0";
        if (column.nonnull == 0) {
            sure.push_back("s.n" + number + " >= 0");
            has_some = "o.x" + number + " is not null or s.n" + number + " > 0";
        }
        if (columns_[index].type == NUMERICOID) sure.push_back(now + " <> 'NaN'");
        return "case when " + has_some + " then " + now + "::" + type_text(columns_[index].type, -1) + " end";
    }

    const Fold& fold_;
    const std::vector<Column>& columns_;
};

}  // namespace

std::optional<Fold> find_fold(const Query& query, const std::vector<Node*>& keys) {
    if (!query.hasAggs || query.groupingSets != NIL || query.havingQual != nullptr || query.hasWindowFuncs ||
        query.hasTargetSRFs || query.distinctClause != NIL || query.limitCount != nullptr ||
        query.limitOffset != nullptr)
        return std::nullopt;
    Fold fold;
    for (const auto* const target : pg::elements<TargetEntry>(query.targetList)) {
        if (target->resjunk) return std::nullopt;
        auto* const expression = reinterpret_cast<Node*>(target->expr);
        std::optional<FoldedColumn> column;
        for (std::size_t i = 0; i < keys.size() && !column; ++i)
            if (are_equal(keys[i], expression)) column = FoldedColumn{static_cast<int>(i) + 1};
        if (!column && IsA(expression, Aggref)) column = folded(*reinterpret_cast<Aggref*>(expression));
        if (!column) return std::nullopt;
        fold.columns.push_back(*column);
        if (column->key == 0 && column->kind == Kind::count && column->argument == nullptr &&
            column->filter == nullptr)
            fold.rows = static_cast<int>(fold.columns.size());
    }
    for (auto& column : fold.columns)
        if (column.key == 0 && !find_companions(query, fold, column)) return std::nullopt;
    return fold;
}

std::string contributions(const Fold& fold, const Operator& core, const std::vector<std::string>& key_texts,
                          const std::vector<Column>& keys) {
    std::vector<Column> columns = keys;
    std::vector<std::string> inputs = key_texts;
    std::vector<std::string> values;
    std::vector<std::string> numbers;
    const auto add_input = [&](const std::string& name, Node* expression) {
        columns.push_back(column_of(name, expression));
        inputs.push_back(expression_text(expression, {{"a", &core}}) + " as " + name);
    };
    for (std::size_t i = 0; i < keys.size(); ++i) {
        values.push_back("q." + keys[i].name);
        numbers.push_back(std::to_string(i + 1));
    }
    values.emplace_back("sum(q.baton_weight)::bigint as rows");
    for (std::size_t i = 0; i < fold.columns.size(); ++i) {
        const auto& column = fold.columns[i];
        if (column.key != 0) continue;
        const std::string number = std::to_string(i + 1);
        if (column.argument != nullptr) add_input("e" + number, column.argument);
        if (column.filter != nullptr) add_input("f" + number, column.filter);
        add_contribution(values, column, number);
    }
    std::string rows = "select " + join(inputs, ", ") + (inputs.empty() ? "" : ", ") +
                       "a.baton_weight from " + core.change + " a";
    if (needs_netting(fold)) rows = netted(columns, rows);
    return "select row_number() over () as baton_row, g.* from (select " + join(values, ", ") + " from (" +
           rows + ") q " + (numbers.empty() ? "having count(*) > 0" : "group by " + join(numbers, ", ")) +
           ") g";
}

std::string folded_rows(const Fold& fold, const std::vector<Column>& columns, const Operator& sums,
                        const std::string& old) {
    const FoldedRow row(fold, columns);
    std::vector<std::string> values{"s.baton_row"};
    for (const auto& key : sums.columns) values.push_back("s." + key.name);
    std::vector<std::string> sure;
    for (std::size_t i = 0; i < fold.columns.size(); ++i)
        values.push_back(row.value(i, sure) + " as " + columns[i].name);
    if (fold.rows != 0) {
        values.push_back(row.present(fold.rows) + " > 0 as is_there");
        sure.push_back(row.present(fold.rows) + " >= 0");
    } else {
        values.emplace_back("(o.baton_row is not null or s.rows > 0) as is_there");
        if (!sums.columns.empty()) sure.emplace_back("s.rows >= 0");
    }
    values.push_back("(" + all_of(sure) + ") as is_sure");
    return "select " + join(values, ", ") + " from " + sums.now + " s left join " + old +
           " o on o.baton_row = s.baton_row";
}

}  // namespace baton::stream
