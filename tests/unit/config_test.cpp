// The relay's file: what it may say, and what is said about mistakes in it.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "assembly/pipeline_parts.hpp"
#include "base/life_sign.hpp"
#include "cli/traces.hpp"
#include "relay/config.hpp"

using namespace baton;
using namespace baton::relay;

namespace {

// The message about a file that cannot be, and its hint.
std::string complaint(const std::string& text) {
    try {
        for (const auto& settings : parse_config(text, "relay.toml").pipelines)
            assembly::make_parts(settings, {"", "owner"});
    } catch (const SettingsError& error) {
        return std::string(error.what()) + (error.hint().empty() ? "" : " (" + error.hint() + ")");
    }
    return "nothing";
}

const std::string smallest =
    "[[pipeline]]\nname = \"a\"\n[pipeline.source]\noutbox = \"orders\"\n[pipeline.sink]\ntype = \"null\"\n";

}  // namespace

// The blocks of a page that are fenced as TOML.
std::vector<std::string> toml_blocks(const std::filesystem::path& page) {
    std::ifstream file(page);
    std::vector<std::string> blocks;
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        if (line == "```toml") blocks.emplace_back();
        if (inside && line != "```") blocks.back() += line + "\n";
        inside = line == "```toml" || (inside && line != "```");
    }
    return blocks;
}

// Set every ${env:NAME} that a text refers to, as whoever copies it does.
void set_environment_of(const std::string& text) {
    constexpr std::string_view mark = "${env:";
    for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
        const auto begin = at + mark.size();
        ::setenv(text.substr(begin, text.find('}', begin) - begin).c_str(), "dbname=shop", 0);
    }
}

TEST(Config, what_the_docs_show_is_a_pipeline) {
    int pipelines = 0;
    int traces = 0;
    for (const auto& page : std::filesystem::directory_iterator(BATON_DOCS)) {
        if (page.path().extension() != ".md") continue;
        for (const auto& block : toml_blocks(page.path())) {
            set_environment_of(block);
            if (block.find("[traces]") != std::string::npos) {
                EXPECT_TRUE(
                    cli::read_traces(parse_config(block, page.path().filename().string()), "me").enabled);
                ++traces;
            }
            if (block.find("[[pipeline]]") == std::string::npos) continue;  // a part of one
            for (const auto& pipeline : parse_config(block, page.path().filename().string()).pipelines) {
                EXPECT_NO_THROW(assembly::make_parts(pipeline, {"", "owner"})) << page.path() << "\n"
                                                                               << block;
                ++pipelines;
            }
        }
    }
    EXPECT_GE(pipelines, 4);
    EXPECT_EQ(traces, 1);
}

TEST(Config, traces_are_on_by_the_file_or_a_variable_and_the_file_goes_first) {
    const auto read = [](const std::string& text) { return cli::read_traces(parse_config(text, "f"), "me"); };
    EXPECT_FALSE(read("").enabled);
    const auto made = read("[traces]\nendpoint = \"http://c:4318\"\nheaders.key = \"1\"\nqueue = 100\n");
    EXPECT_TRUE(made.enabled);
    EXPECT_EQ(made.options.url, "http://c:4318/v1/traces");
    EXPECT_EQ(made.options.headers.at("key"), "1");
    EXPECT_EQ(made.options.batch, 100U) << "a batch is no larger than the queue";
    EXPECT_EQ(made.options.resource.at("service.name"), "baton-relay");
    EXPECT_EQ(made.options.resource.at("service.instance.id"), "me");
    ::setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://other:4318", 1);
    EXPECT_EQ(read("").options.url, "http://other:4318/v1/traces");
    EXPECT_EQ(read("[traces]\nurl = \"http://c/in\"\n").options.url, "http://c/in");
    EXPECT_FALSE(read("[traces]\nenabled = false\n").enabled);
    ::setenv("OTEL_SDK_DISABLED", "true", 1);
    EXPECT_FALSE(read("[traces]\nendpoint = \"http://c:4318\"\n").enabled);
    ::unsetenv("OTEL_SDK_DISABLED");
    ::unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    for (const char* bad : {"enabled = true", "endpoint = \"c\"", "compression = \"zip\"",
                            "ratio = 2.0\nsampler = \"traceidratio\"", "headers.\"a b\" = \"1\"",
                            "queues = 1", "endpoint = \"http://c\"\nurl = \"http://c\""})
        EXPECT_THROW(read(std::string("[traces]\n") + bad + "\n"), SettingsError) << bad;
}

TEST(Config, the_smallest_file_is_enough) {
    EXPECT_EQ(complaint(smallest), "nothing");
    const auto parts = assembly::make_parts(parse_config(smallest, "f").pipelines.at(0), {"", "owner"});
    EXPECT_EQ(parts.name, "a");
    EXPECT_EQ(parts.policy.on_poison, OnPoison::park);
}

