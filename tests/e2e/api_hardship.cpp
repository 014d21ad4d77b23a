// The API in bad company: a database that says nothing, clients that ask for too much, input that is none.

#include <future>

#include "e2e/api_client.hpp"
#include "support/drip.hpp"
#include "support/proxy.hpp"

using namespace baton;
using namespace baton::test;

namespace {

// Reads a stream of server-sent events, on a thread of its own.
class Follower {
  public:
    Follower(int port, const std::string& path) : http_("127.0.0.1", port) {
        http_.set_read_timeout(std::chrono::seconds(60));
        thread_ = std::thread([this, path] {
            http_.Get(path, [this](const char* bytes, std::size_t size) {
                const std::lock_guard lock(mutex_);
                heard_.append(bytes, size);
                return !ended_;
            });
        });
    }
    ~Follower() {
        {
            const std::lock_guard lock(mutex_);
            ended_ = true;
        }
        http_.stop();
        thread_.join();
    }
    std::string heard() const {
        const std::lock_guard lock(mutex_);
        return heard_;
    }
    // The data of the last event of this name; null when there was none.
    Json last(const std::string& event) const {
        const std::string all = heard();
        const std::string head = "event: " + event + "\ndata: ";
        for (auto at = all.rfind(head); at != std::string::npos;
             at = at == 0 ? std::string::npos : all.rfind(head, at - 1)) {
            const auto begin = at + head.size();
            if (const auto end = all.find("\n\n", begin); end != std::string::npos)
                return Json::parse(all.substr(begin, end - begin));
        }
        return nullptr;
    }

  private:
    httplib::Client http_;
    mutable std::mutex mutex_;
    std::string heard_;
    bool ended_ = false;
    std::thread thread_;
};

class Hardship : public Api {
  protected:
    Proxy proxy{cluster.server().port()};
    std::string proxied = cluster.tcp_url(url, proxy.port());

    void write_relay(const std::string& more = {}) const {
        std::ofstream(folder / "relay.toml")
            << more << "[[pipeline]]\nname = \"out\"\n[pipeline.source]\noutbox = \"orders\"\n"
            << "[pipeline.sink]\ntype = \"file\"\npath = \"" << (folder / "out.jsonl").string() << "\"\n";
    }
    Process start_relay(const std::string& db) {
        auto relay =
            start_baton({"relay", "--db", db, "--config", (folder / "relay.toml").string(), "--listen",
                         "127.0.0.1:" + std::to_string(port), "--token-file", (folder / "tokens").string()},
                        folder / "out", folder / "log");
        wait_until("the relay is ready", [&] { return ask("/readyz").status == 200; });
        return relay;
    }
    long long connections() {
        return admin
            .query(
                "select count(*) from pg_stat_activity where datname = current_database() and "
                "application_name like 'baton api%'")
            .number(0, 0);
    }
    std::string raw(const std::string& request) const {
        RawConnection connection(port);
        connection.send(request);
        return connection.hear("\r\n\r\n");
    }
};

}  // namespace

TEST_F(Hardship, ticks_tell_of_the_database_and_alerts_are_heard) {
    auto running = start_dashboard();
    const Follower page(port, "/api/v1/live");
    wait_until("a tick has the overview", [&] {
        const auto tick = page.last("tick");
        return tick.is_object() && tick["overview"].is_object();
    });
    EXPECT_EQ(page.last("tick")["overview"]["totals"]["outboxes"], 1);
    EXPECT_EQ(page.last("tick")["relay"]["name"], nullptr);
    admin.exec("select baton.publish('orders', 'a', '1')");
    wait_until("a tick shows the lag", [&] { return page.last("tick")["sample"]["lag_events"] == 1; });
    admin.exec("select baton_internal.alert('a_test', 'orders', '{\"n\": 1}')");
    wait_until("the alert is heard", [&] { return page.last("alert").is_object(); });
    EXPECT_EQ(page.last("alert")["event"], "a_test");
    EXPECT_EQ(page.last("alert")["detail"], Json({{"n", 1}}));
    admin.exec("select pg_notify('baton_alert', 'no alert at all')");
    wait_until("words are heard too", [&] { return get("/alerts").body["items"].size() == 2; });
    const auto alerts = get("/alerts").body["items"];
    EXPECT_EQ(alerts[0]["detail"]["text"], "no alert at all");
    EXPECT_EQ(alerts[1]["object"], "orders");
}

