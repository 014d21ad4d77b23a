// Several relays, each with its own file, seen by `baton dashboard` and by each other: what all of them
// deliver and fail at, also when one is killed and comes back.

#include "e2e/api_client.hpp"

using namespace baton;
using namespace baton::test;

namespace {

// Takes every event but those that are bad, and nothing while it is shut.
class Shop {
  public:
    explicit Shop(int port) {
        server_.Post(".*", [](const httplib::Request& request, httplib::Response& response) {
            response.status = request.body.find("bad") == std::string::npos ? 200 : 422;
        });
        server_.bind_to_port("127.0.0.1", port);
        thread_ = std::thread([this] { server_.listen_after_bind(); });
    }
    ~Shop() {
        server_.stop();
        thread_.join();
    }

  private:
    httplib::Server server_;
    std::thread thread_;
};

class SeveralRelays : public Api {
  protected:
    SeveralRelays() {
        write_relay("first", "type = \"file\"\npath = \"" + (folder / "events").string() + "\"\n");
        write_relay("second", "type = \"http\"\nallow_private = true\nurl = \"http://127.0.0.1:" +
                                  std::to_string(shop_port) +
                                  "/\"\n[pipeline.failure]\nattempts = 1\nmax_attempts = 1\n");
    }
    void write_relay(const std::string& name, const std::string& sink) const {
        write_text(folder / (name + ".toml"), "[[pipeline]]\nname = \"" + name +
                                                  "\"\n[pipeline.source]\noutbox = \"orders\"\nlease = "
                                                  "\"2s\"\n[pipeline.sink]\n" +
                                                  sink);
    }
    Process start_relay(const std::string& name, std::vector<std::string> more = {}) {
        std::vector<std::string> words{"relay", "--db", url, "--config",
                                       (folder / (name + ".toml")).string()};
        words.insert(words.end(), more.begin(), more.end());
        return start_baton(words, folder / (name + ".out"), folder / (name + ".log"));
    }
    void publish(int events, const std::string& what = "good") {
        admin.query(
            "select baton.publish('orders', 'order.changed', to_jsonb($2 || n), aggregate_id => n::text) "
            "from generate_series(1, $1::int) n",
            {events, what});
    }
    // A pipeline as its relay noted it; null when no relay did.
    Json running(const std::string& pipeline) const {
        const auto answer = get("/relays").body;
        for (const auto& one : answer["items"])
            if (one["pipeline"] == pipeline) return one;
        return nullptr;
    }
    Json of(const std::string& pipeline, const char* what) const {
        const auto found = running(pipeline);
        return found.is_object() ? found[what] : Json();
    }
    void wait_for_delivered(const std::string& pipeline, int events) const {
        wait_until(pipeline + " has delivered " + std::to_string(events) + " events",
                   [&] { return of(pipeline, "delivered") == events; });
    }
    static bool any_above(const Json& values, double bound) {
        return std::any_of(values.begin(), values.end(),
                           [&](const auto& value) { return value.is_number() && value > bound; });
    }

    int shop_port = find_free_port();
    Shop shop{shop_port};
};

}  // namespace

