// A PostgreSQL that stops answering without closing anything: a network that carries nothing, a server that
// is paused. Nothing waits for it for ever, and nothing is sent when the lease may be somebody else's.

#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/file.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"
#include "support/proxy.hpp"

using namespace baton;
using namespace baton::test;

namespace {

constexpr auto long_time = std::chrono::seconds(60);

// Takes posts and writes down who sent them, in order of arrival. Those on /refuse get 503, those on /hold no
// answer before the end.
class Receiver {
  public:
    Receiver() {
        server_.new_task_queue = [] { return new httplib::ThreadPool(32); };
        server_.Post(".*", [this](const httplib::Request& request, httplib::Response& response) {
            std::unique_lock lock(mutex_);
            seen_.push_back({request.path, nlohmann::json::parse(request.body).at("n")});
            if (request.path == "/refuse") response.status = 503;
            if (request.path == "/hold") over_.wait(lock, [this] { return ending_; });
        });
        port_ = server_.bind_to_any_port("127.0.0.1");
        thread_ = std::thread([this] { server_.listen_after_bind(); });
        wait_until("the receiver listens", [this] { return server_.is_running(); });
    }
    ~Receiver() {
        {
            const std::lock_guard lock(mutex_);
            ending_ = true;
            over_.notify_all();
        }
        server_.stop();
        thread_.join();
    }

    std::string sink(const std::string& path) const {
        return "type = \"http\"\nurl = \"http://127.0.0.1:" + std::to_string(port_) + path +
               "\"\nallow_private = true\n";
    }
    std::vector<std::string> paths() const {
        const std::lock_guard lock(mutex_);
        std::vector<std::string> all;
        for (const auto& [path, number] : seen_) all.push_back(path);
        return all;
    }
    std::set<int> numbers(const std::string& from) const {
        const std::lock_guard lock(mutex_);
        std::set<int> all;
        for (const auto& [path, number] : seen_)
            if (path == from) all.insert(number);
        return all;
    }

  private:
    httplib::Server server_;
    std::thread thread_;
    int port_ = 0;
    mutable std::mutex mutex_;
    std::condition_variable over_;
    bool ending_ = false;
    std::vector<std::pair<std::string, int>> seen_;
};

class Frozen : public testing::TestWithParam<Form> {
  protected:
    Frozen() { admin.exec("select baton.create_outbox('orders')"); }

    void write_config(const std::string& name, const std::string& sink, const std::string& more = {}) {
        std::ofstream(folder / (name + ".toml"))
            << more
            << "[[pipeline]]\nname = \"out\"\n[pipeline.source]\noutbox = \"orders\"\nlease = \"3s\"\n"
            << "[pipeline.sink]\n"
            << sink;
    }
    Process start(const std::string& name, const std::string& db) {
        return start_baton({"relay", "--db", db, "--config", (folder / (name + ".toml")).string(), "--log",
                            "json", "--listen", "127.0.0.1:" + std::to_string(port)},
                           folder / (name + ".out"), folder / (name + ".log"));
    }
    void wait_for_log(const std::string& name, const std::string& what) const {
        wait_until("the log " + name + " says: " + what,
                   [&] { return read_text(folder / (name + ".log")).find(what) != std::string::npos; });
    }
    void publish(int from, int upto) {
        for (int n = from; n <= upto; ++n)
            admin.query(
                "select baton.publish('orders', 'order.changed', jsonb_build_object('n', $1::int), "
                "aggregate_id => 'k')",
                {n});
    }
    void wait_for_numbers(const std::string& path, int upto) const {
        wait_until(path + " has events up to " + std::to_string(upto),
                   [&] { return receiver.numbers(path).contains(upto); });
    }
    std::pair<int, std::string> ask(const char* path) const {
        httplib::Client http("127.0.0.1", port);
        http.set_read_timeout(long_time);
        const auto answer = http.Get(path);
        return answer ? std::pair(answer->status, answer->body) : std::pair(0, std::string("no answer"));
    }

    Cluster& cluster = shared_cluster(GetParam());
    TemporaryFolder folder;
    std::string url = cluster.fresh_database();
    Connection admin{url};
    Proxy proxy{cluster.server().port()};
    std::string proxied = cluster.tcp_url(url, proxy.port());
    Receiver receiver;
    int port = find_free_port();
};

}  // namespace

TEST_P(Frozen, an_owner_whose_database_is_frozen_ends_its_session_and_goes_on_when_it_answers_again) {
    write_config("one", receiver.sink("/one"));
    auto relay = start("one", proxied);
    publish(1, 5);
    wait_for_numbers("/one", 5);
    proxy.freeze();
    wait_for_log("one", "pipeline tries again");
    wait_for_log("one", "the lease would run out");
    publish(6, 10);
    proxy.thaw();
    wait_for_numbers("/one", 10);
    EXPECT_EQ(relay.stop(long_time), 0);
}