TEST(Config, every_setting_of_a_pipeline_arrives) {
    const auto parts = assembly::make_parts(
        parse_config(smallest + "[pipeline.failure]\nattempts = 3\nbackoff = "
                                "\"5ms\"\nbackoff_limit = \"1s\"\non_poison = \"block_key\"\n"
                                "breaker_threshold = 4\n[pipeline.limits]\nmax_in_flight = "
                                "7\nmax_bytes = 1000\nrate = 2.5\ndrain = \"3s\"\n",
                     "f")
            .pipelines.at(0),
        {"", "owner"});
    EXPECT_EQ(parts.policy.attempts, 3U);
    EXPECT_EQ(parts.policy.backoff.base, std::chrono::milliseconds(5));
    EXPECT_EQ(parts.policy.on_poison, OnPoison::block_key);
    EXPECT_EQ(parts.policy.breaker_threshold, 4U);
    EXPECT_EQ(parts.policy.max_in_flight, 7U);
    EXPECT_EQ(parts.policy.rate, 2.5);
    EXPECT_EQ(parts.max_bytes, 1000U);
    EXPECT_EQ(parts.drain_limit, std::chrono::seconds(3));
}

TEST(Config, mistakes_are_named_with_file_line_and_key) {
    EXPECT_EQ(complaint("[[pipeline]\n").substr(0, 13), "relay.toml:1:");
    EXPECT_EQ(complaint("\n[[pipeline]]\n[pipeline.sink]\ntype = \"null\"\n"),
              "relay.toml:2: the pipeline has no name (write name = \"...\" below [[pipeline]])");
    EXPECT_EQ(complaint(smallest + smallest), "relay.toml:8: there is another pipeline \"a\"");
    EXPECT_EQ(complaint("[pipeline]\nname = \"a\"\n"),
              "relay.toml:1: pipeline must be a list of tables (write [[pipeline]] with two brackets)");
    EXPECT_EQ(
        complaint("[pipelines]\n"),
        "relay.toml:1: pipelines is not known here (the tables are [relay], [log], [server], [traces] and "
        "[[pipeline]])");
    EXPECT_EQ(complaint("[[pipeline]]\nname = \"a\"\n[pipeline.source]\noutbox = "
                        "\"o\"\n[pipeline.sink]\ntype = \"kafak\"\n")
                  .substr(0, 64),
              "relay.toml:6: pipeline a, sink: type is \"kafak\", which is no sin");
    EXPECT_EQ(complaint(smallest + "[pipeline.limits]\nmax_in_flight = \"many\"\n"),
              "relay.toml:8: pipeline a, limits: max_in_flight must be a whole number, not text");
    EXPECT_EQ(complaint(smallest + "[pipeline.failure]\nonpoison = \"park\"\n"),
              "relay.toml:8: pipeline a, failure: onpoison is not a setting known here (did you mean "
              "on_poison?)");
    EXPECT_EQ(complaint(smallest + "[pipeline.failure]\npatience = 1\n"),
              "relay.toml:8: pipeline a, failure: patience is not a setting known here (check its spelling "
              "and its table)");
    EXPECT_EQ(complaint("[[pipeline]]\nname = \"a\"\n[pipeline.source]\noutbx = \"o\"\n[pipeline.sink]\n"
                        "type = \"null\"\n"),
              "relay.toml:3: pipeline a, source: outbox is missing (there is outbx: did you mean outbox?)");
    EXPECT_EQ(
        complaint(smallest + "[pipeline.failure]\non_poison = \"stop\"\n"),
        "relay.toml:8: pipeline a, failure: on_poison is \"stop\" (write one of: park, block_key, halt)");
    EXPECT_EQ(complaint(smallest + "[pipeline.sinks]\ntype = \"x\"\n"),
              "relay.toml:8: pipeline a: sinks.type is not a setting known here (did you mean sink.type?)");
    EXPECT_EQ(complaint("[[pipeline]]\nname = \"a\"\n[pipeline.source]\n[pipeline.sink]\ntype = \"null\"\n"),
              "relay.toml:3: pipeline a, source: outbox is missing");
    EXPECT_EQ(complaint("[[pipeline]]\nname = \"a\"\n[pipeline.source]\noutbox = \"o\"\n"),
              "relay.toml:1: pipeline a, sink: type is missing");
    EXPECT_EQ(complaint(smallest + "[pipeline.source]\nlease = \"1s\"\n").substr(0, 13), "relay.toml:7:");
    EXPECT_EQ(complaint("[[pipeline]]\nname = \"a\"\n[pipeline.source]\noutbox = \"o\"\nlease = "
                        "\"10ms\"\n[pipeline.sink]\ntype = \"null\"\n"),
              "relay.toml:5: pipeline a, source: lease must be at least 1s");
}

