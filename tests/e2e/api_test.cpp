// The HTTP API of the real program, on a real server.

#include "e2e/api_client.hpp"
#include "operations/catalog.hpp"
#include "server/endpoints.hpp"
#include "support/drip.hpp"

using namespace baton;
using namespace baton::test;

namespace {

// The blocks of a page that are marked as sh, one after the other.
std::string shell_of(const std::filesystem::path& page) {
    std::istringstream lines(read_text(page));
    std::string shell;
    bool inside = false;
    for (std::string line; std::getline(lines, line);) {
        if (line == "```sh" || line == "```")
            inside = line == "```sh";
        else if (inside)
            shell += line + "\n";
    }
    return shell;
}

}  // namespace

TEST_F(Api, the_dashboard_says_its_address_and_answers) {
    auto running = start_dashboard();
    wait_until("the address is printed", [&] { return !read_text(folder / "out").empty(); });
    EXPECT_EQ(read_text(folder / "out"), "http://127.0.0.1:" + std::to_string(port) + "/\n");
    const auto overview = get("/overview");
    EXPECT_EQ(overview.status, 200);
    EXPECT_EQ(overview.body["totals"]["outboxes"], 1);
    EXPECT_EQ(running.stop(), 0);
}

// A session that the server keeps for the API would grow by each question, as what was compiled is never
// forgotten.
TEST_F(Api, no_question_is_compiled_by_the_server) {
    admin.exec("alter database " + admin.escape_identifier(admin.value("select current_database()")) +
               " set jit_above_cost = 50");
    auto running = start_dashboard();
    for (const char* path : {"/overview", "/outboxes", "/groups", "/pipelines", "/inboxes", "/jobs",
                             "/doctor", "/stream-tables"})
        EXPECT_EQ(get(path).status, 200) << path;
    const auto sessions = admin.query(
        "select pid from pg_stat_activity where datname = current_database() and application_name = 'baton "
        "api'");
    ASSERT_GT(sessions.rows(), 0);
    for (int i = 0; i < sessions.rows(); ++i) {
        const std::string loaded = read_text("/proc/" + sessions.text(i, 0) + "/maps");
        EXPECT_NE(loaded.find("postgres"), std::string::npos);
        EXPECT_EQ(loaded.find("llvmjit"), std::string::npos) << "a question was compiled";
    }
    // as a session does that is not told otherwise
    Connection other(url);
    other.query("select count(*) from pg_attribute");
    EXPECT_NE(read_text("/proc/" + std::to_string(other.backend_pid()) + "/maps").find("llvmjit"),
              std::string::npos);
    EXPECT_EQ(running.stop(), 0);
}

TEST_F(Api, beyond_loopback_nothing_is_served_without_a_token) {
    const auto ran = run_baton({"dashboard", "--db", url, "--listen", "0.0.0.0:" + std::to_string(port)});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("there is no token"), std::string::npos) << ran.errors;
    EXPECT_NE(ran.errors.find("hint: set BATON_API_TOKEN"), std::string::npos) << ran.errors;
}

TEST_F(Api, beyond_loopback_looking_needs_a_token) {
    auto running = start_baton({"dashboard", "--db", url, "--listen", "0.0.0.0:" + std::to_string(port),
                                "--token-file", (folder / "tokens").string()},
                               folder / "out", folder / "log");
    wait_until("it listens", [&] { return ask("/livez").status == 200; });
    EXPECT_EQ(get("/overview").status, 401);
    EXPECT_EQ(get("/live").status, 401);
    EXPECT_EQ(get("/overview", token(vics_token)).status, 200);
    EXPECT_EQ(get("/session").body,
              Json({{"name", nullptr}, {"right", "none"}, {"tokens", true}, {"csrf", nullptr}}));
}

