#include "server/problem.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "operations/operation.hpp"

namespace baton::server {

namespace {

struct Meaning {
    std::string_view state;  // or its class
    int status;
};

// The first line that fits counts.
constexpr std::array meanings{
    Meaning{"42P01", 404},  // there is no such table
    Meaning{"42704", 404},  // ... object
    Meaning{"3F000", 404},  // ... schema
    Meaning{"P0002", 404},  // ... row
    Meaning{"42501", 403},  // the database does not let this role
    Meaning{"57014", 503},  // it took too long
    Meaning{"42601", 400}, Meaning{"42602", 400}, Meaning{"42622", 400},
    Meaning{"42939", 400}, Meaning{"0A", 400},    Meaning{"22", 400},  // a value that cannot be
    Meaning{"54", 400},                                                // ... that is too much
    Meaning{"BT006", 400}, Meaning{"53", 503},                         // the server is short of something
    Meaning{"57P", 503},   Meaning{"58", 503},    Meaning{"XX", 500},
};

int status_of(const SqlError& error) {
    if (error.retryable()) return 503;
    const auto found = std::find_if(meanings.begin(), meanings.end(), [&](const Meaning& meaning) {
        return error.sqlstate().starts_with(meaning.state);
    });
    return found == meanings.end() ? 409 : found->status;
}

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

}  // namespace

Problem problem_of(const Error& error) {
    if (const auto* known = dynamic_cast<const Problem*>(&error)) return *known;
    if (const auto* sql = dynamic_cast<const SqlError*>(&error)) {
        const int status = status_of(*sql);
        std::string hint = sql->hint().empty() ? sql->detail() : sql->hint();
        if (sql->sqlstate() == "57014") hint = "the statement took too long and was ended: ask for less";
        return {status, first_line(sql->what()), hint, sql->sqlstate()};
    }
    if (dynamic_cast<const operations::NotFound*>(&error) != nullptr)
        return {404, error.what(), error.hint()};
    if (dynamic_cast<const UsageError*>(&error) != nullptr) return {400, error.what(), error.hint()};
    if (const auto* lost = dynamic_cast<const ConnectionError*>(&error))
        return {503, "the database does not answer: " + first_line(lost->what()),
                lost->in_doubt() ? "whether the change was made is unknown: look before trying again"
                                 : "try again in a moment"};
    return {500, error.what(), error.hint()};
}

std::string words_of(const Problem& problem) {
    nlohmann::ordered_json words{
        {"title", problem.what()}, {"status", problem.status()}, {"hint", problem.hint()}};
    if (!problem.sqlstate().empty()) words["sqlstate"] = problem.sqlstate();
    if (!problem.problems().is_null()) words["problems"] = problem.problems();
    return words.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void give(httplib::Response& response, const Problem& problem) {
    response.status = problem.status();
    if (problem.status() == 401) response.set_header("WWW-Authenticate", "Bearer realm=\"baton\"");
    if (problem.status() == 429 || problem.status() == 503) response.set_header("Retry-After", "2");
    response.set_header("Cache-Control", "no-store");
    response.set_content(words_of(problem) + "\n", "application/problem+json");
}

}  // namespace baton::server
