#include "operations/operation.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "baton/error.hpp"

namespace baton::operations {

namespace {

constexpr long long longest_page = 1000;
constexpr long long largest_page = 8 << 20;  // bytes; a single item may be larger

[[noreturn]] void refuse(const Parameter& parameter, const std::string& why) {
    throw UsageError(parameter.name + " " + why, parameter.about);
}

template <class Number>
Json read_number(const Parameter& parameter, const std::string& text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size())
        refuse(parameter, "is not " + std::string(name_of(parameter.kind)) + ": \"" + text + "\"");
    return number;
}

bool is_text(const Json& value) {
    return value.is_string() && value.get_ref<const std::string&>().find('\0') == std::string::npos;
}

// Words of a command line and of a URL are text: read what they stand for.
Json from_text(const Parameter& parameter, const std::string& text) {
    switch (parameter.kind) {
        case Kind::integer:
            return read_number<long long>(parameter, text);
        case Kind::number:
            return read_number<double>(parameter, text);
        case Kind::boolean:
            if (text == "true" || text == "false") return text == "true";
            refuse(parameter, "is neither true nor false: \"" + text + "\"");
        case Kind::json:  // stays text: a number keeps all its digits
            if (!Json::accept(text)) refuse(parameter, "is not JSON: " + text);
            return text;
        case Kind::texts:
            return Json::array({text});
        default:
            return text;
    }
}

bool fits(Kind kind, const Json& value) {
    switch (kind) {
        case Kind::integer:
            return value.is_number_integer();
        case Kind::number:
            return value.is_number();
        case Kind::boolean:
            return value.is_boolean();
        case Kind::json:
            return value.is_string();
        case Kind::texts:
            return value.is_array() && std::all_of(value.begin(), value.end(), is_text);
        default:
            return is_text(value);
    }
}

// A value in a message. An array or an object may be too deep to be written out.
std::string in_short(const Json& value) {
    return value.is_structured() ? value.type_name()
                                 : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json read(const Parameter& parameter, const Json& given) {
    const bool needs_reading =
        given.is_string() && parameter.kind != Kind::text && parameter.kind != Kind::time;
    Json value = needs_reading ? from_text(parameter, given.get<std::string>()) : given;
    if (!fits(parameter.kind, value))
        refuse(parameter, "is not " + std::string(name_of(parameter.kind)) + ": " + in_short(value));
    const auto& choices = parameter.choices;
    if (!choices.empty() &&
        std::find(choices.begin(), choices.end(), value.get<std::string>()) == choices.end()) {
        std::string names;
        for (const auto& choice : choices) names += (names.empty() ? "" : ", ") + choice;
        refuse(parameter, "is none of " + names);
    }
    return value;
}

postgres::Params params_of(const Operation& operation, const Arguments& arguments) {
    postgres::Params params;
    for (const auto& parameter : operation.parameters) params.push_back(arguments.param(parameter.name));
    return params;
}

// How many items a page has at most.
long long limit_of(const Arguments& arguments) {
    const auto limit = arguments["limit"].get<long long>();
    if (limit < 1 || limit > longest_page)
        throw UsageError("limit is not between 1 and " + std::to_string(longest_page),
                         "ask for the rest with after");
    return limit;
}

// One item more is asked for than the page has: so the page knows whether another follows. A page ends early
// where its items are large.
std::string page_of(const Operation& operation, postgres::Connection& db, const Arguments& arguments) {
    auto params = params_of(operation, arguments);
    const auto limit = limit_of(arguments);
    params.push_back(arguments.param("after"));
    params.push_back(limit + 1);
    const std::string fits = "(r.n = 1 or r.n <= " + std::to_string(limit) +
                             " and r.bytes <= " + std::to_string(largest_page) + ")";
    return db.value(
        "select json_build_object('items', coalesce(json_agg(r.item order by r.n) filter (where " + fits +
            "), '[]'), 'next', case when not bool_and(" + fits +
            ") then (array_agg(r.cursor order by r.n desc) filter (where " + fits +
            "))[1] end) from (select i.item, i.cursor, i.n, sum(octet_length(i.item::text)) over (order "
            "by i.n) as bytes from (select row_to_json(q) as item, q.\"" +
            operation.cursor +
            "\"::text as cursor, row_number() over () as n "
            "from (" +
            operation.sql + ") q) i) r",
        params);
}

// Make times that are told by how long ago they are into times, by the server's clock.
void resolve_times(const Operation& operation, postgres::Connection& db, Arguments& arguments) {
    for (const auto& parameter : operation.parameters) {
        if (parameter.kind != Kind::time || !arguments.has(parameter.name)) continue;
        if (const auto ago = seconds_ago(arguments.text(parameter.name)))
            arguments.replace(parameter.name,
                              db.value("select clock_timestamp() - make_interval(secs => $1::float8)",
                                       {std::to_string(*ago)}));
    }
}

std::string answer_of(const Operation& operation, postgres::Connection& db, const Arguments& arguments) {
    if (operation.work) return operation.work(db, arguments);
    if (operation.answer == Answer::page) return page_of(operation, db, arguments);
    const auto params = params_of(operation, arguments);
    if (operation.answer == Answer::list) return "{\"items\": " + rows_of(db, operation.sql, params) + "}";
    std::string row = row_of(db, operation.sql, params);
    if (row.empty()) {
        const std::string about = operation.parameters.empty() ? "answer" : operation.parameters.front().name;
        throw NotFound("there is no " + about + (arguments.has(about) ? " " + arguments[about].dump() : ""));
    }
    return row;
}

}  // namespace

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::text:
            return "text";
        case Kind::integer:
            return "a whole number";
        case Kind::number:
            return "a number";
        case Kind::boolean:
            return "true or false";
        case Kind::time:
            return "a time";
        case Kind::json:
            return "JSON";
        case Kind::texts:
            return "a list of texts";
    }
    return "";
}

