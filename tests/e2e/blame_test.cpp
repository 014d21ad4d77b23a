// Whose fault it is that events do not get through, from the log to a real server and back into the log: a
// destination that refuses everything buries nothing.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "assembly/pipeline_parts.hpp"
#include "brokers/http/tests/receiver.hpp"
#include "support/cluster.hpp"
#include "support/folder.hpp"

using namespace baton;
using namespace baton::test;
using namespace std::chrono_literals;

namespace {

// Takes connections, waits for a request, and answers with a greeting of another protocol.
class Stranger {
  public:
    Stranger() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket_, 64) != 0 ||
            ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
            throw Error("cannot listen");
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { work(); });
    }
    ~Stranger() {
        ::shutdown(socket_, SHUT_RDWR);
        thread_.join();
        ::close(socket_);
    }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;
    int port() const { return port_; }
    int requests() const { return requests_; }

  private:
    void work() {
        constexpr std::string_view greeting = "SSH-2.0-OpenSSH_9.2\r\n";
        for (int taken = 0; (taken = ::accept(socket_, nullptr, nullptr)) >= 0; ::close(taken)) {
            std::array<char, 65536> bytes;
            if (::recv(taken, bytes.data(), bytes.size(), 0) <= 0) continue;
            ::send(taken, greeting.data(), greeting.size(), MSG_NOSIGNAL);
            ++requests_;
        }
    }

    int socket_;
    int port_ = 0;
    std::atomic<int> requests_ = 0;
    std::thread thread_;
};

class Blaming : public testing::TestWithParam<Form> {
  protected:
    Blaming() {
        admin.exec("select baton.create_outbox('orders')");
        receiver.start();
    }

    std::string hook() const { return "http://127.0.0.1:" + std::to_string(receiver.port()) + "/hook"; }
    relay::Settings settings() const {
        relay::Settings made("pipeline hooks");
        made.set("name", std::string("hooks"));
        made.set("source.outbox", std::string("orders"));
        made.set("source.lease", std::string("3s"));
        made.set("failure.backoff", std::string("5ms"));
        made.set("failure.backoff_limit", std::string("50ms"));
        made.set("failure.breaker_backoff", std::string("5ms"));
        made.set("failure.breaker_limit", std::string("50ms"));
        return made;
    }
    relay::Settings to_hook() const {
        auto made = settings();
        made.set("sink.type", std::string("http"));
        made.set("sink.url", hook());
        made.set("sink.allow_private", true);
        return made;
    }

    void publish(int from, int upto) {
        admin.query(
            "select count(baton.publish('orders', 'order.changed', jsonb_build_object('n', i), aggregate_id "
            "=> 'k' || i % 5)) from generate_series($1::int, $2::int) i",
            {from, upto});
    }
    void start(const relay::Settings& made) {
        pipeline = std::make_unique<relay::Pipeline>(assembly::make_parts(made, {url, "relay"}));
        pipeline->start();
    }
    void answer_all_with(int status) {
        receiver.answer_with([status](const WebhookRequest&) {
            return WebhookAnswer{status, "because", {}};
        });
    }
    std::string wait_for_trouble() {
        wait_until("the pipeline is in trouble", [&] { return !pipeline->status().trouble.empty(); });
        return pipeline->status().trouble;
    }
    // What is tried in vain shows in the receiver, so nothing need be slept for.
    void wait_for_requests(std::size_t more) {
        const auto before = receiver.requests();
        wait_until("the receiver was asked again", [&] { return receiver.requests() >= before + more; });
    }
    int parked() { return std::stoi(admin.value("select count(*) from baton_internal.parked")); }
    int dead() { return std::stoi(admin.value("select count(*) from baton.dead_letters")); }
    void expect_all_arrived_in_order(int count) {
        wait_until("all arrived", [&] { return receiver.kept().size() >= static_cast<std::size_t>(count); });
        std::map<int, int> last;
        for (const auto& request : receiver.kept()) {
            const int n = nlohmann::json::parse(request.body).at("n");
            EXPECT_LT(last[n % 5], n) << "key k" << n % 5;
            last[n % 5] = n;
        }
        EXPECT_EQ(receiver.kept().size(), static_cast<std::size_t>(count));
    }

    std::string url = shared_cluster(GetParam()).fresh_database();
    Connection admin{url};
    WebhookReceiver receiver;
    std::unique_ptr<relay::Pipeline> pipeline;
};

}  // namespace

TEST_P(Blaming, a_destination_that_refuses_us_buries_nothing_says_so_and_gets_all_once_it_is_mended) {
    for (const int status : {401, 403, 404}) {
        answer_all_with(status);
        if (!pipeline) {
            publish(1, 500);
            start(to_hook());
        }
        wait_until("the pipeline says why", [&] {
            return pipeline->status().trouble.find("HTTP " + std::to_string(status)) != std::string::npos;
        });
        wait_for_requests(10);
        EXPECT_EQ(parked(), 0) << status;
    }
    answer_all_with(200);
    expect_all_arrived_in_order(500);
    EXPECT_EQ(dead(), 0);
    wait_until("the trouble is over", [&] { return pipeline->status().trouble.empty(); });
}

