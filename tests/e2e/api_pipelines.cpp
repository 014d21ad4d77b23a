// Pipelines by the API: what they would send, and what is wrong with their settings.

#include <set>

#include "api_client.hpp"

using namespace baton;
using namespace baton::test;

namespace {

TEST_F(Api, a_pipeline_is_rendered_as_the_command_renders_it) {
    admin.exec(
        "select baton.publish('orders', 'order.created', '{\"n\": 1}', aggregate_id => 'k'); "
        "select baton.set_pipeline('out', '{\"source\": {\"outbox\": \"orders\"}, \"sink\": {\"type\": "
        "\"stdout\"}}')");
    auto running = start_dashboard();
    const auto rendered = get("/pipelines/out/render?limit=5");
    ASSERT_EQ(rendered.status, 200) << rendered.body;
    const auto command = run_baton({"render", "out", "--json", "--db", url});
    EXPECT_EQ(rendered.body, Json::parse(command.output));
    EXPECT_EQ(get("/pipelines/nothing/render").status, 404);
    EXPECT_EQ(get("/pipelines/out/render?limit=0").status, 400);
}

TEST_F(Api, a_pipeline_that_no_relay_could_run_is_refused_with_everything_that_is_wrong) {
    auto running = start_dashboard();
    const Json wrong{{"source", {{"outbox", "orders"}, {"lease", "soon"}}},
                     {"sink", {{"type", "http"}, {"url", "${env:NOBODY_HAS_THIS}"}, {"methd", "PUT"}}},
                     {"failure", {{"attempts", 0}}}};
    const auto refused = put("/pipelines/out", {{"settings", wrong}});
    EXPECT_EQ(refused.status, 400);
    std::set<std::string> settings;
    for (const auto& problem : refused.body["problems"]) settings.insert(problem["setting"]);
    EXPECT_EQ(settings, (std::set<std::string>{"failure.attempts", "sink.methd", "source.lease"}))
        << refused.body;
    EXPECT_EQ(refused.body["title"], refused.body["problems"][0]["what"]);
    EXPECT_EQ(admin.value("select count(*) from baton.pipelines"), "0");
    const auto linted = post("/lint", {{"settings", wrong}});
    EXPECT_EQ(linted.status, 200);
    EXPECT_EQ(linted.body["ok"], false);
    EXPECT_EQ(linted.body["problems"].size(), 3);
    EXPECT_EQ(post("/lint", {{"settings", wrong}}, token(vics_token)).status, 403);
    EXPECT_EQ(put("/pipelines/out", {{"settings", 7}}).status, 400);
    Json deep = 1;
    for (int i = 0; i < 40; ++i) deep = {{"a", deep}};
    EXPECT_EQ(put("/pipelines/out", {{"settings", {{"sink", deep}}}}).status, 400);
}

// A secret is looked up where the relay runs, and nowhere else: an answer must not tell of one.
TEST_F(Api, a_reference_to_a_secret_is_taken_as_it_is) {
    auto running = start_dashboard();
    write_text(folder / "secret", "hunter2");
    const std::string reference = "${file:" + (folder / "secret").string() + "}";
    for (const char* address : {"${env:URL}", "https://${env:HOST}/x"}) {
        const Json good{{"source", {{"outbox", "orders"}, {"lease", "${env:LEASE}"}}},
                        {"sink", {{"type", "http"}, {"url", address}}}};
        EXPECT_EQ(post("/lint", {{"settings", good}}).body["problems"], Json::array());
        EXPECT_EQ(put("/pipelines/out", {{"settings", good}}).status, 200);
    }
    const auto told =
        post("/lint", {{"settings", {{"source", {{"outbox", "orders"}}}, {"sink", {{"type", reference}}}}}});
    EXPECT_EQ(told.body.dump().find("hunter2"), std::string::npos) << told.body;
}

TEST_F(Api, an_example_of_a_pipeline_is_a_file_that_passes_lint) {
    auto running = start_dashboard();
    const auto example = get("/sinks/null/example?outbox=parcels");
    EXPECT_EQ(example.status, 200) << example.body;
    EXPECT_EQ(example.body["pipeline"], "parcels-to-null");
    write_text(folder / "example.toml", example.body["text"].get<std::string>());
    EXPECT_EQ(run_baton({"pipelines", "lint", folder / "example.toml"}).exit_code, 0);
    EXPECT_EQ(get("/sinks/pigeon/example").status, 404);
}

}  // namespace