TEST_F(Api, every_operation_that_looks_answers_in_its_shape) {
    make_dead_letters();
    admin.exec(
        "select baton.create_inbox('payments'); "
        "select baton.enable_inbox_ordering('payments', sequence_num_col => 'sequence_num'); "
        "create table sales (product int, amount int); "
        "select baton.create_stream_table('totals', 'select product, sum(amount) as amount from sales group "
        "by "
        "product', refresh_mode => 'FULL'); "
        "select baton.set_pipeline('out', '{\"source\": {\"outbox\": \"orders\"}, \"sink\": {\"type\": "
        "\"stdout\"}}')");
    auto running = start_dashboard();
    const std::map<std::string, std::string> known{
        {"{outbox}", "orders"},        {"{group}", "billing"}, {"{inbox}", "payments"},
        {"{stream_table}", "totals"},  {"{pipeline}", "out"},  {"{letter}", "1"},
        {"{event}", "1?outbox=orders"}};
    for (const auto& operation : operations::catalog()) {
        if (operation.right != operations::Right::view) continue;
        std::string path = operation.path;
        for (const auto& [place, name] : known)
            if (const auto at = path.find(place); at != std::string::npos)
                path.replace(at, place.size(), name);
        const auto answer = get(path, token(vics_token));
        ASSERT_EQ(answer.status, 200) << operation.name << " " << answer.body;
        const Json one = operation.answer == operations::Answer::one ? answer.body
                         : answer.body["items"].empty()              ? Json()
                                                                     : answer.body["items"][0];
        if (one.is_null()) continue;
        for (const auto& field : operation.shape)
            EXPECT_TRUE(one.contains(field.name)) << operation.name << " " << field.name;
    }
}

TEST_F(Api, pages_follow_one_another) {
    admin.exec("select baton.publish('orders', 'a', to_jsonb(n)) from generate_series(1, 25) n");
    auto running = start_dashboard();
    std::vector<int> seen;
    std::string after;
    for (int pages = 0; pages < 10; ++pages) {
        const auto page = get("/outboxes/orders/events?limit=10" + (after.empty() ? "" : "&after=" + after));
        for (const auto& item : page.body["items"]) seen.push_back(item["payload"]);
        if (page.body["next"].is_null()) break;
        after = page.body["next"];
    }
    ASSERT_EQ(seen.size(), 25U);
    EXPECT_EQ(seen.front(), 25);
    EXPECT_EQ(seen.back(), 1);
    EXPECT_EQ(get("/outboxes/orders/events?limit=1001").status, 400);
    EXPECT_EQ(get("/outboxes/orders/events?limit=0").status, 400);
}

TEST_F(Api, a_page_of_large_items_ends_early_and_goes_on) {
    admin.exec(
        "select baton.publish('orders', 'a', to_jsonb(repeat('x', 1000000))) from generate_series(1, 20)");
    auto running = start_dashboard();
    std::size_t seen = 0;
    std::string after;
    for (int pages = 0; pages < 10; ++pages) {
        const auto page = get("/outboxes/orders/events" + (after.empty() ? "" : "?after=" + after));
        ASSERT_EQ(page.status, 200);
        EXPECT_LE(page.body["items"].size(), 8U);
        seen += page.body["items"].size();
        if (page.body["next"].is_null()) break;
        after = page.body["next"];
    }
    EXPECT_EQ(seen, 20U);
}

TEST_F(Api, changes_need_an_operators_token) {
    make_dead_letters();
    auto running = start_dashboard();
    const Json letters{{"letters", {"1"}}};
    const auto nobody = post("/dead-letters/replay", letters, {});
    EXPECT_EQ(nobody.status, 401);
    EXPECT_EQ(nobody.headers.find("WWW-Authenticate")->second, "Bearer realm=\"baton\"");
    EXPECT_EQ(post("/dead-letters/replay", letters, token("a-wrong-token-012")).status, 401);
    const auto viewer = post("/dead-letters/replay", letters, token(vics_token));
    EXPECT_EQ(viewer.status, 403);
    EXPECT_EQ(viewer.headers.find("Content-Type")->second, "application/problem+json");
    EXPECT_EQ(viewer.body["title"], "vic may look, and may not change anything");
    EXPECT_EQ(admin.value("select count(*) from baton.dead_letters"), "3");
    EXPECT_EQ(post("/dead-letters/replay", letters).body, Json({{"replayed", 1}}));
    EXPECT_EQ(admin.value("select count(*) from baton.dead_letters"), "2");
}

