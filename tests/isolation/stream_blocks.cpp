// Everything of random queries that works on the rows of FROM and WHERE.

#include "isolation/stream_blocks.hpp"

namespace baton::test {

namespace {

std::string whole(const std::string& outputs, const std::string& core, const std::string& rest = "") {
    return "select " + outputs + " from " + core + rest;
}

bool all_strict(const std::vector<Kind>& kinds) {
    for (const Kind kind : kinds)
        if (!is_strict(kind)) return false;
    return true;
}

}  // namespace

void Blocks::Outputs::add(const std::string& value, Kind kind) {
    kinds_.push_back(kind);
    text_ += (text_.empty() ? "" : ", ") + value + " as c" + std::to_string(kinds_.size());
}

RandomQuery Blocks::query(int depth) {
    const int choice = dice_.below(100);
    if (choice < 32) return selection(depth);
    if (choice < 52) return aggregate(depth);
    if (choice < 56) return grouping_sets(depth);
    if (choice < 62) return distinct(depth);
    if (choice < 66) return distinct_on(depth);
    if (choice < 74) return window(depth);
    if (choice < 76) return window_over_groups(depth);
    if (choice < 80) return limited(depth);
    if (choice < 90) return set_operation(depth);
    if (depth == 0) return selection(depth);
    return choice < 96 ? with(depth) : recursive(depth);
}

void Blocks::add_values(Outputs& outputs, const Scope& scope, int count) {
    for (int i = 0; i < count; ++i) {
        Kind kind = dice_.pick(scope).kind;
        if (budget_ > 0 && dice_.percent(4)) {
            const std::string value = scalar_subquery(kind, scope);
            outputs.add(value, kind);
        } else {
            outputs.add(expressions_.value(kind, scope), kind);
        }
    }
}

RandomQuery Blocks::selection(int depth) {
    const Core from = core(depth);
    Outputs outputs;
    add_values(outputs, from.scope, dice_.between(1, 4));
    if (dice_.percent(6)) {
        const auto array = expressions_.column(Kind::array, from.scope);
        outputs.add(
            array ? "unnest(" + *array + ")"
                  : "generate_series(1, least(" + expressions_.value(Kind::integer, from.scope, 0) + ", 3))",
            Kind::integer);
    }
    return {whole(outputs.text(), from.text), outputs.kinds()};
}

RandomQuery Blocks::selection_of(const std::vector<Kind>& kinds, int depth) {
    const Core from = core(depth);
    Outputs outputs;
    for (const Kind kind : kinds)
        outputs.add(
            expressions_.value(kind == Kind::big && dice_.percent(30) ? Kind::integer : kind, from.scope),
            kind);
    return {whole(outputs.text(), from.text), kinds};
}

// Aggregates that look at every value.
void Blocks::add_aggregate(Outputs& outputs, const Scope& scope) {
    const std::string filter =
        dice_.percent(15) ? " filter (where " + expressions_.condition(scope, 0) + ")" : "";
    const auto some = [&](Kind kind) { return expressions_.value(kind, scope); };
    switch (dice_.below(11)) {
        case 0:
        case 1:
            return outputs.add("count(*)" + filter, Kind::big);
        case 2:
            return outputs.add("count(" + dice_.pick(scope).text + ")" + filter, Kind::big);
        case 3:
        case 4:
            return outputs.add("sum(" + some(Kind::integer) + ")" + filter, Kind::big);
        case 5:
            return outputs.add("sum(" + some(dice_.percent(50) ? Kind::big : Kind::loose) + ")" + filter,
                               Kind::loose);
        case 6:
            return outputs.add("avg(" + some(dice_.percent(50) ? Kind::integer : Kind::loose) + ")" + filter,
                               Kind::loose);
        case 7:
            return outputs.add(dice_.pick({"bool_and(", "bool_or("}) + some(Kind::boolean) + ")" + filter,
                               Kind::boolean);
        case 8:
            return outputs.add(dice_.pick({"bit_or(", "bit_and("}) + some(Kind::integer) + ")" + filter,
                               Kind::integer);
        default:
            return add_merging_aggregate(outputs, scope);
    }
}

// Aggregates that take values that are equal for one, or order them.
void Blocks::add_merging_aggregate(Outputs& outputs, const Scope& scope) {
    const Reference key = expressions_.key(scope);
    switch (dice_.below(6)) {
        case 0:
            return outputs.add("count(distinct " + key.text + ")", Kind::big);
        case 1: {
            const std::string value = expressions_.value(Kind::text, scope);
            return outputs.add("string_agg(" + value + ", ',' order by " + value + ")", Kind::text);
        }
        case 2: {
            const std::string value = expressions_.value(Kind::integer, scope);
            return outputs.add("array_agg(" + value + " order by " + value + " desc nulls last)",
                               Kind::array);
        }
        case 3:
            return outputs.add("percentile_disc(0.5) within group (order by " + key.text + ")", key.kind);
        default:
            if (key.kind == Kind::boolean) return outputs.add("bool_or(" + key.text + ")", key.kind);
            return outputs.add(dice_.pick({"min(", "max("}) + key.text + ")", key.kind);
    }
}

// What may be carried on without looking at the rows of a group again.
void Blocks::add_counts_and_sums(Outputs& outputs, const Scope& scope) {
    if (dice_.percent(50)) outputs.add("count(*)", Kind::big);
    if (dice_.percent(40)) {
        const Reference key = expressions_.key(scope);
        if (key.kind != Kind::boolean) outputs.add(dice_.pick({"min(", "max("}) + key.text + ")", key.kind);
    }
    const Reference column = dice_.pick(scope);
    if (dice_.percent(80)) outputs.add("count(" + column.text + ")", Kind::big);
    if (column.kind == Kind::integer) outputs.add("sum(" + column.text + ")", Kind::big);
    if (column.kind == Kind::big || column.kind == Kind::money)
        outputs.add("sum(" + column.text + ")", Kind::loose);
    if (outputs.kinds().empty()) outputs.add("count(*)", Kind::big);
}

std::string Blocks::having(const Scope& scope) {
    switch (dice_.below(3)) {
        case 0:
            return " having count(*) > " + std::to_string(dice_.between(1, 2));
        case 1:
            return " having sum(" + expressions_.value(Kind::integer, scope) + ") <> " +
                   std::to_string(dice_.below(6));
        default:
            return " having bool_or(" + expressions_.condition(scope, 0) + ") and max(" +
                   expressions_.value(Kind::integer, scope) + ") is not null";
    }
}

RandomQuery Blocks::aggregate(int depth) {
    const Core from = core(depth);
    Outputs outputs;
    std::string keys;
    const int count = dice_.percent(15) ? 0 : dice_.between(1, 2);
    for (int i = 0; i < count; ++i) {
        const Reference key = expressions_.key(from.scope);
        keys += (keys.empty() ? " group by " : ", ") + key.text;
        if (dice_.percent(80)) outputs.add(key.text, key.kind);
    }
    if (dice_.percent(35)) {
        add_counts_and_sums(outputs, from.scope);
        return {whole(outputs.text(), from.text, keys), outputs.kinds()};
    }
    const int aggregates = dice_.between(1, 3);
    for (int i = 0; i < aggregates; ++i) add_aggregate(outputs, from.scope);
    const std::string rest = keys + (dice_.percent(15) ? having(from.scope) : "");
    return {whole(outputs.text(), from.text, rest), outputs.kinds()};
}

RandomQuery Blocks::grouping_sets(int depth) {
    const Core from = core(depth);
    const Reference a = expressions_.key(from.scope);
    const Reference b = expressions_.key(from.scope);
    Outputs outputs;
    outputs.add(a.text, a.kind);
    if (dice_.percent(80)) outputs.add(b.text, b.kind);
    if (dice_.percent(40)) outputs.add("grouping(" + a.text + ", " + b.text + ")", Kind::integer);
    add_aggregate(outputs, from.scope);
    std::string pair = a.text + ", " + b.text;
    const std::string sets = dice_.pick({"rollup (", "cube (", "grouping sets ((", "("});
    std::string rest = " group by " + sets + pair + ")";
    if (sets.starts_with("grouping")) rest += dice_.pick({", (A))", ", (B), (A))", ", ())", ", (A), ())"});
    if (sets == "(") rest = " group by " + a.text + ", rollup (" + b.text + ")";
    for (const auto& [letter, text] : {std::pair{"(A)", a.text}, std::pair{"(B)", b.text}})
        for (auto at = rest.find(letter); at != std::string::npos; at = rest.find(letter))
            rest.replace(at, 3, "(" + text + ")");
    return {whole(outputs.text(), from.text, rest), outputs.kinds()};
}

RandomQuery Blocks::distinct(int depth) {
    const Core from = core(depth);
    Outputs outputs;
    const int count = dice_.between(1, 3);
    for (int i = 0; i < count; ++i) {
        const Reference key = expressions_.key(from.scope);
        outputs.add(key.text, key.kind);
    }
    return {whole("distinct " + outputs.text(), from.text), outputs.kinds()};
}

RandomQuery Blocks::distinct_on(int depth) {
    const Core from = core(depth);
    const Reference key = expressions_.key(from.scope);
    Outputs outputs;
    if (dice_.percent(70)) outputs.add(key.text, key.kind);
    add_values(outputs, from.scope, dice_.between(1, 3));
    return {whole("distinct on (" + key.text + ") " + outputs.text(), from.text,
                  " order by " + key.text + ", " + Expressions::total_order(from.scope)),
            outputs.kinds()};
}

void Blocks::add_window_function(Outputs& outputs, const Scope& scope, const std::string& partition) {
    const std::string order = " order by " + Expressions::total_order(scope);
    const std::string number = expressions_.value(Kind::integer, scope);
    if (dice_.percent(30)) {
        const std::string call =
            dice_.pick({"row_number()", "rank()", "dense_rank()", "lag(c, 1)", "lead(c, 2, 7)", "ntile(2)"});
        const auto at = call.find("(c");
        const bool counts = call == "row_number()" || call == "rank()" || call == "dense_rank()";
        return outputs.add(
            (at == std::string::npos ? call : call.substr(0, at + 1) + number + call.substr(at + 2)) +
                " over (" + partition + order + ")",
            counts ? Kind::big : Kind::integer);
    }
    if (dice_.percent(20)) {  // by the values of one column: no order among equals is needed
        const auto column = expressions_.column(Kind::integer, scope);
        const std::string frame = dice_.pick({"", " range between 1 preceding and 1 following",
                                              " range between unbounded preceding and current row",
                                              " groups between 1 preceding and current row",
                                              " range between 2 preceding and 1 preceding"});
        return outputs.add("sum(" + number + ") over (" + partition + " order by " + column.value_or("true") +
                               (column ? frame : "") + ")",
                           Kind::big);
    }
    if (dice_.percent(20)) return outputs.add("sum(" + number + ") over (" + partition + ")", Kind::big);
    const std::string frame = dice_.pick(
        {"", " rows between 1 preceding and 1 following", " rows between unbounded preceding and current row",
         " rows between current row and unbounded following", " rows 2 preceding",
         " groups between 1 preceding and 1 following",
         " rows between 1 preceding and 1 following exclude current row",
         " rows between unbounded preceding and unbounded following exclude group",
         " rows between 3 preceding and 1 preceding"});
    const std::string call = dice_.pick({"first_value(", "last_value(", "sum(", "min(", "max(", "count("});
    outputs.add(call + number + ") over (" + partition + order + frame + ")",
                call == "sum(" || call == "count(" ? Kind::big : Kind::integer);
}

RandomQuery Blocks::window(int depth) {
    const Core from = core(depth);
    Outputs outputs;
    std::string partition;
    if (dice_.percent(75)) {
        const Reference key = expressions_.key(from.scope);
        partition = "partition by " + key.text;
        if (dice_.percent(60)) outputs.add(key.text, key.kind);
    }
    add_values(outputs, from.scope, dice_.between(0, 2));
    const int count = dice_.between(1, 2);
    for (int i = 0; i < count; ++i)
        add_window_function(outputs, from.scope, dice_.percent(85) ? partition : "");
    return {whole(outputs.text(), from.text), outputs.kinds()};
}

RandomQuery Blocks::window_over_groups(int depth) {
    const Core from = core(depth);
    const Reference a = expressions_.key(from.scope);
    const Reference b = expressions_.key(from.scope);
    Outputs outputs;
    outputs.add(a.text, a.kind);
    outputs.add("count(*)", Kind::big);
    if (dice_.percent(50))
        outputs.add("rank() over (order by count(*), " + a.text + ")", Kind::big);
    else
        outputs.add("(sum(count(*)) over (partition by " + a.text + "))::bigint", Kind::big);
    return {whole(outputs.text(), from.text, " group by " + a.text + ", " + b.text), outputs.kinds()};
}

RandomQuery Blocks::limited(int depth) {
    const Core from = core(depth);
    Outputs outputs;
    add_values(outputs, from.scope, dice_.between(1, 3));
    std::string rest = " order by " + Expressions::total_order(from.scope);
    const auto column = expressions_.column(Kind::integer, from.scope);
    if (column && dice_.percent(20))
        rest = " order by " + *column + " fetch first " + std::to_string(dice_.between(1, 4)) +
               " rows with ties";
    else
        rest += " limit " + std::to_string(dice_.between(1, 6)) +
                (dice_.percent(30) ? " offset " + std::to_string(dice_.between(1, 3)) : "");
    return {whole(outputs.text(), from.text, rest), outputs.kinds()};
}

RandomQuery Blocks::set_operation(int depth) {
    const int inside = std::max(depth - 1, 0);
    RandomQuery left = dice_.percent(70) ? selection(inside) : query(inside);
    const bool merges = all_strict(left.kinds);
    const auto operation = [&] {
        return merges ? dice_.pick({" union ", " union all ", " intersect ", " intersect all ", " except ",
                                    " except all "})
                      : std::string(" union all ");
    };
    RandomQuery result{
        "(" + left.text + ")" + operation() + "(" + selection_of(left.kinds, inside).text + ")", left.kinds};
    if (budget_ > 0 && dice_.percent(30)) {
        const std::string third = "(" + selection_of(left.kinds, inside).text + ")";
        result.text = dice_.percent(50) ? "(" + result.text + ")" + operation() + third
                                        : third + operation() + "(" + result.text + ")";
        // What the first query of all calls its columns counts, and all call them the same.
    }
    if (merges && dice_.percent(12)) {
        std::string order;
        for (std::size_t i = 1; i <= result.kinds.size(); ++i)
            order += (i > 1 ? ", " : "") + std::to_string(i);
        result.text += " order by " + order + " limit " + std::to_string(dice_.between(1, 4));
    }
    return result;
}

// A few steps from row to row, once or as often as there are ways.
RandomQuery Blocks::recursive(int depth) {
    const RandomTable& table = dice_.pick(schema_.tables);
    const RandomTable& steps = dice_.pick(schema_.tables);
    RandomTable found{
        "q" + std::to_string(++aliases_), {{"c1", Kind::integer}, {"c2", Kind::integer}}, false};
    const bool once = dice_.percent(70);
    const std::string ways = "select a.k, " + std::string(once ? "0" : "1") + " from " + table.name +
                             " a where a.v > 1 " + (once ? "union" : "union all") + " select b.v, q.c2 + " +
                             (once ? "0" : "1") + " from " + found.name + " q join " + steps.name +
                             " b on b.k = q.c1" + (once ? "" : " where q.c2 < 2");
    with_.push_back(found);
    budget_ = std::max(budget_, 2);
    RandomQuery result = query(depth - 1);
    result.text = "with recursive " + found.name + "(c1, c2) as (" + ways + ") " + result.text;
    with_.pop_back();
    return result;
}

RandomQuery Blocks::with(int depth) {
    const RandomQuery inside = query(depth - 1);
    RandomTable table{"q" + std::to_string(++aliases_), {}, false};
    for (std::size_t i = 0; i < inside.kinds.size(); ++i)
        table.columns.push_back({"c" + std::to_string(i + 1), inside.kinds[i]});
    with_.push_back(table);
    budget_ = std::max(budget_, 2);
    RandomQuery result = query(depth - 1);
    result.text = "with " + table.name + " as " + dice_.pick({"", "materialized ", "not materialized "}) +
                  "(" + inside.text + ") " + result.text;
    with_.pop_back();
    return result;
}

}  // namespace baton::test
