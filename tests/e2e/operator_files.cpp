// Commands that need no server: help, completion, files of pipelines.

#include <fstream>
#include <sstream>

#include "base/file.hpp"
#include "baton/version.hpp"
#include "operating.hpp"

using namespace baton;
using namespace baton::test;

namespace {

TEST(Commands, every_one_stands_in_the_help_and_explains_itself) {
    const auto help = run_baton({"--help"});
    EXPECT_LE(std::count(help.output.begin(), help.output.end(), '\n'), 26) << "it fits a screen\n"
                                                                            << help.output;
    const auto words = run_baton({"completion", "bash"}).output;
    const auto from = words.find("'') offered='") + 13;
    std::istringstream all(words.substr(from, words.find('\'', from) - from));
    int commands = 0;
    for (std::string word; all >> word;) {
        if (word.starts_with("--")) continue;
        ++commands;
        EXPECT_TRUE(contains(help.output, word)) << word;
        EXPECT_EQ(run_baton({word, "--help"}).exit_code, 0) << word;
    }
    EXPECT_GT(commands, 20);
    for (const char* shell : {"zsh", "fish"})
        EXPECT_TRUE(contains(run_baton({"completion", shell}).output, "dead")) << shell;
    EXPECT_TRUE(contains(run_baton({"man"}).output, ".SS \"baton dead replay"));
}

TEST(Commands, what_create_writes_passes_lint) {
    const TemporaryFolder folder;
    for (const char* sink : {"amqp1", "file", "http", "kafka", "mqtt", "nats", "neo4j", "null", "postgres",
                             "rabbitmq", "redis", "sqs", "stdout"}) {
        const std::string file = folder / (std::string(sink) + ".toml");
        EXPECT_EQ(run_baton({"pipelines", "create", "--sink", sink, file}).exit_code, 0) << sink;
        const auto lint = run_baton({"pipelines", "lint", file});
        EXPECT_EQ(lint.exit_code, 0) << sink << lint.errors;
    }
    const auto again = run_baton({"pipelines", "create", "--sink", "null", folder / "null.toml"});
    EXPECT_EQ(again.exit_code, 1) << "a file is not overwritten";
    EXPECT_TRUE(contains(run_baton({"pipelines", "create", "--sink", "pigeon"}).errors, "there are amqp1"))
        << "what there is";
}

TEST(Commands, lint_names_file_and_line) {
    const TemporaryFolder folder;
    const std::string file = folder / "wrong.toml";
    std::ofstream(file) << "[[pipeline]]\nname = \"x\"\n[pipeline.source]\noutbox = "
                           "\"orders\"\n[pipeline.sink]\ntype = \"file\"\npaht = \"x\"\n";
    const auto ran = run_baton({"pipelines", "lint", file});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_TRUE(contains(ran.errors, "wrong.toml:")) << ran.errors;
}

TEST(Commands, lint_names_everything_that_is_wrong) {
    const TemporaryFolder folder;
    const std::string file = folder / "wrong.toml";
    write_text(file,
               "[log]\nlevel = \"loud\"\n[[pipeline]]\nname = \"x\"\nenabeld = true\n[pipeline.source]\n"
               "lease = \"soon\"\n[pipeline.sink]\ntype = \"http\"\n[pipeline.failure]\nattempts = "
               "0\nbackoff = \"later\"\n[[pipeline]]\nname = \"y\"\n[pipeline.source]\noutbox = "
               "\"orders\"\n[pipeline.sink]\ntype = \"null\"\n");
    const auto told = run_baton({"pipelines", "lint", file});
    EXPECT_EQ(told.exit_code, 1);
    for (const char* words :
         {"level is \"loud\"", "wrong.toml:5: pipeline x: enabeld", "sink: url is missing",
          "source: lease is no duration", "failure: attempts", "failure: backoff"})
        EXPECT_TRUE(contains(told.errors, words)) << words << "\n" << told.errors;
    EXPECT_EQ(told.output, "pipeline y: settings ok\n");

    const auto ran = run_baton({"pipelines", "lint", file, "--json"});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_EQ(ran.errors, "");
    const Json report = Json::parse(ran.output);
    EXPECT_EQ(keys_of(report), (std::vector<std::string>{"ok", "pipelines", "problems"}));
    EXPECT_EQ(report["ok"], false);
    EXPECT_EQ(report["pipelines"], Json::parse(R"([{"pipeline": "y", "state": "settings ok"}])"));
    EXPECT_EQ(report["problems"].size(), 7);
    EXPECT_EQ(report["problems"][1]["place"], file + ":5");
    EXPECT_EQ(report["problems"][1]["what"], "pipeline x: enabeld is not a setting known here");
    EXPECT_EQ(report["problems"][1]["hint"], "did you mean enabled?");

    write_text(file, "[[pipeline]\n");
    const Json broken = Json::parse(run_baton({"pipelines", "lint", file, "--json"}).output);
    ASSERT_EQ(broken["problems"].size(), 1) << broken;
    EXPECT_EQ(broken["problems"][0]["place"], file + ":1");
    const Json missing = Json::parse(run_baton({"pipelines", "lint", file + ".not", "--json"}).output);
    EXPECT_EQ(missing["ok"], false);
    EXPECT_TRUE(missing["problems"][0]["place"].is_null()) << missing;
}

TEST(Commands, answers_for_programs_are_json) {
    const TemporaryFolder folder;
    const auto json = [](std::vector<std::string> words) {
        words.push_back("--json");
        const auto ran = run_baton(words);
        EXPECT_EQ(ran.exit_code, 0) << ran.errors;
        return Json::parse(ran.output);
    };
    EXPECT_EQ(json({"version"}), (Json{{"version", baton::version()}}));
    const std::string file = folder / "one.toml";
    const Json shown = json({"pipelines", "create", "--sink", "null", "--outbox", "orders"});
    const Json made = json({"pipelines", "create", "--sink", "null", "--outbox", "orders", file});
    EXPECT_EQ(keys_of(made), (std::vector<std::string>{"pipeline", "file", "text"}));
    EXPECT_EQ(made["pipeline"], "orders-to-null");
    EXPECT_EQ(made["file"], file);
    EXPECT_TRUE(shown["file"].is_null());
    EXPECT_EQ(made["text"], shown["text"]);
    EXPECT_EQ(read_text(file), made["text"]);
    EXPECT_EQ(
        json({"pipelines", "lint", file}),
        Json::parse(
            R"({"ok": true, "pipelines": [{"pipeline": "orders-to-null", "state": "settings ok"}], "problems": []})"));
}

TEST(Commands, init_and_the_check_of_a_relay_answer_in_json) {
    auto& cluster = shared_cluster(Form::plain);
    const std::string url = cluster.empty_database();
    const auto init = [&] { return Json::parse(run_baton({"init", "--json", "--db", url}).output); };
    const Json first = init();
    EXPECT_EQ(keys_of(first), (std::vector<std::string>{"version", "form", "before", "said"}));
    EXPECT_EQ(first["version"], baton::version());
    EXPECT_EQ(first["form"], "sql");
    EXPECT_TRUE(first["before"].is_null());
    EXPECT_TRUE(contains(first["said"], "was installed")) << first;
    EXPECT_EQ(init()["before"], baton::version());
    EXPECT_EQ(run_baton({"init", "--json", "--print-sql"}).exit_code, 2);

    postgres::Connection(url).exec(
        "select baton.create_outbox('orders'); select baton.set_pipeline('good', '{\"source\": {\"outbox\": "
        "\"orders\"}, \"sink\": {\"type\": \"null\"}}'), baton.set_pipeline('bad', '{\"source\": "
        "{\"outbox\": "
        "\"nosuch\"}, \"sink\": {\"type\": \"null\"}, \"failure\": {\"attempts\": 0}}')");
    const auto ran = run_baton({"relay", "--check", "--json", "--db", url});
    EXPECT_EQ(ran.exit_code, 1) << ran.errors;
    const Json report = Json::parse(ran.output);
    EXPECT_EQ(report["pipelines"], Json::parse(R"([{"pipeline": "good", "state": "ok"}])"));
    ASSERT_EQ(report["problems"].size(), 1) << report;
    EXPECT_EQ(report["problems"][0]["place"], "baton.pipelines");
    EXPECT_EQ(run_baton({"relay", "--json"}).exit_code, 2) << "a relay that runs has its log";
}

}  // namespace