TEST_F(Api, without_any_token_nothing_can_be_changed_and_the_hint_says_how) {
    auto running = start_dashboard(url);
    const auto refused = post("/groups/billing/seek", {{"place", "end"}}, {});
    EXPECT_EQ(refused.status, 401);
    EXPECT_NE(refused.body["hint"].get<std::string>().find("BATON_API_TOKEN"), std::string::npos);
    EXPECT_EQ(get("/session").body["tokens"], false);
    EXPECT_EQ(get("/groups").status, 200);
}

// Every operation that changes something is called here. A new one has to join.
TEST_F(Api, every_change_stands_in_the_audit_trail_with_who_made_it) {
    make_dead_letters();
    admin.exec(
        "select baton.create_inbox('payments'); "
        "select baton.enable_inbox_ordering('payments', sequence_num_col => 'sequence_num'); "
        "create table sales (product int, amount int); "
        "select baton.create_stream_table('totals', 'select product, sum(amount) as amount from sales group "
        "by "
        "product', refresh_mode => 'FULL')");
    auto running = start_dashboard();
    const Json none = Json::object();
    const Json pipeline{{"source", {{"outbox", "orders"}}}, {"sink", {{"type", "stdout"}}}};
    struct Change {
        std::string operation;
        std::string action;  // what the trail calls it
        std::string path;
        Json body;
    };
    const std::vector<Change> changes{
        {"set_pipeline", "set_pipeline", "/pipelines/out", {{"settings", pipeline}}},
        {"disable_pipeline", "disable_pipeline", "/pipelines/out/disable", none},
        {"enable_pipeline", "enable_pipeline", "/pipelines/out/enable", none},
        {"delete_pipeline", "delete_pipeline", "/pipelines/out", none},
        {"publish", "publish", "/outboxes/orders/events", {{"event_type", "a"}, {"payload", 1}}},
        {"edit_dead_letter", "edit_dead_letter", "/dead-letters/1", {{"payload", {{"n", 100}}}}},
        {"replay_dead_letters", "replay_dead_letter", "/dead-letters/replay", {{"letters", {"1"}}}},
        {"discard_dead_letters",
         "discard_dead_letter",
         "/dead-letters/discard",
         {{"letters", {"2"}}, {"reason", "a test"}}},
        {"seek", "seek_offset", "/groups/billing/seek", {{"place", "end"}}},
        {"skip",
         "advance_inbox_sequence",
         "/inboxes/payments/skip",
         {{"aggregate", "a"}, {"to_sequence", 3}}},
        {"set_setting", "set_setting", "/settings/outbox_retention_hours", {{"value", "48"}}},
        {"refresh_stream_table", "refresh_stream_table", "/stream-tables/totals/refresh", none},
        {"repair_stream_table", "repair_stream_table", "/stream-tables/totals/repair", none},
        {"verify_stream_table", "verify_stream_table", "/stream-tables/totals/verify", none},
        {"pause_stream_table", "alter_stream_table", "/stream-tables/totals/pause", none},
        {"resume_stream_table", "alter_stream_table", "/stream-tables/totals/resume", none}};
    std::set<std::string> called;
    for (const auto& [name, action, path, body] : changes) {
        const auto& operation = operations::find(name);
        called.insert(name);
        const std::string before = admin.value("select coalesce(max(entry_id), 0) from baton.audit_trail");
        const auto answer = operation.method == "PUT" ? put(path, body)
                            : operation.method == "POST"
                                ? post(path, body)
                                : said(client().Delete("/api/v1" + path, token(anns_token)));
        ASSERT_EQ(answer.status, 200) << name << " " << answer.body;
        EXPECT_EQ(
            admin.value(
                "select string_agg(action || ' ' || coalesce(details ->> 'acting_for', 'nobody'), ', ') "
                "from baton.audit_trail where entry_id > " +
                before),
            action + " ann by api")
            << name;
    }
    for (const auto& endpoint : server::endpoints()) {
        const auto& operation = endpoint.operation;
        // of the server, not of the database; and one that changes nothing, and is for operators only
        if (operation.path == "/session" || operation.name == "lint_pipeline") continue;
        EXPECT_EQ(operation.method == "GET", operation.right == operations::Right::view) << operation.name;
        EXPECT_EQ(operation.right == operations::Right::operate, called.contains(operation.name))
            << operation.name;
    }
    const auto trail = get("/audit", token(vics_token));
    EXPECT_EQ(trail.body["items"][0]["acting_for"], "ann by api");
    EXPECT_EQ(trail.body["items"][0]["object"], "public.totals");
}