TEST_F(Hardship, a_relay_shows_its_pipelines_and_the_past) {
    write_relay();
    auto relay = start_relay(url);
    admin.exec(
        "select baton.publish('orders', 'a', to_jsonb(n), aggregate_id => n::text) from generate_series(1, "
        "50) n");
    wait_until("the events are delivered",
               [&] { return get("/relay").body["pipelines"][0]["delivered"] == 50; });
    const auto shown = get("/relay").body;
    EXPECT_EQ(shown["ready"], true);
    EXPECT_EQ(shown["pipelines"][0]["pipeline"], "out");
    EXPECT_EQ(shown["pipelines"][0]["state"], "running");
    wait_until("the history has them", [&] {
        auto history = get("/history").body;
        const auto& rates = history["pipelines"]["out"]["delivered"];
        return std::any_of(rates.begin(), rates.end(),
                           [](const auto& rate) { return rate.is_number() && rate > 0; });
    });
    const auto history = get("/history").body;
    EXPECT_EQ(history["step"], 10);
    EXPECT_EQ(history["times"].size(), history["series"]["delivered"].size());
    const auto& latencies = history["series"]["p99_ms"];
    EXPECT_TRUE(
        std::any_of(latencies.begin(), latencies.end(), [](const auto& one) { return one.is_number(); }));
    EXPECT_EQ(get("/pipelines/out/render").status, 200);
    EXPECT_EQ(relay.stop(std::chrono::seconds(60)), 0);
}

TEST_F(Hardship, a_relay_may_leave_the_api_out) {
    write_relay("[server]\napi = false\n");
    auto relay = start_relay(url);
    EXPECT_EQ(ask("/api/v1/overview").status, 404);
    EXPECT_EQ(ask("/metrics").status, 200);
    EXPECT_EQ(relay.stop(std::chrono::seconds(60)), 0);
}

TEST_F(Hardship, a_database_that_says_nothing_keeps_nobody_waiting) {
    write_relay();
    auto relay = start_relay(proxied);
    EXPECT_EQ(get("/overview").status, 200);
    const Follower page(port, "/api/v1/live");
    wait_until("the page is told", [&] { return page.last("tick").is_object(); });
    proxy.freeze();
    std::vector<std::future<Said>> asked;
    for (int i = 0; i < 30; ++i)
        asked.push_back(std::async(std::launch::async, [this] { return get("/outboxes"); }));
    for (const char* path : {"/livez", "/metrics"}) EXPECT_EQ(ask(path).status, 200) << path;
    for (auto& one : asked) {
        const auto answer = one.get();
        EXPECT_EQ(answer.status, 503) << answer.body;
        EXPECT_TRUE(answer.headers.contains("Retry-After"));
    }
    wait_until("the page is told", [&] { return page.last("tick")["database"]["answers"] == false; });
    EXPECT_EQ(page.last("tick")["overview"], nullptr);
    EXPECT_EQ(get("/outboxes").status, 503);
    EXPECT_EQ(get("/history").status, 200);
    EXPECT_EQ(get("/relay").status, 200);
    EXPECT_EQ(ask("/readyz").status, 503);
    proxy.thaw();
    wait_until("everything is well again", [&] { return get("/outboxes").status == 200; });
    wait_until("the page is told", [&] { return page.last("tick")["database"]["answers"] == true; });
    EXPECT_EQ(relay.stop(std::chrono::seconds(60)), 0);
}