TEST_P(Frozen, an_owner_whose_database_is_frozen_sends_nothing_after_its_successor_began) {
    // Its sink refuses everything, so the first owner has something to send all the time.
    write_config("one", receiver.sink("/refuse"), "[relay]\ndrain = \"1s\"\n");
    auto first = start("one", proxied);
    publish(1, 5);
    wait_until("the first owner sends", [&] { return !receiver.paths().empty(); });
    proxy.freeze();
    port = find_free_port();
    write_config("two", receiver.sink("/two"));
    auto second = start("two", url);
    wait_for_numbers("/two", 5);
    proxy.thaw();
    wait_for_log("one", "stands by");
    publish(6, 10);
    wait_for_numbers("/two", 10);
    const auto paths = receiver.paths();
    const auto successor = std::find(paths.begin(), paths.end(), "/two");
    EXPECT_EQ(std::find(successor, paths.end(), "/refuse"), paths.end());
    EXPECT_EQ(first.stop(long_time), 0);
    EXPECT_EQ(second.stop(long_time), 0);
}

TEST_P(Frozen, endpoints_answer_while_the_database_is_frozen_and_say_so) {
    write_config("one", receiver.sink("/one"));
    auto relay = start("one", proxied);
    wait_until("it is ready", [&] { return ask("/readyz").first == 200; });
    proxy.freeze();
    wait_until("it says that the database is away", [&] {
        const auto [status, words] = ask("/readyz");
        return status == 503 && words.find("database: ") != std::string::npos;
    });
    EXPECT_EQ(ask("/livez").first, 200);
    EXPECT_EQ(ask("/drained").first, 503);
    const auto metrics = ask("/metrics");
    EXPECT_EQ(metrics.first, 200);
    EXPECT_NE(metrics.second.find("\nbaton_database_up 0\n"), std::string::npos) << metrics.second;
    EXPECT_EQ(metrics.second.find("\nbaton_group_lag_events{"), std::string::npos) << metrics.second;
    wait_for_log("one", "the database does not answer");
    proxy.thaw();
    wait_until("it is ready again", [&] { return ask("/readyz").first == 200; });
    EXPECT_NE(ask("/metrics").second.find("\nbaton_database_up 1\n"), std::string::npos);
    wait_until("it tells of groups again",
               [&] { return ask("/metrics").second.find("\nbaton_group_lag_events{") != std::string::npos; });
    EXPECT_EQ(relay.stop(long_time), 0);
}

TEST_P(Frozen, sigterm_ends_a_relay_whose_database_is_frozen) {
    write_config("one", receiver.sink("/one"));
    auto relay = start("one", proxied);
    publish(1, 5);
    wait_for_numbers("/one", 5);
    proxy.freeze();
    relay.signal(SIGTERM);
    EXPECT_EQ(relay.wait(long_time), 0);
}

TEST_P(Frozen, sigterm_ends_a_relay_that_tries_to_reach_a_frozen_database) {
    write_config("one", receiver.sink("/one"));
    proxy.freeze();
    auto relay = start("one", proxied);
    wait_for_log("one", "the database does not answer");
    relay.signal(SIGTERM);
    EXPECT_EQ(relay.wait(long_time), 0);
}

TEST_P(Frozen, a_second_sigterm_ends_a_relay_at_once) {
    write_config("one", receiver.sink("/hold"), "[relay]\ndrain = \"1h\"\n");
    auto relay = start("one", url);
    publish(1, 1);
    wait_until("an event is on its way", [&] { return !receiver.paths().empty(); });
    relay.signal(SIGTERM);
    wait_for_log("one", "relay stops, draining");
    relay.signal(SIGTERM);
    EXPECT_EQ(relay.wait(long_time), 128 + SIGTERM);
}

TEST_P(Frozen, a_server_that_is_paused_ends_the_session_and_is_worked_again_when_it_goes_on) {
    write_config("one", receiver.sink("/one"));
    auto relay = start("one", url);
    publish(1, 5);
    wait_for_numbers("/one", 5);
    cluster.pause();
    wait_for_log("one", "the lease would run out");
    EXPECT_EQ(ask("/livez").first, 200);
    cluster.resume();
    publish(6, 10);
    wait_for_numbers("/one", 10);
    EXPECT_EQ(relay.stop(long_time), 0);
}

TEST_P(Frozen, commands_do_not_wait_for_a_frozen_database_for_ever) {
    proxy.freeze();
    const auto ran = run_baton({"status", "--db", proxied});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("cannot connect"), std::string::npos) << ran.errors;
}

INSTANTIATE_TEST_SUITE_P(Forms, Frozen, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
