// The demo as a user runs it, short.

#include <gtest/gtest.h>

#include <regex>

#include "support/program.hpp"

using namespace baton::test;

namespace {

// The numbers in the row of the audit that has this name, for the file and for the inbox.
std::pair<std::string, std::string> row(const std::string& output, const std::string& name) {
    std::smatch match;
    if (!std::regex_search(output, match, std::regex("\n  " + name + " +([0-9,]+) +([0-9,]+)"))) return {};
    return {match[1], match[2]};
}

}  // namespace

TEST(Demo, carries_every_event_once_and_in_order_and_cleans_up) {
    const TemporaryFolder folder;
    const auto data = folder / "server";
    const auto ran = run_baton({"demo", "--seconds", "3", "--data-dir", data.string()});
    EXPECT_EQ(ran.exit_code, 0) << ran.output << ran.errors;
    const auto committed = row(ran.output, "committed");
    EXPECT_GT(committed.first.size(), 1U) << ran.output;
    EXPECT_EQ(row(ran.output, "delivered"), committed);
    for (const auto* name : {"lost", "rolled back, yet seen", "duplicated", "out of order"})
        EXPECT_EQ(row(ran.output, name), (std::pair<std::string, std::string>{"0", "0"})) << name;
    EXPECT_NE(ran.output.find("commit to delivery p50"), std::string::npos);
    EXPECT_NE(ran.output.find("each event once"), std::string::npos);
    EXPECT_TRUE(std::regex_search(ran.output, std::regex("revenue per product +[1-9][0-9]* deltas, equal\n")))
        << ran.output;
    EXPECT_NE(ran.output.find("held open"), std::string::npos);
    EXPECT_NE(ran.output.find("passed: "), std::string::npos);
    EXPECT_NE(run_baton({"status", "--data-dir", data.string()}).exit_code, 0)
        << "the server was left running";
}

TEST(Demo, leaves_the_server_running_when_told_so_and_runs_again_in_it) {
    const TemporaryFolder folder;
    const auto data = folder / "server";
    const auto first =
        run_baton({"demo", "--seconds", "1", "--keep", "--mode", "sql", "--data-dir", data.string()});
    EXPECT_EQ(first.exit_code, 0) << first.output << first.errors;
    EXPECT_NE(first.output.find("baton down --data-dir " + data.string()), std::string::npos) << first.output;
    const auto second = run_baton({"demo", "--seconds", "1", "--data-dir", data.string()});
    EXPECT_EQ(second.exit_code, 0) << second.output << second.errors;
    EXPECT_EQ(run_baton({"status", "--data-dir", data.string()}).exit_code, 0)
        << "it was not the second one's to stop";
    EXPECT_EQ(run_baton({"down", "--data-dir", data.string()}).exit_code, 0);
}

TEST(Demo, refuses_what_makes_no_sense) {
    EXPECT_EQ(run_baton({"demo", "--seconds", "0"}).exit_code, 2);
    EXPECT_EQ(run_baton({"demo", "--writers", "many"}).exit_code, 2);
}
