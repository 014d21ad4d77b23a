// Everything that is wrong with a pipeline's settings, and settings on their way into the catalog.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assembly/catalog.hpp"
#include "assembly/lint.hpp"

using namespace baton;
using assembly::Secrets;

namespace {

std::vector<std::string> wrong_keys(const std::string& json, Secrets secrets = Secrets::followed,
                                    const std::string& name = "x") {
    std::vector<std::string> keys;
    for (const auto& problem : assembly::problems_of(assembly::settings_of(name, json), {}, secrets))
        keys.push_back(problem.key());
    std::sort(keys.begin(), keys.end());
    return keys;
}

using Keys = std::vector<std::string>;

TEST(Lint, finds_nothing_in_good_settings) {
    EXPECT_EQ(wrong_keys(R"({"source": {"outbox": "orders"}, "sink": {"type": "null"}})"), Keys{});
}

TEST(Lint, lets_no_setting_run_code_of_elsewhere) {
    for (const std::string name :
         {"plugin.library.paths", "ssl.engine.location", "ssl.providers", "sasl.kerberos.kinit.cmd"})
        for (
            const std::string& settings :
            {R"({"source": {"outbox": "orders"}, "sink": {"type": "kafka", "brokers": "h:1", "properties": {")" +
                 name + R"(": "libz.so.1"}}})",
             R"({"source": {"type": "kafka", "brokers": "h:1", "topics": ["t"], "properties": {")" + name +
                 R"(": "libz.so.1"}}, "sink": {"type": "null"}})"}) {
            const auto problems =
                assembly::problems_of(assembly::settings_of("x", settings), {}, Secrets::unknown);
            ASSERT_FALSE(problems.empty()) << settings;
            EXPECT_TRUE(std::ranges::any_of(problems,
                                            [](const auto& problem) {
                                                return std::string(problem.what()).find("cannot be set") !=
                                                       std::string::npos;
                                            }))
                << settings << ": " << problems[0].what();
        }
}

TEST(Lint, goes_on_behind_what_is_wrong) {
    EXPECT_EQ(wrong_keys(R"({"source": {"outbox": "orders", "lease": "soon", "start": "never"},
                             "sink": {"type": "http", "url": 7, "methd": "PUT"},
                             "failure": {"attempts": 0, "backoff": "later", "atempts": 1},
                             "limits": {"rate": -1}})"),
              (Keys{"failure.atempts", "failure.attempts", "failure.backoff", "limits.rate", "sink.methd",
                    "sink.url", "source.lease", "source.start"}));
}

TEST(Lint, sees_the_rest_where_a_whole_table_cannot_be) {
    EXPECT_EQ(wrong_keys(R"({"source": {}, "sink": {"type": "pigeon"}, "limits": {"rate": "fast"}})"),
              (Keys{"limits.rate", "sink.type", "source.outbox"}));
    EXPECT_EQ(wrong_keys("{}").size(), 2) << "neither source nor sink";
}

TEST(Lint, names_no_more_than_fifty) {
    nlohmann::json settings{{"source", {{"outbox", "orders"}}}, {"sink", {{"type", "null"}}}};
    for (int i = 0; i < 200; ++i) settings["failure"]["unknown" + std::to_string(i)] = i;
    EXPECT_EQ(wrong_keys(settings.dump()).size(), 50);
}

TEST(Lint, looks_up_no_secret_that_is_known_elsewhere_only) {
    ::setenv("LINT_TEST_SECRET", "hunter2", 1);
    const std::string settings = R"({"source": {"outbox": "orders", "lease": "${env:NOBODY_HAS_THIS}"},
                                     "sink": {"type": "http", "url": "${env:NOBODY_HAS_THIS}"}})";
    EXPECT_EQ(wrong_keys(settings), (Keys{"sink.url", "source.lease"}));
    EXPECT_EQ(wrong_keys(settings, Secrets::unknown), Keys{});
    const auto told =
        assembly::problems_of(assembly::settings_of("${env:LINT_TEST_SECRET}",
                                                    R"({"source": {"outbox": "o"}, "limits": {"rate": -1},
                                                        "sink": {"type": "${env:LINT_TEST_SECRET}"}})"),
                              {}, Secrets::unknown);
    ASSERT_FALSE(told.empty());
    for (const auto& problem : told)
        EXPECT_EQ(std::string(problem.what() + problem.hint()).find("hunter2"), std::string::npos)
            << problem.what();
}

TEST(Catalog, settings_go_in_and_out_as_they_are) {
    const auto json = nlohmann::json::parse(
        R"({"source": {"outbox": "orders"}, "sink": {"type": "http", "url": "${env:URL}", "tls": {"verify": false}},
            "filter": {"event_types": ["a", "b"]}, "limits": {"rate": 2.5, "max_in_flight": 7}})");
    const auto settings = assembly::settings_of("x", json.dump());
    EXPECT_EQ(settings.text("name"), "x");
    EXPECT_EQ(nlohmann::json::parse(assembly::as_json(settings)), json);
}

TEST(Catalog, settings_of_another_form_are_refused) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += R"({"a":)";
    deep += "1" + std::string(100'000, '}');
    nlohmann::json many;
    for (int i = 0; i < 2000; ++i) many["sink"]["k" + std::to_string(i)] = i;
    for (const std::string& json : {std::string("7"), std::string("{"), std::string(R"({"sink": [1]})"),
                                    std::string(R"({"sink": null})"), deep, many.dump()})
        EXPECT_THROW(assembly::settings_of("x", json), relay::SettingsError) << json.substr(0, 100);
}

}  // namespace
