// The API's description of itself.

#include "server/open_api.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "base/file.hpp"
#include "operations/catalog.hpp"
#include "server/asked.hpp"
#include "server/problem.hpp"

using namespace baton;
using nlohmann::json;

namespace {

std::string find(const std::string& method, const std::string& path) {
    httplib::Request request;
    request.target = "/api/v1" + path;
    std::string allowed;
    try {
        return server::Routes().find(method, server::path_parts(request), allowed).operation.name;
    } catch (const server::Problem& problem) {
        return std::to_string(problem.status()) + " " + allowed;
    }
}

}  // namespace

TEST(OpenApi, the_file_in_the_docs_is_what_is_served) {
    const std::string file = BATON_DOCS "/openapi.json";
    if (std::getenv("BATON_WRITE_DOCS") != nullptr) write_text(file, server::open_api());
    EXPECT_TRUE(read_text(file) == server::open_api())
        << "docs/openapi.json is not what the program says: run this test with BATON_WRITE_DOCS=1";
}

// The table of docs/commands.md: which operation answers a command, and which no command asks.
TEST(OpenApi, the_docs_say_which_operation_answers_a_command) {
    const std::string text = read_text(BATON_DOCS "/commands.md");
    const auto begin = text.find("| command | operation |");
    ASSERT_NE(begin, std::string::npos);
    std::set<std::string> told, known;
    std::istringstream lines(text.substr(begin, text.find("\n\n", begin) - begin));
    const std::regex quoted("`([a-z_]+)`");
    for (std::string line; std::getline(lines, line);) {
        const std::string second = line.substr(line.find(" | ") + 3);
        for (std::sregex_iterator name(second.begin(), second.end(), quoted), end; name != end; ++name)
            told.insert((*name)[1]);
    }
    told.erase("state");  // fields, not operations
    told.erase("error");
    for (const auto& operation : operations::catalog()) known.insert(operation.name);
    // ... and those of the server's own that commands do as well, or that nobody would look for elsewhere
    for (const char* own : {"lint_pipeline", "render_pipeline", "show_example"}) known.insert(own);
    EXPECT_EQ(told, known);
}

TEST(OpenApi, every_operation_is_there_once_with_its_parameters) {
    const json document = json::parse(server::open_api());
    std::set<std::string> names;
    for (const auto& [path, methods] : document["paths"].items())
        for (const auto& [method, described] : methods.items())
            EXPECT_TRUE(names.insert(described["operationId"]).second) << described["operationId"];
    for (const auto& operation : operations::catalog()) {
        EXPECT_TRUE(names.contains(operation.name)) << operation.name;
        std::string method = operation.method;
        for (auto& letter : method) letter = static_cast<char>(std::tolower(letter));
        const auto& described = document["paths"][operation.path][method];
        std::set<std::string> parameters;
        for (const auto& parameter : described.value("parameters", json::array()))
            parameters.insert(parameter["name"]);
        if (described.contains("requestBody"))
            for (const auto& [name, _] :
                 described["requestBody"]["content"]["application/json"]["schema"]["properties"].items())
                parameters.insert(name);
        for (const auto& parameter : operations::parameters_of(operation))
            EXPECT_TRUE(parameters.contains(parameter.name)) << operation.name << " " << parameter.name;
        EXPECT_EQ(parameters.size(), operations::parameters_of(operation).size()) << operation.name;
    }
}

TEST(Routes, find_the_endpoint_by_method_and_path) {
    EXPECT_EQ(find("GET", "/outboxes"), "list_outboxes");
    EXPECT_EQ(find("HEAD", "/outboxes"), "list_outboxes");
    EXPECT_EQ(find("GET", "/outboxes/orders"), "show_outbox");
    EXPECT_EQ(find("GET", "/outboxes/a%2Fb/events"), "list_events");
    EXPECT_EQ(find("POST", "/outboxes/orders/events"), "publish");
    EXPECT_EQ(find("POST", "/dead-letters/replay"), "replay_dead_letters");
}

TEST(Routes, say_what_there_is_instead) {
    EXPECT_EQ(find("GET", "/nothing"), "404 ");
    EXPECT_EQ(find("GET", "/outboxes/"), "404 ");
    EXPECT_EQ(find("GET", "/"), "404 ");
    EXPECT_EQ(find("GET", "/outboxes/%ff"), "400 ");
    EXPECT_EQ(find("GET", "/outboxes/%00"), "400 ");
    EXPECT_EQ(find("DELETE", "/outboxes"), "405 GET");
    EXPECT_EQ(find("GET", "/dead-letters/replay"), "405 POST");
    EXPECT_EQ(find("PATCH", "/outboxes/orders/events"), "405 POST, GET");
}

TEST(Arguments, of_a_body_keep_every_digit_and_must_be_of_their_kind) {
    const auto& publish = operations::find("publish");
    httplib::Request request;
    request.target = "/api/v1/outboxes/orders/events";
    const auto parts = server::path_parts(request);
    const auto given = server::arguments_of(
        publish, request, parts,
        R"({"event_type": "a", "payload": {"n": 12345678901234567890.10}, "topic": null})");
    EXPECT_EQ(given["payload"], "{\"n\": 12345678901234567890.10}");
    EXPECT_EQ(given["outbox"], "orders");
    EXPECT_TRUE(given["topic"].is_null());
    for (const char* body : {"[]", "{", "\"a\"", "{\"event_type\": 1, \"payload\": 1}",
                             "{\"outbox\": \"other\"}", "{\"nobody\": 1}", "{\"event_type\": {}}", "\xff"})
        EXPECT_THROW(server::arguments_of(publish, request, parts, body), server::Problem) << body;
    request.target += "?topic=a";
    EXPECT_THROW(server::arguments_of(publish, request, parts, "{}"), server::Problem);
}

TEST(Arguments, of_an_address_are_decoded_and_given_once) {
    const auto& list = operations::find("list_events");
    httplib::Request request;
    request.target = "/api/v1/outboxes/orders/events?key=a%26b+c&limit=5#x";
    const auto parts = server::path_parts(request);
    const auto given = server::arguments_of(list, request, parts, "");
    EXPECT_EQ(given["key"], "a&b c");
    EXPECT_EQ(given["limit"], "5");
    request.target = "/api/v1/outboxes/orders/events?limit=5&limit=6";
    EXPECT_THROW(server::arguments_of(list, request, parts, ""), server::Problem);
    request.target = "/api/v1/outboxes/orders/events?outbox=other";
    EXPECT_THROW(server::arguments_of(list, request, parts, ""), server::Problem);
}