TEST_F(Api, a_session_is_opened_with_a_token_used_with_its_csrf_and_closed) {
    make_dead_letters();
    auto running = start_dashboard();
    EXPECT_EQ(post("/session", {{"token", "a-wrong-token-012"}}, {}).status, 401);
    const auto opened = post("/session", {{"token", anns_token}}, {});
    ASSERT_EQ(opened.status, 200) << opened.body;
    EXPECT_EQ(opened.body["name"], "ann");
    EXPECT_EQ(opened.body["right"], "operate");
    const std::string cookie = opened.headers.find("Set-Cookie")->second;
    for (const char* rule : {"HttpOnly", "SameSite=Strict", "Path=/"})
        EXPECT_NE(cookie.find(rule), std::string::npos) << rule;
    httplib::Headers session{{"Cookie", cookie.substr(0, cookie.find(';'))}};
    EXPECT_EQ(get("/session", session).body["csrf"], opened.body["csrf"]);
    const Json letters{{"letters", {"1"}}};
    EXPECT_EQ(post("/dead-letters/replay", letters, session).status, 403);
    session.emplace("X-Baton-CSRF", opened.body["csrf"].get<std::string>());
    EXPECT_EQ(post("/dead-letters/replay", letters, session).status, 200);
    EXPECT_EQ(
        admin.value("select details ->> 'acting_for' from baton.audit_trail order by entry_id desc limit 1"),
        "ann by dashboard");
    auto elsewhere = session;
    elsewhere.emplace("Origin", "http://evil.example");
    EXPECT_EQ(post("/dead-letters/replay", letters, elsewhere).status, 403);
    EXPECT_EQ(said(client().Delete("/api/v1/session", session)).status, 200);
    EXPECT_EQ(get("/session", session).body["name"], nullptr);
    EXPECT_EQ(post("/dead-letters/replay", {{"letters", {"2"}}}, session).status, 401);
}

TEST_F(Api, a_token_that_is_exchanged_in_its_file_holds_without_a_restart) {
    auto running = start_dashboard();
    EXPECT_EQ(get("/session", token(anns_token)).body["name"], "ann");
    write_text(folder / "tokens", "ann operator another-token-of-ann\n");
    wait_until("the new token holds",
               [&] { return get("/session", token("another-token-of-ann")).status == 200; });
    EXPECT_EQ(get("/session", token(anns_token)).status, 401);
}

TEST_F(Api, a_page_of_another_site_and_a_foreign_name_get_nothing) {
    auto running = start_dashboard(url);
    EXPECT_EQ(get("/overview", {{"Host", "evil.example:" + std::to_string(port)}}).status, 401);
    EXPECT_EQ(get("/overview", {{"Sec-Fetch-Site", "cross-site"}}).status, 403);
    EXPECT_EQ(get("/overview", {{"Origin", "http://evil.example"}}).status, 403);
    EXPECT_EQ(get("/overview", {{"X-Forwarded-For", "10.0.0.1"}}).status, 401);
}