TEST_P(Blaming, an_event_alone_is_not_blamed_for_a_login_that_is_refused) {
    answer_all_with(401);
    publish(1, 1);
    auto made = to_hook();
    made.set("failure.attempts", std::int64_t{2});
    start(made);
    wait_for_requests(10);
    EXPECT_EQ(parked(), 0);
    answer_all_with(200);
    expect_all_arrived_in_order(1);
}

TEST_P(Blaming, a_server_that_answers_nonsense_buries_nothing) {
    const Stranger stranger;
    publish(1, 20);
    auto made = to_hook();
    made.set("sink.url", "http://127.0.0.1:" + std::to_string(stranger.port()) + "/hook");
    start(made);
    wait_until("it was asked often", [&] { return stranger.requests() >= 40; });
    EXPECT_EQ(dead(), 0);
    pipeline.reset();
    start(to_hook());
    expect_all_arrived_in_order(20);
}

TEST_P(Blaming, a_private_address_is_refused_and_buries_nothing) {
    publish(1, 100);
    auto made = to_hook();
    made.set("sink.allow_private", false);
    start(made);
    EXPECT_NE(wait_for_trouble().find("no public address"), std::string::npos) << pipeline->status().trouble;
    wait_until("it was tried often", [&] { return pipeline->status().counts.retried > 50; });
    EXPECT_EQ(parked(), 0);
    EXPECT_EQ(receiver.requests(), 0U);
}

TEST_P(Blaming, a_missing_inbox_buries_nothing_and_gets_all_once_it_is_there) {
    publish(1, 300);
    auto made = settings();
    made.set("sink.type", std::string("postgres"));
    made.set("sink.url", url);
    made.set("sink.inbox", std::string("arrivals"));
    start(made);
    EXPECT_NE(wait_for_trouble().find("arrivals"), std::string::npos) << pipeline->status().trouble;
    wait_until("it was tried often", [&] { return pipeline->status().counts.retried > 50; });
    EXPECT_EQ(parked(), 0);
    admin.exec("select baton.create_inbox('arrivals')");
    wait_until("all arrived", [&] { return admin.value("select count(*) from arrivals") == "300"; });
    EXPECT_EQ(dead(), 0);
}

TEST_P(Blaming, rejections_in_a_row_stop_the_burying_until_one_event_is_taken) {
    answer_all_with(400);
    publish(1, 500);
    auto made = to_hook();
    made.set("failure.give_up_limit", std::int64_t{7});
    made.set("sink.max_concurrent", std::int64_t{1});  // so that answers come in the order of events
    start(made);
    EXPECT_NE(wait_for_trouble().find("7 events in a row"), std::string::npos) << pipeline->status().trouble;
    EXPECT_NE(pipeline->status().trouble.find("HTTP 400: because"), std::string::npos);
    wait_for_requests(20);
    wait_until("seven are dead", [&] { return dead() == 7; });
    // A new session knows how many there were.
    const auto sessions = pipeline->status().sessions;
    admin.exec(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'baton relay%'");
    wait_until("a new session runs", [&] { return pipeline->status().sessions > sessions; });
    wait_for_requests(20);
    EXPECT_EQ(dead(), 7);
    EXPECT_FALSE(wait_for_trouble().empty());
    answer_all_with(200);
    expect_all_arrived_in_order(493);
    EXPECT_EQ(dead(), 7);
    wait_until("the trouble is over", [&] { return pipeline->status().trouble.empty(); });
}

TEST_P(Blaming, events_that_cannot_be_rendered_stop_the_burying_too) {
    publish(1, 100);
    auto made = to_hook();
    made.set("sink.url", hook() + "/{tenant_id}");
    made.set("failure.give_up_limit", std::int64_t{5});
    start(made);
    EXPECT_NE(wait_for_trouble().find("5 events in a row"), std::string::npos) << pipeline->status().trouble;
    wait_until("five are dead", [&] { return dead() == 5; });
    wait_until("others were tried in vain", [&] { return pipeline->status().counts.retried > 20; });
    pipeline.reset();  // writes the last position
    EXPECT_EQ(dead(), 5);
}

TEST_P(Blaming, one_missing_place_among_others_holds_up_no_other_and_is_tried_again_later) {
    receiver.answer_with([](const WebhookRequest& request) {
        return request.body.find("\"n\": 3}") != std::string::npos ? WebhookAnswer{404, "not here", {}}
                                                                   : WebhookAnswer{};
    });
    publish(1, 3);
    auto made = to_hook();
    made.set("failure.attempts", std::int64_t{2});
    made.set("failure.retry_base", std::string("1h"));
    made.set("failure.retry_limit", std::string("1h"));
    start(made);
    int n = 4;
    wait_until("the one is parked", [&] {
        publish(n, n);
        ++n;
        return parked() > 0;
    });
    EXPECT_EQ(dead(), 0);
    pipeline.reset();
    EXPECT_EQ(admin.value("select count(*) from baton_internal.parked where state = 'retry'"), "1");
}

INSTANTIATE_TEST_SUITE_P(Forms, Blaming, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
