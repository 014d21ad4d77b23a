#include "isolation/stream_expressions.hpp"

namespace baton::test {

std::optional<std::string> Expressions::column(Kind kind, const Scope& scope) {
    std::vector<std::string> found;
    for (const auto& reference : scope)
        if (reference.kind == kind) found.push_back(reference.text);
    if (found.empty()) return std::nullopt;
    return dice_.pick(found);
}

std::optional<Reference> Expressions::strict_column(const Scope& scope) {
    Scope found;
    for (const auto& reference : scope)
        if (is_strict(reference.kind)) found.push_back(reference);
    if (found.empty()) return std::nullopt;
    return dice_.pick(found);
}

std::string Expressions::value(Kind kind, const Scope& scope, int depth) {
    const auto known = column(kind, scope);
    if (known && dice_.percent(depth > 0 ? 70 : 95)) return *known;
    if (depth <= 0 || dice_.percent(20)) return random_value(dice_, kind);
    return compound(kind, scope, depth - 1);
}

std::string Expressions::number(const Scope& scope, int depth) {
    const auto a = value(Kind::integer, scope, depth);
    const auto b = value(Kind::integer, scope, depth);
    switch (dice_.below(9)) {
        case 0:
            return "(" + a + " + " + b + ")";
        case 1:
            return "(" + a + " - " + b + ")";
        case 2:
            return "(" + a + " % nullif(" + b + ", 0))";
        case 3:
            return "abs(" + a + ")";
        case 4:
            return "length(" + value(Kind::text, scope, depth) + ")";
        case 5:
            return "cardinality(" + value(Kind::array, scope, depth) + ")";
        case 6:
            return "greatest(" + a + ", " + b + ")";
        case 7:
            return "(" + value(Kind::date, scope, depth) + " - date '2024-01-01')";
        default:
            return "nullif(" + a + ", " + b + ")";
    }
}

std::string Expressions::compound(Kind kind, const Scope& scope, int depth) {
    const auto some = [&](Kind of) { return value(of, scope, depth); };
    if (dice_.percent(25))
        return "case when " + condition(scope, 0) + " then " + some(kind) + " else " + some(kind) + " end";
    if (dice_.percent(25)) return "coalesce(" + some(kind) + ", " + random_value(dice_, kind, 0) + ")";
    switch (kind) {
        case Kind::integer:
            return number(scope, depth);
        case Kind::big:
            return dice_.percent(50) ? "(" + some(Kind::big) + " + " + some(Kind::integer) + ")"
                                     : some(Kind::integer) + "::bigint";
        case Kind::money:
            return "(" + some(Kind::money) + dice_.pick({" + ", " - "}) + some(Kind::money) + ")";
        case Kind::loose:
            return dice_.percent(50) ? "(" + some(Kind::loose) + " + " + some(Kind::money) + ")"
                                     : "(" + some(Kind::integer) + " * " + some(Kind::loose) + ")";
        case Kind::text:
            switch (dice_.below(4)) {
                case 0:
                    return dice_.pick({"lower(", "upper("}) + some(Kind::text) + ")";
                case 1:
                    return "(" + some(Kind::text) + " || " + some(Kind::text) + ")";
                case 2:
                    return some(Kind::integer) + "::text";
                default:
                    return "left(" + some(Kind::text) + ", 1)";
            }
        case Kind::date:
            return "(" + some(Kind::date) + " + " + some(Kind::integer) + ")";
        case Kind::boolean:
            return "(" + condition(scope, depth) + ")";
        case Kind::array:
            return dice_.percent(50)
                       ? "array[" + some(Kind::integer) + ", " + some(Kind::integer) + "]"
                       : "array_replace(" + some(Kind::array) + ", 1, " + some(Kind::integer) + ")";
    }
    return random_value(dice_, kind);
}

Reference Expressions::key(const Scope& scope) {
    const auto known = strict_column(scope);
    if (!known) return {"(" + scope.front().text + " is null)", Kind::boolean};
    if (dice_.percent(75)) return *known;
    return {"coalesce(" + known->text + ", " + random_value(dice_, known->kind, 0) + ")", known->kind};
}

std::string Expressions::comparison(const Scope& scope, int depth) {
    const Kind kind = scope.empty() ? Kind::integer : dice_.pick(scope).kind;
    const auto a = scope.empty() || dice_.percent(15) ? value(kind, scope, depth) : *column(kind, scope);
    const auto array = column(Kind::array, scope);
    const auto text = column(Kind::text, scope);
    switch (dice_.below(10)) {
        case 0:
            return a + " is not null";
        case 1:
            return a + dice_.pick({" is distinct from ", " is not distinct from "}) +
                   value(kind, scope, depth);
        case 2:
            return a + dice_.pick({" in (", " not in ("}) + random_value(dice_, kind, 2) + ", " +
                   random_value(dice_, kind, 2) + ")";
        case 3:
            if (array) return value(Kind::integer, scope, 0) + " = any(" + *array + ")";
            [[fallthrough]];
        case 4:
            if (text) return *text + dice_.pick({" like 'a%'", " ilike '%b'", " not like 'b%'"});
            [[fallthrough]];
        case 5:
            return a + dice_.pick({" >= ", " <= "}) + random_value(dice_, kind, 0);
        default:
            return a + dice_.pick({" = ", " <> ", " < ", " <= ", " > ", " >= "}) + value(kind, scope, depth);
    }
}

std::string Expressions::condition(const Scope& scope, int depth) {
    if (depth <= 0 || dice_.percent(60)) return comparison(scope, std::max(depth, 0));
    const auto a = "(" + condition(scope, depth - 1) + ")";
    if (dice_.percent(30)) return "not " + a;
    return "(" + a + dice_.pick({" and ", " or "}) + "(" + condition(scope, depth - 1) + "))";
}

std::string Expressions::equality(const Scope& left, const Scope& right) {
    std::vector<std::string> found;
    for (const auto& a : left)
        for (const auto& b : right)
            if (a.kind == b.kind && a.kind != Kind::boolean) {
                found.push_back(a.text + " = " + b.text);
                if (a.kind == Kind::integer)
                    for (int often = 0; often < 3; ++often) found.push_back(found.back());
            }
    return found.empty() ? "true" : dice_.pick(found);
}

std::string Expressions::total_order(const Scope& scope) {
    std::string order;
    for (const auto& reference : scope)
        order += (order.empty() ? "" : ", ") + reference.text + (is_strict(reference.kind) ? "" : "::text");
    return order;
}

}  // namespace baton::test