TEST(Config, numbers_and_durations_that_cannot_be_are_refused) {
    const auto lease = [](const std::string& value) {
        return complaint("[[pipeline]]\nname = \"a\"\n[pipeline.source]\noutbox = \"o\"\nlease = " + value +
                         "\n[pipeline.sink]\ntype = \"null\"\n");
    };
    for (const char* value :
         {"\"1e300h\"", "\"inf\"", "\"nan\"", "\"-1s\"", "-1", "9223372036854775807", "\"1000001h\""})
        EXPECT_EQ(
            lease(value),
            "relay.toml:5: pipeline a, source: lease is no duration (write 250ms, 5s, 2m or 1h, up to a "
            "hundred years)")
            << value;
    EXPECT_EQ(complaint(smallest + "[pipeline.limits]\nrate = nan\n"),
              "relay.toml:8: limits.rate is no number that can be reached");
    EXPECT_EQ(complaint(smallest + "[pipeline.limits]\nrate = inf\n"),
              "relay.toml:8: limits.rate is no number that can be reached");
    EXPECT_EQ(complaint(smallest + "[pipeline.limits]\nmax_bytes = 0\n"),
              "relay.toml:8: pipeline a, limits: max_bytes must be at least 1");
    for (const char* value : {"0", "4294967296"})
        EXPECT_EQ(complaint(smallest + "[pipeline.failure]\nattempts = " + value + "\n"),
                  "relay.toml:8: pipeline a, failure: attempts must be between 1 and 4294967295");
    EXPECT_EQ(complaint(smallest + "[pipeline.failure]\nbackoff = \"0s\"\n"),
              "relay.toml:8: pipeline a, failure: backoff must be above zero");
}

TEST(Config, a_file_that_is_no_toml_is_refused_with_its_line) {
    for (const auto& text : {std::string("[\0\0e\n", 5), std::string("[ = \"1h\"\n"),
                             std::string("[a\xD2\x90]"), std::string("\x7F")})
        EXPECT_EQ(complaint(text).substr(0, 13), "relay.toml:1:") << text;
}

TEST(Config, the_catalogs_pipelines_may_not_share_a_name_with_the_files) {
    auto file = parse_config(smallest, "f").pipelines;
    auto catalog = parse_config(smallest, "catalog").pipelines;
    EXPECT_THROW(join(file, catalog), SettingsError);
    EXPECT_EQ(join(file, {}).size(), 1U);
}

TEST(RelayName, no_two_relays_have_the_same_although_host_and_process_are) {
    std::set<std::string> names;
    for (int i = 0; i < 200; ++i) names.insert(show_life());
    EXPECT_EQ(names.size(), 200U);
}

TEST(Config, a_broker_is_a_source_and_mistakes_about_it_are_named_as_well) {
    const std::string inbound =
        "[[pipeline]]\nname = \"a\"\n[pipeline.sink]\ntype = \"null\"\n[pipeline.source]\n";
    const auto with = [&](const std::string& source) { return complaint(inbound + source); };
    EXPECT_EQ(with("type = \"kafka\"\nbrokers = \"b\"\ntopic = \"t\"\n"), "nothing");
    EXPECT_EQ(with("type = \"nats\"\nstream = \"S\"\n"), "nothing");
    EXPECT_EQ(with("type = \"rabbitmq\"\nqueue = \"q\"\n"), "nothing");
    EXPECT_EQ(with("type = \"redis\"\nstream = \"s\"\n"), "nothing");
    EXPECT_EQ(with("type = \"outbox\"\noutbox = \"orders\"\n"), "nothing");
    EXPECT_EQ(
        with("type = \"redis\"\nstream = \"s\"\nmaxlen = 7\n"),
        "relay.toml:8: pipeline a, source: maxlen is not a setting known here (check its spelling and its "
        "table)");
    EXPECT_EQ(with("type = \"kafak\"\n").substr(0, 69),
              "relay.toml:6: pipeline a, source: type is \"kafak\", which is no source");
    EXPECT_EQ(with("type = \"redis\"\nstream = \"s\"\nid_header = \"a\"\nid_field = \"b\"\n"),
              "relay.toml:9: pipeline a, source: id_field stands beside id_header (set one of them)");
    EXPECT_EQ(with("type = \"redis\"\nstream = \"s\"\n[pipeline.failure]\non_poison = \"park\"\n"),
              "relay.toml:9: pipeline a, failure: on_poison is \"park\" (write one of: retry, halt)");
    EXPECT_EQ(
        with("type = \"redis\"\nstream = \"s\"\n[pipeline.failure]\nmax_attempts = 3\n"),
        "relay.toml:9: pipeline a, failure: max_attempts is not a setting known here (check its spelling and "
        "its table)");
    const auto parts = assembly::make_parts(
        parse_config(inbound + "type = \"redis\"\nstream = \"s\"\n", "f").pipelines.at(0), {"", "owner"});
    EXPECT_EQ(parts.policy.on_poison, OnPoison::retry);
    EXPECT_EQ(parts.group, "");
}