TEST_F(Api, the_description_is_served_and_pages_are_safe) {
    auto running = start_dashboard();
    EXPECT_EQ(get("/openapi.json").body, Json::parse(read_text(BATON_SOURCE "/docs/openapi.json")));
    for (const char* path : {"/", "/outboxes/orders", "/api/v1/overview", "/api/v1/nothing"}) {
        const auto answer = ask(path);
        EXPECT_NE(answer.headers.find("Content-Security-Policy")->second.find("default-src 'none'"),
                  std::string::npos);
        EXPECT_EQ(answer.headers.find("X-Content-Type-Options")->second, "nosniff") << path;
    }
}

TEST_F(Api, what_is_not_there_cannot_be_or_is_refused_has_its_own_status) {
    auto running = start_dashboard();
    EXPECT_EQ(get("/outboxes/nothing").status, 404);
    EXPECT_EQ(get("/outboxes/nothing/events").status, 404);
    EXPECT_EQ(get("/events/00000000-0000-0000-0000-000000000000").status, 404);
    EXPECT_EQ(get("/outboxes/orders/events?since=yesterdayish").status, 400);
    EXPECT_EQ(get("/outboxes/orders/events?nobody=1").status, 400);
    for (const char* page : {"/outboxes/orders/events", "/outboxes/orders/tail", "/dead-letters"})
        for (const char* limit : {"0", "1001"})
            EXPECT_EQ(get(std::string(page) + "?limit=" + limit).status, 400) << page << " " << limit;
    const auto refused = put("/settings/nothing", {{"value", "1"}});
    EXPECT_GE(refused.status, 400);
    EXPECT_LT(refused.status, 500);
    EXPECT_TRUE(refused.body.contains("sqlstate")) << refused.body;
}

TEST_F(Api, no_body_ends_the_program_or_keeps_it_busy_however_deep_or_wide) {
    auto running = start_dashboard();
    const auto send = [&](const char* path, const std::string& body) {
        return said(
            client().Post("/api/v1" + std::string(path), token(anns_token), body, "application/json"));
    };
    constexpr std::size_t depth = 400'000;
    const auto deep = "{\"letters\": " + std::string(depth, '[') + std::string(depth, ']') + "}";
    EXPECT_EQ(send("/dead-letters/replay", deep).status, 400);
    EXPECT_EQ(send("/session", deep).status, 400);
    EXPECT_EQ(send("/dead-letters/replay", "{\"letters\": [1]}").status, 400);
    EXPECT_EQ(send("/dead-letters/replay", " \n").status, 400);
    std::string wide = "{\"n\": 0";
    for (int i = 0; i < 80'000; ++i) wide += ", \"n" + std::to_string(i) + "\": 0";
    EXPECT_EQ(send("/session", wide + "}").status, 400);
    EXPECT_EQ(send("/dead-letters/replay", wide + "}").status, 400);
    EXPECT_EQ(get("/overview").status, 200);
    EXPECT_EQ(running.stop(), 0);
}

TEST_F(Api, the_walk_in_the_docs_can_be_walked) {
    make_dead_letters();
    std::string shell = shell_of(BATON_SOURCE "/docs/api.md");
    ASSERT_NE(shell.find("/dead-letters/replay"), std::string::npos);
    for (std::size_t at = 0; (at = shell.find("8390", at)) != std::string::npos;)
        shell.replace(at, 4, std::to_string(port));
    // What is left running would hold its output open.
    const std::string before = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nexport PATH=\"" +
                               program_file().parent_path().string() + ":$PATH\" BATON_DB=\"" + url + "\"\n";
    const Command command{{"bash", "-euc", before + shell + "wait\n"}};
    const auto ran = run_separately(command);
    EXPECT_EQ(ran.exit_code, 0) << ran.output << ran.errors;
    EXPECT_NE(ran.output.find("operator by api replay_dead_letter"), std::string::npos) << ran.output;
    EXPECT_NE(ran.output.find("operator by api publish"), std::string::npos) << ran.output;
    EXPECT_NE(ran.output.find("event: tick"), std::string::npos) << ran.output;
    EXPECT_EQ(admin.value("select payload from baton.search_events('orders', most => 1)"),
              "{\"total\": 12.50}");
}