Arguments::Arguments(const std::vector<Parameter>& parameters, const Json& given) {
    for (const auto& [name, value] : given.items()) {
        const auto known =
            std::find_if(parameters.begin(), parameters.end(),
                         [&name = name](const auto& parameter) { return parameter.name == name; });
        if (known == parameters.end()) throw UsageError("there is no parameter \"" + name + "\"");
        if (!value.is_null()) values_[name] = read(*known, value);
    }
    for (const auto& parameter : parameters) {
        if (values_.contains(parameter.name)) continue;
        if (parameter.required) throw UsageError(parameter.name + " is missing", parameter.about);
        values_[parameter.name] = parameter.fallback;
    }
}

postgres::Param Arguments::param(const std::string& name) const {
    const Json& value = values_.at(name);
    if (value.is_null()) return nullptr;
    if (value.is_string()) return value.get<std::string>();
    if (value.is_array() && std::all_of(value.begin(), value.end(), is_text))
        return postgres::array_literal(value.get<std::vector<std::string>>());
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Shape without_cursor(Shape shape) {
    std::erase_if(shape, [](const Field& field) { return field.name == "cursor"; });
    return shape;
}

std::vector<Parameter> parameters_of(const Operation& operation) {
    auto all = operation.parameters;
    if (operation.answer == Answer::page && !operation.work) {
        all.push_back({"after", Kind::text, "`next` of the page before"});
        all.push_back({"limit", Kind::integer, "items on a page, at most 1000", false, operation.page});
    }
    return all;
}

std::optional<double> seconds_ago(const std::string& time) {
    if (time.size() < 3 || time.front() != '-') return std::nullopt;
    const std::map<char, double> units{{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    const auto unit = units.find(time.back());
    double amount = 0;
    const char* const end = time.data() + time.size() - 1;
    const auto read = std::from_chars(time.data() + 1, end, amount);
    if (unit == units.end() || read.ec != std::errc{} || read.ptr != end || !(amount >= 0))
        return std::nullopt;
    return amount * unit->second;
}

Operation by_name(Operation operation, const std::string& column) {
    const std::string after = "$" + std::to_string(operation.parameters.size() + 1);
    operation.answer = Answer::page;
    operation.cursor = column;
    operation.page = longest_page;
    operation.sql = "select * from (" + operation.sql + ") r where " + after + "::text is null or r.\"" +
                    column + "\" > " + after + "::text order by r.\"" + column + "\" limit $" +
                    std::to_string(operation.parameters.size() + 2) + "::int";
    return operation;
}

std::string run(const Operation& operation, postgres::Connection& db, const Json& arguments,
                const std::string& who) {
    Arguments checked(parameters_of(operation), arguments);
    if (operation.answer == Answer::page) limit_of(checked);
    const bool reads = operation.right == Right::view;
    postgres::Transaction transaction(db, reads ? "begin read only" : "begin");
    // Such questions are short and many, and the planner thinks them long: compiling them would take most of
    // their time, and a session that is kept would grow without end, as the server never forgets what it has
    // compiled.
    db.query(
        "select set_config('statement_timeout', $1, true), set_config('baton.acting_for', $2, true), "
        "set_config('jit', 'off', true)",
        {std::to_string(operation.limit.count()), who});
    resolve_times(operation, db, checked);
    std::string answer = answer_of(operation, db, checked);
    transaction.commit();
    return answer;
}

std::string rows_of(postgres::Connection& db, const std::string& sql, const postgres::Params& params) {
    return db.value("select coalesce(json_agg(row_to_json(r)), '[]') from (" + sql + ") r", params);
}

std::string row_of(postgres::Connection& db, const std::string& sql, const postgres::Params& params) {
    const auto row = db.query("select row_to_json(r) from (" + sql + ") r limit 1", params);
    return row.empty() ? "" : row.text(0, 0);
}

}  // namespace baton::operations
