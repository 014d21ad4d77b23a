// What shells complete after TAB, asked of the shells themselves, and the manual page.

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/file.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

using namespace baton;
using namespace baton::test;

namespace {

// What stands behind the words of a line, and what may come: the last word is at hand.
struct Line {
    std::vector<std::string> words;
    std::vector<std::string> offered;  // these, among others
    std::vector<std::string> not_offered;
};

const std::vector<Line> lines{
    {{"gr"}, {"groups"}, {"status"}},
    {{"groups", "--"}, {"--consumers", "--json", "--db"}, {"--sink", "status"}},
    {{"groups", "billing", "--"}, {"--consumers", "--json"}, {"status"}},
    {{"groups", "status", "--"}, {"--consumers"}, {}},  // a group may have a command's name
    {{"dead", ""}, {"list", "replay"}, {"status", "lint"}},
    {{"dead", "list", "--in", "billing", "--"}, {"--kind", "--limit"}, {"--reason"}},
    {{"dead", "list", "--in", "replay", "--"}, {"--limit"}, {"--reason"}},  // a value is no command
    {{"dead", "replay", "3", "--"}, {"--yes"}, {}},
    {{"dead", "list", "--kind", ""}, {"inbox", "group"}, {"list", "--in"}},
    {{"pipelines", "list", "--"}, {"--json"}, {"--in"}},
    {{"completion", ""}, {"bash", "zsh", "fish"}, {"status"}},
    {{"pipelines", "lint", "FOLDER/a"}, {"FOLDER/a.toml"}, {}},
};

struct Completion : ::testing::TestWithParam<const char*> {
    TemporaryFolder folder;
    std::string database = "host=127.0.0.1 port=1";  // nobody is there

    std::vector<std::string> answer(const std::vector<std::string>& words) const {
        std::string line = "baton", quoted;
        for (const auto& word : words) {
            line += " " + word;
            quoted += " '" + word + "'";
        }
        const std::string shell = GetParam(), count = std::to_string(words.size());
        const std::string script = folder / shell;
        const std::string program =
            shell == "bash" ? ". " + script + "; COMP_WORDS=(baton" + quoted + "); COMP_CWORD=" + count +
                                  "; _baton; printf '%s\\n' \"${COMPREPLY[@]}\""
            : shell == "zsh" ? "compdef() { }; compadd() { shift; print -l -- ${(M)@:#${words[CURRENT]}*} }; "
                               "_files() { print -l -- ${words[CURRENT]}*(N) }; . " +
                                   script + "; words=(baton" + quoted +
                                   "); CURRENT=" + std::to_string(words.size() + 1) + "; _baton"
                             : ". " + script + "; complete -C '" + line + "' | string replace -r '\\t.*' ''";
        const auto ran = run_separately(
            {.argv = {shell, "-c", program},
             .environment = {{"HOME", folder.path()},
                             {"BATON_DB", database},
                             {"PATH", program_file().parent_path().string() + ":" + std::getenv("PATH")}}});
        EXPECT_EQ(ran.errors, "") << program;
        std::vector<std::string> offered;
        std::istringstream all(ran.output);
        for (std::string word; std::getline(all, word);) offered.push_back(word);
        return offered;
    }
};

INSTANTIATE_TEST_SUITE_P(Shells, Completion, ::testing::Values("bash", "zsh", "fish"),
                         [](const auto& chosen) { return std::string(chosen.param); });

TEST_P(Completion, offers_what_may_follow) {
    write_text(folder / GetParam(), run_baton({"completion", GetParam()}).output);
    write_text(folder / "a.toml", "");
    const auto placed = [&](std::string word) {
        const auto at = word.find("FOLDER");
        return at == std::string::npos ? word : word.replace(at, 6, folder.path());
    };
    for (const auto& line : lines) {
        std::vector<std::string> words;
        for (const auto& word : line.words) words.push_back(placed(word));
        const auto offered = answer(words);
        const auto has = [&](const std::string& word) {
            return std::find(offered.begin(), offered.end(), placed(word)) != offered.end();
        };
        const auto shown = ::testing::PrintToString(line.words) + " " + ::testing::PrintToString(offered);
        for (const auto& word : line.offered) EXPECT_TRUE(has(word)) << word << " after " << shown;
        for (const auto& word : line.not_offered) EXPECT_FALSE(has(word)) << word << " after " << shown;
    }
}

TEST_P(Completion, offers_names_of_the_database) {
    database = shared_cluster(Form::plain).quiet_database();
    postgres::Connection(database).exec(R"sql(
        select baton.create_outbox('orders'), baton.create_inbox('payments');
        select baton.create_consumer_group('billing', 'orders'), baton.create_consumer_group('two words; $HOME', 'orders');
        select baton.set_pipeline('to-null', '{"source": {"outbox": "orders"}, "sink": {"type": "null"}}'))sql");
    write_text(folder / GetParam(), run_baton({"completion", GetParam()}).output);
    const auto offers = [&](const std::vector<std::string>& words, const std::string& name) {
        const auto offered = answer(words);
        return std::find(offered.begin(), offered.end(), name) != offered.end();
    };
    EXPECT_TRUE(offers({"groups", ""}, "billing"));
    EXPECT_FALSE(offers({"groups", ""}, "two"));
    EXPECT_FALSE(offers({"groups", ""}, "orders"));
    EXPECT_TRUE(offers({"outboxes", "or"}, "orders"));
    EXPECT_TRUE(offers({"pipelines", "show", ""}, "to-null"));
    EXPECT_TRUE(offers({"set", "outbox_en"}, "outbox_enabled"));
    for (const char* name : {"billing", "payments", "orders"}) {
        EXPECT_TRUE(offers({"tail", ""}, name)) << name;
        EXPECT_TRUE(offers({"dead", "list", "--in", ""}, name)) << name;
    }
    EXPECT_FALSE(offers({"dead", "list", ""}, "billing"));
    database = "host=127.0.0.1 port=1";
    EXPECT_FALSE(offers({"groups", ""}, "billing")) << "and nothing is said, see answer()";
}

TEST(Names, are_silent_without_a_database) {
    for (const char* database : {"host=127.0.0.1 port=1", "postgresql://[x"}) {
        const auto ran = run_baton({"names", "group"}, {{"BATON_DB", database}});
        EXPECT_EQ(ran.exit_code, 0);
        EXPECT_EQ(ran.output + ran.errors, "");
    }
    const auto empty = shared_cluster(Form::plain).empty_database();
    EXPECT_EQ(run_baton({"names", "group", "inbox"}, {{"BATON_DB", empty}}).errors, "");
    EXPECT_FALSE(run_baton({"man"}).output.find("baton names") != std::string::npos) << "it is for shells";
}

TEST(Manual, is_set_without_warnings) {
    const TemporaryFolder folder;
    write_text(folder / "baton.1", run_baton({"man"}).output);
    const auto set =
        run_separately({.argv = {"man", "--warnings", "-E", "UTF-8", "-l", folder / "baton.1"},
                        .environment = {{"LC_ALL", "C.UTF-8"}, {"MANROFFSEQ", ""}, {"MANWIDTH", "80"}}});
    EXPECT_EQ(set.exit_code, 0);
    EXPECT_EQ(set.errors, "");
    EXPECT_NE(set.output.find("baton dead replay"), std::string::npos) << set.output;
}

}  // namespace
