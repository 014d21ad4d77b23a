// The demo as a user runs it, short.

#include <gtest/gtest.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "base/file.hpp"
#include "baton/error.hpp"
#include "e2e/kept_demo.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

using namespace baton::test;
using nlohmann::json;

namespace {

// The numbers in the row of the audit that has this name, for the file and for the inbox.
std::pair<std::string, std::string> row(const std::string& output, const std::string& name) {
    std::smatch match;
    if (!std::regex_search(output, match, std::regex("\n  " + name + " +([0-9,]+) +([0-9,]+)"))) return {};
    return {match[1], match[2]};
}

// The API behind the link that the demo prints, as the page uses it.
class Page {
  public:
    explicit Page(const std::string& link) {
        const auto port = link.rfind(':') + 1;
        http_.emplace("127.0.0.1", std::stoi(link.substr(port)));
        http_->set_bearer_token_auth(link.substr(link.find('=', port) + 1));
    }
    json get(const std::string& path) { return read(http_->Get("/api/v1" + path)); }
    json post(const std::string& path, const json& body) {
        return read(http_->Post("/api/v1" + path, body.dump(), "application/json"));
    }
    json put(const std::string& path, const json& body) {
        return read(http_->Put("/api/v1" + path, body.dump(), "application/json"));
    }
    // The pipeline that carries parcels.
    json parcels() {
        const json relay = get("/relay");
        for (const auto& pipeline : relay["pipelines"])
            if (pipeline["pipeline"] == "demo_parcels") return pipeline;
        return {{"trouble", "not looked at yet"}, {"delivered", 0}};
    }

  private:
    static json read(const httplib::Result& answer) {
        if (!answer || answer->status != 200) throw baton::Error(answer ? answer->body : "no answer");
        return json::parse(answer->body);
    }
    std::optional<httplib::Client> http_;
};

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

TEST(Demo, stays_with_an_outage_and_a_dead_letter_that_can_be_mended) {
    const TemporaryFolder folder;
    const auto data = folder / "server";
    KeptDemo demo(folder, {"--seconds", "1", "--mode", "sql", "--data-dir", data.string()});
    Page page(demo.link());
    wait_until("the page tells of the outage",
               [&] { return page.parcels().value("trouble", "").find("refused") != std::string::npos; });
    const auto letters = page.get("/dead-letters?place=demo_parcels")["items"];
    ASSERT_EQ(letters.size(), 1U);
    EXPECT_NE(demo.said().find("commands baton status --data-dir " + data.string()), std::string::npos)
        << demo.said();
    EXPECT_NE(letters[0]["error"].get<std::string>().find("422"), std::string::npos);
    const std::string letter = letters[0]["letter"];
    page.put("/dead-letters/" + letter, {{"payload", R"({"parcel": 1, "grams": 250})"}});
    EXPECT_EQ(page.post("/dead-letters/replay", {{"letters", {letter}}})["replayed"], 1);
    demo.press_enter();
    wait_until("the carrier has taken everything", [&] {
        const auto group = page.get("/groups/demo_parcels");
        return page.parcels()["trouble"] == "" && page.parcels()["delivered"] > 1 &&
               group["dead_letters"] == 0 && group["retrying"] == 0;
    });
    EXPECT_EQ(demo.interrupt(), 0) << demo.said();
    EXPECT_NE(demo.said().find("baton down --data-dir " + data.string()), std::string::npos) << demo.said();

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
