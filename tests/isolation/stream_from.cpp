// FROM and WHERE of random queries: tables, views, subqueries, joins of every kind, functions, and conditions
// with subqueries.

#include "isolation/stream_blocks.hpp"

namespace baton::test {

Blocks::Item Blocks::named(const std::string& text, const std::vector<RandomColumn>& columns) {
    Item item;
    const std::string name = alias();
    item.text = text + " " + name;
    for (const auto& column : columns) item.scope.push_back({name + "." + column.name, column.kind});
    return item;
}

Blocks::Item Blocks::values() {
    if (dice_.percent(40)) {
        Item numbers = named("generate_series(1, 3)", {{"c1", Kind::integer}});
        numbers.text += "(c1)";
        return numbers;
    }
    std::string rows;
    for (int i = 0; i < 3; ++i)
        rows += (i > 0 ? ", (" : "(") + random_value(dice_, Kind::integer) + ", " +
                random_value(dice_, Kind::text) + ")";
    Item item = named("(values " + rows + ")", {{"c1", Kind::integer}, {"c2", Kind::text}});
    item.text += "(c1, c2)";
    return item;
}

Blocks::Item Blocks::item(int depth) {
    if (!with_.empty() && dice_.percent(50)) {
        const auto& with = dice_.pick(with_);
        return named(with.name, with.columns);
    }
    --budget_;
    const int choice = dice_.below(100);
    if (choice < 20 && depth > 0 && budget_ > 0) {
        const RandomQuery inside = query(depth - 1);
        std::vector<RandomColumn> columns;
        for (std::size_t i = 0; i < inside.kinds.size(); ++i)
            columns.push_back({"c" + std::to_string(i + 1), inside.kinds[i]});
        return named("(" + inside.text + ")", columns);
    }
    if (choice < 28 && !schema_.views.empty()) {
        const auto& view = dice_.pick(schema_.views);
        return named(view.name, view.columns);
    }
    const auto& table = dice_.pick(schema_.tables);
    Item item = named(table.name, table.columns);
    item.is_table = true;
    return item;
}

Blocks::Item Blocks::with_using(const Item& left, const Item& right, const std::string& type) {
    const std::string name = alias();
    const bool both = dice_.percent(30);
    Item result{
        left.text + " " + type + " " + right.text + " using (k" + (both ? ", v" : "") + ") as " + name,
        left.scope, false};
    result.scope.insert(result.scope.end(), right.scope.begin(), right.scope.end());
    result.scope.push_back({name + ".k", Kind::integer});
    if (both) result.scope.push_back({name + ".v", Kind::integer});
    return result;
}

Blocks::Item Blocks::joined(int depth) {
    Item result = item(depth);
    const bool begins_with_table = result.is_table;
    int count = dice_.below(100) < 45 ? 0 : dice_.between(1, 2);
    for (int joins = 0; joins < count && budget_ > 0; ++joins) {
        Item right = dice_.percent(10) ? values() : item(depth);
        const std::string type =
            dice_.pick({"join", "join", "left join", "left join", "right join", "full join"});
        if (joins == 0 && begins_with_table && right.is_table && dice_.percent(20)) {
            result = with_using(result, right, type);
            continue;
        }
        if (budget_ > 0 && dice_.percent(15)) {  // a join on the right side
            Item more = item(0);
            right.text = "(" + right.text + dice_.pick({" join ", " left join ", " right join "}) +
                         more.text + " on " + expressions_.equality(right.scope, more.scope) + ")";
            right.scope.insert(right.scope.end(), more.scope.begin(), more.scope.end());
        }
        Scope scope = result.scope;
        scope.insert(scope.end(), right.scope.begin(), right.scope.end());
        std::string on = expressions_.equality(result.scope, right.scope);
        if (type != "full join" && dice_.percent(20)) on = expressions_.condition(scope);
        if (dice_.percent(20)) on += " and (" + expressions_.condition(scope, 0) + ")";
        if (type == "full join" && on.starts_with("true")) on = "true";
        result = {result.text + " " + type + " " + right.text + " on " + on, scope, false};
    }
    return result;
}

void Blocks::add_function(Item& to) {
    const std::string name = alias();
    const auto array = expressions_.column(Kind::array, to.scope);
    const std::string call =
        array && dice_.percent(60)
            ? "unnest(" + *array + ")"
            : "generate_series(1, least(" + expressions_.value(Kind::integer, to.scope, 0) + ", 3))";
    to.text += (dice_.percent(70) ? ", " + call + " " + name + "(c1)"
                                  : " left join " + call + " " + name + "(c1) on true");
    to.scope.push_back({name + ".c1", Kind::integer});
}

// A subquery of each row: a value, the first rows, rows that differ, two queries, or no table at all.
void Blocks::add_lateral(Item& to) {
    const std::string name = alias();
    if (dice_.percent(15)) {
        to.text += ", lateral (values (" + expressions_.value(Kind::integer, to.scope) + "), (" +
                   expressions_.value(Kind::integer, to.scope) + ")) " + name + "(c1)";
        to.scope.push_back({name + ".c1", Kind::integer});
        return;
    }
    const Item inside = item(0);
    Scope both = inside.scope;
    both.insert(both.end(), to.scope.begin(), to.scope.end());
    std::string from =
        " from " + inside.text + " where " +
        (dice_.percent(80) ? expressions_.equality(to.scope, inside.scope) : expressions_.condition(both, 0));
    if (dice_.percent(20)) from += " and " + expressions_.condition(both, 0);
    const std::string value = expressions_.value(Kind::integer, dice_.percent(70) ? inside.scope : both);
    const std::string query = [&] {
        switch (dice_.below(6)) {
            case 0:
                return "select count(*)::int as c1" + from;
            case 1:
                return "select max(" + value + ") as c1" + from;
            case 2:
                return "select " + value + " as c1" + from + " order by " +
                       Expressions::total_order(inside.scope) + " limit " +
                       std::to_string(dice_.between(1, 2));
            case 3:
                return "select distinct " + value + " as c1" + from;
            case 4:
                return "select " + value + " as c1" + from + " union all select " +
                       expressions_.value(Kind::integer, to.scope);
            default:
                return "select " + value + " as c1" + from;
        }
    }();
    to.scope.push_back({name + ".c1", Kind::integer});
    to.text += dice_.percent(50) ? ", lateral (" + query + ") " + name
                                 : " left join lateral (" + query + ") " + name + " on " +
                                       (dice_.percent(50) ? "true" : expressions_.condition(to.scope, 0));
}

// A condition that holds for other rows every twentieth of a second.
std::string Blocks::time_condition(const Scope& scope) {
    const std::string phase = "(floor(extract(epoch from now()) * 20)::bigint % 5)";
    const std::string number = expressions_.value(Kind::integer, scope, 0);
    switch (dice_.below(4)) {
        case 0:
            return number + " > " + phase;
        case 1:
            return number + " = " + phase;
        case 2:
            return phase + " <= " + number;
        default:
            return "coalesce(" + number + " + " + phase + ", 2) % 3 = 1";
    }
}

Blocks::Core Blocks::core(int depth) {
    Item from = joined(depth);
    std::string where;
    const auto add = [&](const std::string& condition) {
        where += (where.empty() ? " where " : " and ") + ("(" + condition + ")");
    };
    if (budget_ > 0 && dice_.percent(12)) {  // a list: FROM a, b
        const Item more = item(depth);
        add(expressions_.equality(from.scope, more.scope));
        from.text += ", " + more.text;
        from.scope.insert(from.scope.end(), more.scope.begin(), more.scope.end());
    }
    if (dice_.percent(8)) add_function(from);
    if (budget_ > 0 && dice_.percent(9)) add_lateral(from);
    if (dice_.percent(4)) add(time_condition(from.scope));
    if (dice_.percent(35)) add(expressions_.condition(from.scope));
    if (budget_ > 0 && dice_.percent(30)) add(subquery_condition(from.scope, depth));
    if (budget_ > 0 && dice_.percent(5))
        add("(" + expressions_.condition(from.scope) + ") or " + subquery_condition(from.scope, 0));
    return {from.text + where, from.scope};
}

// EXISTS, IN, ANY, ALL and their negations, over one item or a join.
std::string Blocks::subquery_condition(const Scope& outer, int depth) {
    const Item inside = dice_.percent(80) ? item(0) : joined(depth - 1);
    const bool grouped = dice_.percent(12);
    Scope both = inside.scope;
    both.insert(both.end(), outer.begin(), outer.end());
    std::string where;
    const auto add = [&](const std::string& condition) {
        where += (where.empty() ? " where " : " and ") + ("(" + condition + ")");
    };
    if (dice_.percent(grouped ? 40 : 60)) add(expressions_.equality(outer, inside.scope));
    if (!grouped && dice_.percent(20)) add(expressions_.condition(both, 0));
    if (dice_.percent(40)) add(expressions_.condition(inside.scope));
    if (budget_ > 0 && depth > 0 && dice_.percent(12)) add(subquery_condition(inside.scope, depth - 1));
    if (!grouped && dice_.percent(45))
        return dice_.pick({"", "not "}) + "exists (select 1 from " + inside.text + where + ")";
    return comparison_with_subquery(outer, inside, where, grouped);
}

std::string Blocks::comparison_with_subquery(const Scope& outer, const Item& inside, const std::string& where,
                                             bool grouped) {
    const std::string negation = dice_.percent(20) ? "not " : "";
    if (grouped) {
        const Reference key = expressions_.key(inside.scope);
        return negation + expressions_.value(key.kind, outer) + dice_.pick({" in", " not in"}) + " (select " +
               key.text + " from " + inside.text + where + " group by " + key.text + " having count(*) > " +
               std::to_string(dice_.below(3)) + ")";
    }
    const Kind kind = dice_.pick(inside.scope).kind;
    const std::string rows =
        "select " + expressions_.value(kind, inside.scope) + " from " + inside.text + where;
    const std::string tested = expressions_.value(kind, outer);
    if (dice_.percent(15)) {
        const std::string second = expressions_.value(Kind::integer, inside.scope);
        return negation + "(" + tested + ", " + expressions_.value(Kind::integer, outer) + ")" +
               dice_.pick({" in", " not in", " < any", " >= all"}) + " (select " +
               expressions_.value(kind, inside.scope) + ", " + second + " from " + inside.text + where + ")";
    }
    if (dice_.percent(50)) return negation + tested + dice_.pick({" in", " not in"}) + " (" + rows + ")";
    return negation + tested + dice_.pick({" = ", " <> ", " < ", " <= ", " > "}) +
           dice_.pick({"any", "all"}) + " (" + rows + ")";
}

std::string Blocks::scalar_subquery(Kind& kind, const Scope& outer) {
    const Item inside = item(0);
    std::string where;
    if (dice_.percent(65)) where = " where " + expressions_.equality(outer, inside.scope);
    kind = Kind::integer;
    switch (dice_.below(5)) {
        case 0:
            kind = Kind::big;
            return "(select count(*) from " + inside.text + where + ")";
        case 1:
            kind = Kind::big;
            return "(select sum(" + expressions_.value(Kind::integer, inside.scope) + ") from " +
                   inside.text + where + ")";
        case 2:
            return "(select max(" + expressions_.value(Kind::integer, inside.scope) + ") from " +
                   inside.text + where + ")";
        case 3:
            kind = Kind::array;
            return "array(select " + expressions_.value(Kind::integer, inside.scope) + " from " +
                   inside.text + where + " order by 1)";
        default:
            return "(select " + expressions_.value(Kind::integer, inside.scope, 0) + " from " + inside.text +
                   where + " order by " + Expressions::total_order(inside.scope) + " limit 1)";
    }
}

}  // namespace baton::test
