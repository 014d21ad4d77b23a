// What the program tells of its API: in its log, and on /metrics.

#include "api_client.hpp"

using namespace baton;
using namespace baton::test;

TEST_F(Api, wrong_tokens_are_told_without_the_token) {
    auto running = start_dashboard();
    EXPECT_EQ(get("/overview", token("not-anns-token-0123")).status, 401);
    EXPECT_EQ(post("/session", {{"token", "nor-vics-token-0123"}}, {}).status, 401);
    EXPECT_EQ(put("/settings/outbox_enabled", {{"value", "on"}}, {}).status, 401) << "it has none";
    EXPECT_EQ(get("/overview", token(anns_token)).status, 200);
    const std::string words = "a request from 127.0.0.1 had a wrong token\n", log = read_text(folder / "log");
    EXPECT_NE(log.find(words + "baton: " + words), std::string::npos) << log;
    EXPECT_EQ(log.find(words), log.rfind(words) - words.size() - 7) << "for the two, and no other\n" << log;
    EXPECT_EQ(log.find("-token-0123"), std::string::npos) << log;
}

TEST_F(Api, a_dashboard_tells_prometheus_how_it_fares) {
    auto running = start_dashboard();
    EXPECT_EQ(get("/overview").status, 200);
    EXPECT_EQ(get("/outboxes/nothing").status, 404);
    EXPECT_EQ(get("/overview", token("not-anns-token-0123")).status, 401);
    const auto metrics = client().Get("/metrics");
    ASSERT_TRUE(metrics);
    EXPECT_EQ(metrics->status, 200);
    for (const char* line :
         {"baton_api_answers_total{status=\"2xx\"} 1\n", "baton_api_answers_total{status=\"4xx\"} 2\n",
          "baton_api_answers_total{status=\"5xx\"} 0\n", "baton_api_wrong_tokens_total 1\n",
          "baton_api_streams 0\n", "baton_dashboard_info{version=", "process_open_fds "})
        EXPECT_NE(metrics->body.find(line), std::string::npos) << line << "\n" << metrics->body;
    EXPECT_EQ(metrics->body.find("baton_build_info"), std::string::npos) << "an alert takes it for a relay";
}