TEST_F(Hardship, a_frozen_database_does_not_keep_the_dashboard_from_ending) {
    auto running = start_dashboard(proxied);
    EXPECT_EQ(get("/overview").status, 200);
    proxy.freeze();
    auto asked = std::async(std::launch::async, [this] { return get("/outboxes"); });
    running.signal(SIGTERM);
    EXPECT_EQ(running.wait(std::chrono::seconds(60)), 0);
    asked.wait();
}

TEST_F(Hardship, however_many_ask_there_are_never_more_connections_than_allowed) {
    auto running = start_dashboard(url, {"--connections", "3"});
    std::atomic<bool> over = false;
    std::vector<std::future<int>> askers;
    for (int i = 0; i < 20; ++i)
        askers.push_back(std::async(std::launch::async, [&] {
            int good = 0;
            while (!over)
                if (get("/doctor").status == 200) ++good;
            return good;
        }));
    long long most = 0;
    for (int looks = 0; looks < 100; ++looks) most = std::max(most, connections());
    over = true;
    int good = 0;
    for (auto& asker : askers) good += asker.get();
    EXPECT_LE(most, 3);
    EXPECT_GE(most, 2);
    EXPECT_GT(good, 0);
}

TEST_F(Hardship, long_work_never_has_the_last_connection) {
    admin.exec(
        "create table sales (product int); insert into sales values (1); "
        "select baton.create_stream_table('totals', 'select product from sales', refresh_mode => 'FULL')");
    auto running = start_dashboard(url, {"--connections", "3", "--token-file", (folder / "tokens").string()});
    Connection locker(url);
    const Transaction locked(locker);
    locker.exec("lock table totals");
    std::vector<std::future<Said>> waiting;
    for (int i = 0; i < 5; ++i)
        waiting.push_back(std::async(
            std::launch::async, [this] { return post("/stream-tables/totals/refresh", Json::object()); }));
    wait_until("a refresh waits", [&] {
        return admin.value(
                   "select count(*) from pg_stat_activity where application_name = 'baton api' and "
                   "datname = current_database() and wait_event_type = 'Lock'") != "0";
    });
    for (int i = 0; i < 5; ++i) EXPECT_EQ(get("/groups").status, 200);
    locker.exec("rollback");
    for (auto& one : waiting) {
        const auto status = one.get().status;
        EXPECT_TRUE(status == 200 || status == 503 || status == 409) << status;
    }
}

