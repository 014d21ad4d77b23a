// The way to a collector that answers well, badly, late or never.

#include "otlp/exporter.hpp"

#include <gtest/gtest.h>
#include <httplib.h>

#include <nlohmann/json.hpp>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::otlp;
using namespace std::chrono_literals;
using baton::test::wait_until;

namespace {

// An HTTP server that answers as the test says, and notes what it got.
class Collecting : public testing::Test {
  protected:
    void SetUp() override {
        server.Post("/v1/traces", [this](const httplib::Request& request, httplib::Response& response) {
            std::function<void(httplib::Response&)> answer;
            {
                const std::lock_guard lock(mutex);
                requests.push_back(request);
                answer = answer_;
            }
            answer(response);
        });
        port = server.bind_to_any_port("127.0.0.1");
        thread = std::thread([this] { server.listen_after_bind(); });
        wait_until("the collector listens", [this] { return server.is_running(); });
    }
    void TearDown() override {
        released = true;
        server.stop();
        thread.join();
    }

    void answer_with(std::function<void(httplib::Response&)> answer) {
        const std::lock_guard lock(mutex);
        answer_ = std::move(answer);
    }

    Options options() const {
        Options made;
        made.url = "http://127.0.0.1:" + std::to_string(port) + "/v1/traces";
        made.interval = 10ms;
        made.batch = 10;
        return made;
    }
    static Span span(const std::string& name) {
        Span made;
        made.context = {.trace = {1, 2}, .span = {3}, .flags = 1};
        made.name = name;
        return made;
    }
    std::size_t request_count() {
        const std::lock_guard lock(mutex);
        return requests.size();
    }
    void hang() {
        while (!released) std::this_thread::sleep_for(5ms);
    }

    httplib::Server server;
    std::thread thread;
    int port = 0;
    std::atomic<bool> released{false};
    std::mutex mutex;
    std::vector<httplib::Request> requests;

  private:
    std::function<void(httplib::Response&)> answer_ = [](httplib::Response&) {};
};

}  // namespace

TEST_F(Collecting, spans_go_in_batches_with_the_headers_that_are_set) {
    auto set = options();
    set.headers = {{"authorization", "Bearer s3cret"}, {"empty", ""}};
    set.resource = {{"service.name", "shop"}};
    Exporter exporter(set);
    for (int i = 0; i < 25; ++i) exporter.take(span("n" + std::to_string(i)));
    exporter.close();
    EXPECT_EQ(exporter.exported(), 25U);
    EXPECT_EQ(exporter.dropped(), 0U);
    std::size_t spans = 0;
    for (const auto& request : requests) {
        EXPECT_EQ(request.get_header_value("content-type"), "application/json");
        EXPECT_EQ(request.get_header_value("authorization"), "Bearer s3cret");
        const auto body = nlohmann::json::parse(request.body);
        spans += body["resourceSpans"][0]["scopeSpans"][0]["spans"].size();
        EXPECT_LE(body["resourceSpans"][0]["scopeSpans"][0]["spans"].size(), 10U);
    }
    EXPECT_EQ(spans, 25U);
    exporter.take(span("too late"));
    EXPECT_EQ(exporter.dropped(), 1U);
}

TEST_F(Collecting, requests_are_compressed_when_asked) {
    auto set = options();
    set.gzip = true;
    Exporter exporter(set);
    exporter.take(span("packed"));
    exporter.close();
    ASSERT_EQ(requests.size(), 1U);
    EXPECT_EQ(requests[0].get_header_value("content-encoding"), "gzip");
    EXPECT_NE(requests[0].body.find("packed"), std::string::npos);  // the server has unpacked it
    EXPECT_EQ(exporter.exported(), 1U);
}

TEST_F(Collecting, a_busy_collector_is_asked_again_when_it_says) {
    std::atomic<int> asked{0};
    std::atomic<std::chrono::steady_clock::rep> first{0}, second{0};
    answer_with([&](httplib::Response& response) {
        (asked == 0 ? first : second) = std::chrono::steady_clock::now().time_since_epoch().count();
        if (asked++ > 0) return;
        response.status = 429;
        response.set_header("Retry-After", "2");
    });
    std::mutex told_mutex;
    std::vector<std::string> told;
    Exporter exporter(options(), [&](const std::string& reason) {
        const std::lock_guard lock(told_mutex);
        told.push_back(reason);
    });
    exporter.take(span("patient"));
    wait_until("the span is taken", [&] { return exporter.exported() == 1; });
    EXPECT_GE(std::chrono::steady_clock::duration(second - first), 1900ms);  // never before it asked for
    EXPECT_EQ(exporter.dropped(), 0U);
    const std::lock_guard lock(told_mutex);
    EXPECT_EQ(told, (std::vector<std::string>{"the collector answers 429", ""}));
}

TEST_F(Collecting, what_the_collector_refuses_is_dropped_and_not_sent_again) {
    answer_with([](httplib::Response& response) { response.status = 400; });
    Exporter exporter(options());
    exporter.take(span("bad"));
    wait_until("the span is dropped", [&] { return exporter.dropped() == 1; });
    answer_with([](httplib::Response& response) {
        response.set_content(R"({"partialSuccess": {"rejectedSpans": "1"}})", "application/json");
    });
    exporter.take(span("good"));
    exporter.take(span("bad"));
    wait_until("one of two is dropped", [&] { return exporter.dropped() == 2; });
    EXPECT_EQ(exporter.exported(), 1U);
    EXPECT_EQ(request_count(), 2U);
}

TEST_F(Collecting, an_answer_without_sense_or_end_counts_by_its_status) {
    answer_with([](httplib::Response& response) {
        response.set_content(std::string(1 << 20, '\xff'), "application/json");
    });
    Exporter exporter(options());
    exporter.take(span("one"));
    wait_until("the span is taken", [&] { return exporter.exported() == 1; });
}

TEST_F(Collecting, a_collector_that_hangs_keeps_nobody_waiting_and_the_end_is_bounded) {
    answer_with([this](httplib::Response&) { hang(); });
    auto set = options();
    set.queue = 50;
    set.flush_limit = 300ms;
    Exporter exporter(set);
    for (int i = 0; i < 10; ++i) exporter.take(span("first"));
    wait_until("the collector hangs", [&] { return request_count() == 1; });
    for (int i = 0; i < 1000; ++i) exporter.take(span("more"));
    EXPECT_EQ(exporter.dropped(), 950U);
    exporter.close();  // would take ten seconds for each request
    EXPECT_EQ(exporter.exported(), 0U);
    EXPECT_EQ(exporter.dropped(), 1010U);
}

TEST_F(Collecting, without_a_collector_spans_are_dropped_in_the_end) {
    auto set = options();
    server.stop();
    set.url = "http://127.0.0.1:1/v1/traces";
    std::atomic<int> troubles{0};
    Exporter exporter(set, [&](const std::string& reason) { troubles += reason.empty() ? 100 : 1; });
    exporter.take(span("lost"));
    wait_until("the trouble is told", [&] { return troubles == 1; });
    exporter.close();
    EXPECT_EQ(exporter.dropped(), 1U);
    EXPECT_EQ(troubles, 1);
}