TEST_F(SeveralRelays, are_summed_on_the_overview_of_a_dashboard_without_a_relay) {
    auto dashboard = start_dashboard(url);
    auto first = start_relay("first");
    auto second = start_relay("second");
    wait_until("both are known",
               [&] { return running("first").is_object() && running("second").is_object(); });
    EXPECT_NE(of("first", "relay"), of("second", "relay"));
    publish(300);
    publish(5, "bad");
    wait_for_delivered("first", 305);
    wait_for_delivered("second", 300);
    EXPECT_EQ(of("second", "failed"), 5);
    wait_until("the charts show deliveries, their times and failures of both", [&] {
        const auto history = get("/history").body;
        return any_above(history["pipelines"]["first"]["delivered"], 0) &&
               any_above(history["pipelines"]["second"]["delivered"], 0) &&
               any_above(history["series"]["delivered"], 0) && any_above(history["series"]["failed"], 0) &&
               any_above(history["series"]["p50_ms"], 0) && any_above(history["series"]["p99_ms"], 0);
    });

    // A relay that was killed is not there any more, and its numbers count no more.
    first.signal(SIGKILL);
    first.wait(std::chrono::seconds(20));
    const auto old = of("first", "relay");
    wait_until("what it noted has run out", [&] { return running("first").is_null(); });
    publish(100);
    wait_for_delivered("second", 400);
    wait_until("only the other one delivers", [&] {
        const auto history = get("/history").body;
        const auto& last = history["pipelines"]["first"]["delivered"].back();
        return last.is_null() && any_above(history["series"]["delivered"], 0);
    });

    // Another one takes its place and begins to count at zero.
    auto again = start_relay("first");
    wait_for_delivered("first", 100);
    EXPECT_NE(of("first", "relay"), old);
    wait_until("its deliveries are seen", [&] {
        const auto rates = get("/history").body["pipelines"]["first"]["delivered"];
        return !rates.empty() && rates.back().is_number() && rates.back() > 0;
    });
    const auto history = get("/history").body;
    double all = 0;
    for (const auto& rate : history["series"]["delivered"]) {
        if (!rate.is_number()) continue;
        EXPECT_GE(rate, 0);
        all += rate.get<double>() * history["step"].get<double>();
    }
    EXPECT_LT(all, 3 * (305 + 300 + 3 * 100)) << "nothing is counted again and again: " << history.dump();

    EXPECT_EQ(again.stop(), 0);
    wait_until("who ends is gone at once", [&] { return running("first").is_null(); });
    EXPECT_EQ(second.stop(), 0);
    EXPECT_EQ(dashboard.stop(), 0);
}

TEST_F(SeveralRelays, know_of_each_other_and_tell_of_themselves_once) {
    auto first = start_relay("first");
    auto second = start_relay("second", {"--listen", "127.0.0.1:" + std::to_string(port)});
    wait_until("the relay answers", [&] { return ask("/livez").status == 200; });
    publish(20);
    wait_for_delivered("first", 20);
    wait_for_delivered("second", 20);
    EXPECT_EQ(get("/relays").body["items"].size(), 2U);
    EXPECT_EQ(get("/relay").body["pipelines"].size(), 1U);
    EXPECT_EQ(first.stop(), 0);
    EXPECT_EQ(second.stop(), 0);
}

TEST_F(SeveralRelays, say_what_hinders_a_pipeline_of_their_file_and_since_when) {
    auto dashboard = start_dashboard(url);
    write_relay("second", "type = \"http\"\nallow_private = true\nurl = \"http://127.0.0.1:" +
                              std::to_string(find_free_port()) + "/\"\n");
    auto second = start_relay("second");
    publish(1);
    const auto shown = [&] { return get("/pipelines/second").body; };
    wait_until("its trouble is shown", [&] { return shown()["trouble"].is_string(); });
    const auto pipeline = shown();
    EXPECT_EQ(pipeline["kept_in"], "file");
    EXPECT_EQ(pipeline["state"], "running");
    EXPECT_TRUE(pipeline["trouble_since"].is_string());
    EXPECT_EQ(pipeline["source"], "orders");
    wait_until("its relay is named", [&] { return of("second", "relay") == pipeline["owner"]; });
    const auto words = pipeline["trouble"].get<std::string>();
    const auto says = [&](const std::vector<std::string>& command) {
        auto all = command;
        all.insert(all.end(), {"--db", url});
        return run_baton(all).output;
    };
    EXPECT_NE(says({"pipelines", "show", "second"}).find(words), std::string::npos);
    EXPECT_NE(says({"pipelines", "list"}).find("second is in trouble"), std::string::npos);
    EXPECT_EQ(second.stop(), 0);
    wait_until("with the relay its pipeline has gone",
               [&] { return get("/pipelines/second").status == 404; });
    EXPECT_EQ(dashboard.stop(), 0);
}