TEST_F(Hardship, streams_are_bounded_and_take_no_threads) {
    auto running = start_dashboard();
    std::vector<RawConnection> pages;
    for (int i = 0; i < 32; ++i) {
        pages.emplace_back(port).send("GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
        EXPECT_NE(pages.back().hear("event: tick").find("event: tick"), std::string::npos);
    }
    EXPECT_EQ(get("/live").status, 503);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(get("/overview").status, 200);
    pages.clear();
    wait_until("their places are free", [&] {
        RawConnection page(port);
        page.send("GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
        return page.hear("\r\n\r\n").find("200 OK") != std::string::npos;
    });
}

TEST_F(Hardship, requests_that_never_end_hold_up_nobody) {
    auto running = start_dashboard();
    const Dripping drip(port, 60);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(ask("/livez").status, 200);
}

TEST_F(Hardship, a_body_that_is_too_large_no_json_or_no_body_is_refused) {
    auto running = start_dashboard();
    const auto send = [&](const std::string& body, const char* type) {
        return said(client().Post("/api/v1/outboxes/orders/events", token(anns_token), body, type));
    };
    EXPECT_EQ(
        send(Json{{"event_type", "a"}, {"payload", std::string(1 << 20, 'x')}}.dump(), "application/json")
            .status,
        413);
    EXPECT_EQ(send("a=b", "application/x-www-form-urlencoded").status, 415);
    EXPECT_EQ(send("{}", "text/plain").status, 415);
    EXPECT_EQ(send("--x\r\n", "multipart/form-data; boundary=x").status, 415);
    EXPECT_EQ(send("{", "application/json").status, 400);
    EXPECT_EQ(send(std::string(100'000, '['), "application/json").status, 400);
    EXPECT_EQ(send("{\"event_type\": \"a\", \"payload\": " + std::string(50'000, '[') +
                       std::string(50'000, ']') + "}",
                   "application/json")
                  .status,
              400);
    EXPECT_EQ(send(R"({"event_type": "a\u0000b", "payload": 1})", "application/json").status, 400);
    EXPECT_EQ(send(R"({"event_type": "a", "payload": "\u0000"})", "application/json").status, 400);
    EXPECT_EQ(send(R"({"event_type": "\ud800", "payload": 1})", "application/json").status, 400);
    EXPECT_EQ(send(R"({"event_type": "a", "payload": 1, "outbox": "other"})", "application/json").status,
              400);
    const std::string head =
        "POST /api/v1/outboxes/orders/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\nAuthorization: Bearer " +
        std::string(anns_token) + "\r\n";
    EXPECT_NE(raw(head + "\r\n").find(" 400 "), std::string::npos);  // without a length there is no body
    EXPECT_NE(raw(head + "Content-Length: 99999999\r\n\r\n{}").find(" 413 "), std::string::npos);
    EXPECT_EQ(admin.value("select count(*) from orders"), "0");
}

TEST_F(Hardship, hostile_addresses_and_headers_get_an_answer_that_is_no_server_error) {
    auto running = start_dashboard();
    const std::vector<std::string> lines{
        "GET /api/v1/outboxes/' OR 1=1-- HTTP/1.1",
        "GET /api/v1/outboxes/%27%3Bdrop%20table%20orders%3B-- HTTP/1.1",
        "GET /api/v1/outboxes/orders/events?key=%27%22%00 HTTP/1.1",
        "GET /api/v1/../../etc/passwd HTTP/1.1",
        "GET /..%2f..%2fetc/passwd HTTP/1.1",
        "GET /api/v1/outboxes/" + std::string(5000, 'a') + " HTTP/1.1",
        "GET /api/v1/outboxes/" + std::string(20'000, 'a') + " HTTP/1.1",
        "GET /api/v1/outboxes?limit=" + std::string(3000, '9') + " HTTP/1.1",
        "GET /api/v1/history?since=9223372036854775807&step=86400 HTTP/1.1",
        "GET /api/v1/history?since=-1 HTTP/1.1",
        "GET /api/v1/outboxes/orders/events?after=99999999999999999999 HTTP/1.1",
        "GET /api/v1/overview HTTP/9.9",
        "BREW /api/v1/overview HTTP/1.1",
        "TRACE /api/v1/overview HTTP/1.1",
        "OPTIONS /api/v1/overview HTTP/1.1",
        "GET /api/v1/overview?\xff\xfe HTTP/1.1"};
    for (const auto& line : lines) {
        const std::string answer = raw(line + "\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        ASSERT_TRUE(answer.starts_with("HTTP/1.1 ")) << line << "\n" << answer;
        EXPECT_NE(answer[9], '5') << line << "\n" << answer;
        EXPECT_EQ(answer.find("root:"), std::string::npos);
    }
    const std::string many =
        raw("GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-,0-,0-,0-,0-\r\n\r\n");
    EXPECT_NE(many.find(" 200 "), std::string::npos) << many;
    EXPECT_EQ(admin.value("select count(*) from baton.outboxes"), "1");
}

TEST_F(Hardship, names_that_look_like_code_stay_names) {
    admin.exec("select baton.create_outbox('\"<script>alert(1)</script>\"')");
    auto running = start_dashboard();
    const auto listed = get("/outboxes");
    EXPECT_EQ(listed.status, 200);
    const auto shown = get("/outboxes/%22%3Cscript%3Ealert(1)%3C%2Fscript%3E%22");
    EXPECT_EQ(shown.status, 200) << shown.body;
    EXPECT_EQ(shown.headers.find("Content-Type")->second, "application/json");
}
