// The http sink on a real HTTP server, message by message and in batches.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "brokers/http/tests/receiver.hpp"
#include "brokers/http/tests/sink_case.hpp"
#include "brokers/registry.hpp"
#include "conformance/driver.hpp"
#include "conformance/sink_conformance.hpp"
#include "support/cluster.hpp"
#include "wire/encoding.hpp"

namespace baton::test {

namespace {

using relay::Verdict;

const std::string secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

// Find the text of a member's value in a JSON object, byte for byte.
std::string raw_member(const std::string& object, const std::string& name) {
    const std::string wanted = "\"" + name + "\":";
    int depth = 0;
    bool quoted = false;
    std::size_t begin = std::string::npos;
    for (std::size_t at = 0; at < object.size(); ++at) {
        const char c = object[at];
        if (begin == std::string::npos && depth == 1 && !quoted &&
            object.compare(at, wanted.size(), wanted) == 0) {
            at += wanted.size() - 1;
            begin = at + 1;
            continue;
        }
        if (quoted && c == '\\')
            ++at;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            ++depth;
        else if (!quoted && (c == '}' || c == ']'))
            --depth;
        if (begin != std::string::npos && !quoted && (depth == 0 || (depth == 1 && c == ',')))
            return object.substr(begin, at - begin);
    }
    return {};
}

// Take a JSON array of objects apart without touching their bytes.
std::vector<std::string> raw_elements(const std::string& array) {
    std::vector<std::string> elements;
    int depth = 0;
    bool quoted = false;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < array.size(); ++at) {
        const char c = array[at];
        if (quoted && c == '\\')
            ++at;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '[') && ++depth == 2)
            begin = at;
        else if (!quoted && (c == '}' || c == ']') && --depth == 1)
            elements.push_back(array.substr(begin, at - begin + 1));
    }
    return elements;
}

std::vector<Received> read_batch(const std::string& body) {
    std::vector<Received> all;
    for (const auto& element : raw_elements(body)) {
        const auto parsed = nlohmann::json::parse(element);
        Received got;
        got.id = parsed.at("id");
        got.key = parsed.value("key", "");
        for (const auto& [name, value] : parsed.at("headers").items()) got.headers[name] = value;
        if (parsed.contains("data_base64"))
            got.body = wire::base64_decode(parsed.at("data_base64").get<std::string>()).value();
        else if (parsed.value("content_type", "") == "application/json")
            got.body = raw_member(element, "data");
        else
            got.body = parsed.at("data");
        all.push_back(std::move(got));
    }
    return all;
}

Received read_single(const WebhookRequest& request) {
    Received got;
    got.id = percent_decoded(request.header("webhook-id"));
    got.key = percent_decoded(request.header("partition-key"));
    got.body = request.body;
    for (const auto& [name, value] : request.headers)
        got.headers[percent_decoded(name)] = percent_decoded(value);
    // The receiver's library drops headers without a value; a test of their own looks at the bytes.
    got.headers.try_emplace("nothing", "");
    return got;
}

template <bool batched>
class HttpFixture final : public SinkFixture {
  public:
    HttpFixture() {
        receiver_.require_signature(secret);
        receiver_.answer_with([this](const WebhookRequest& request) -> WebhookAnswer {
            if (shut_) return {403, "not now", {}};
            if (request.path == missing_path_) return {404, "not here", {}};
            const bool poisoned = batched ? request.body.find(R"("id":"poison")") != std::string::npos
                                          : request.header("webhook-id") == "poison";
            return poisoned ? WebhookAnswer{422, "no such order", {}} : WebhookAnswer{};
        });
        receiver_.start();
        proxy_.set_target(receiver_.port());
    }
    std::string make_destination() override {
        return "http://127.0.0.1:" + std::to_string(proxy_.port()) + "/hook/" + std::to_string(++count_);
    }
    relay::Settings settings(const std::string& destination) override {
        relay::Settings settings("sink");
        settings.set("type", "http");
        settings.set("url", destination);
        settings.set("mode", batched ? "batch" : "single");
        settings.set("batch_size", std::int64_t{5});
        settings.set("secret", secret);
        settings.set("allow_private", true);
        // The receiver's library queues five connections, and the system makes more of them wait a second.
        settings.set("max_concurrent", std::int64_t{4});
        settings.set("connect_timeout", "1s");
        settings.set("timeout", "2s");
        return settings;
    }
    std::vector<Received> read_all(const std::string& destination) override {
        std::vector<Received> all;
        for (const auto& request : receiver_.kept(destination.substr(destination.find("/hook/")))) {
            EXPECT_TRUE(request.signed_well);
            if (!batched)
                all.push_back(read_single(request));
            else
                for (auto& got : read_batch(request.body)) all.push_back(std::move(got));
        }
        return all;
    }
    void kill_broker() override {
        receiver_.stop();
        proxy_.cut();
    }
    void start_broker() override { receiver_.start(); }
    Proxy* proxy() override { return &proxy_; }
    bool poison(Message&, std::string&) override { return true; }
    bool shut(const std::string&) override {
        shut_ = true;
        return true;
    }
    void open(const std::string&) override { shut_ = false; }
    std::string name_missing() override {
        const std::string destination = make_destination();
        missing_path_ = destination.substr(destination.find("/hook/"));
        return destination;
    }
    void make_missing(const std::string&) override { missing_path_.clear(); }
    std::optional<relay::Settings> with_wrong_login(const std::string& destination) override {
        auto wrong = settings(destination);
        wrong.set("secret", "whsec_" + wire::base64_encode(std::string(32, 'w')));
        return wrong;
    }

  private:
    WebhookReceiver receiver_;
    Proxy proxy_;
    int count_ = 0;
    std::atomic<bool> shut_{false};
    std::string missing_path_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(HttpSingle, SinkConformance, HttpFixture<false>);
INSTANTIATE_TYPED_TEST_SUITE_P(HttpBatch, SinkConformance, HttpFixture<true>);

TEST_F(HttpSinkTest, a_message_carries_its_id_its_key_and_the_headers_of_the_settings) {
    settings_.set("headers.X-Api-Key", "abc");
    auto one = messages(1);
    one[0].key = "customer 7";
    EXPECT_EQ(deliver(one).at(1).verdict, Verdict::delivered);
    const auto request = receiver_.kept().at(0);
    EXPECT_EQ(request.header("webhook-id"), "m0");
    EXPECT_EQ(request.header("idempotency-key"), "m0");
    EXPECT_EQ(request.header("partition-key"), "customer 7");
    EXPECT_EQ(request.header("content-type"), "application/json");
    EXPECT_EQ(request.header("x-api-key"), "abc");
    EXPECT_EQ(request.headers.count("webhook-signature"), 0U);
}

TEST_F(HttpSinkTest, a_header_without_a_value_is_on_the_wire) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(listener, 1), 0);
    ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    settings_.set("url", "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/");
    settings_.set("timeout", "20s");
    std::string request;
    std::thread server([&] {
        const int client = accept(listener, nullptr, nullptr);
        char buffer[4096];
        for (ssize_t got = 1; got > 0 && !request.ends_with("{}");) {
            got = recv(client, buffer, sizeof buffer, 0);
            if (got > 0) request.append(buffer, static_cast<std::size_t>(got));
        }
        const std::string_view answer = "HTTP/1.1 204 No Content\r\n\r\n";
        EXPECT_EQ(send(client, answer.data(), answer.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(answer.size()));
        close(client);
    });
    auto one = messages(1);
    one[0].headers = {{"nothing", ""}};
    EXPECT_EQ(deliver(one).at(1).verdict, Verdict::delivered);
    server.join();
    close(listener);
    EXPECT_NE(request.find("\r\nnothing:\r\n"), std::string::npos) << request;
}

TEST_F(HttpSinkTest, while_secrets_rotate_a_receiver_with_either_is_content) {
    const std::string next = "whsec_" + wire::base64_encode(std::string(32, 'n'));
    settings_.set("secret", std::vector<std::string>{next, secret});
    for (const auto& known : {secret, next}) {
        receiver_.require_signature(known);
        EXPECT_EQ(deliver_one().verdict, Verdict::delivered);
    }
    receiver_.require_signature("whsec_" + wire::base64_encode(std::string(32, 'o')));
    const auto delivery = deliver_one();
    EXPECT_EQ(delivery.verdict, Verdict::shut);
    EXPECT_EQ(delivery.error, "HTTP 401: the signature does not hold");
}

TEST_F(HttpSinkTest, private_addresses_are_refused_however_they_are_written) {
    settings_.set("allow_private", false);
    for (const auto& host :
         {"127.0.0.1", "localhost", "2130706433", "0x7f.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"}) {
        settings_.set("url", url(host));
        const auto delivery = deliver_one();
        EXPECT_EQ(delivery.verdict, Verdict::shut) << host;
        EXPECT_NE(delivery.error.find("no public address"), std::string::npos)
            << host << ": " << delivery.error;
        EXPECT_THROW(brokers::make_sink(settings_)->check(), Error) << host;
    }
    EXPECT_EQ(receiver_.requests(), 0U);
}

TEST_F(HttpSinkTest, a_proxy_in_the_environment_is_no_way_around) {
    setenv("http_proxy", "http://127.0.0.1:9", 1);
    EXPECT_EQ(deliver_one().verdict, Verdict::delivered);
    unsetenv("http_proxy");
    settings_.set("allow_private", false);
    settings_.set("proxy", "http://127.0.0.1:9");
    EXPECT_THROW(brokers::make_sink(settings_), relay::SettingsError);
}

TEST_F(HttpSinkTest, no_more_requests_than_allowed_are_under_way) {
    settings_.set("max_concurrent", std::int64_t{3});
    const auto sink = brokers::make_sink(settings_);
    receiver_.hold();
    sink->send(messages(20));
    std::vector<relay::Delivery> none;
    wait_until("three are held", [&] {
        sink->collect(none, std::chrono::milliseconds(20));
        return receiver_.held() == 3;
    });
    EXPECT_TRUE(none.empty());
    receiver_.release();
    for (const auto& [ticket, delivery] : collect_all(*sink, 20))
        EXPECT_EQ(delivery.verdict, Verdict::delivered);
    EXPECT_EQ(receiver_.most_at_once(), 3U);
}

TEST_F(HttpSinkTest, what_waits_for_its_turn_when_the_lease_ends_is_given_back) {
    settings_.set("max_concurrent", std::int64_t{3});
    const auto sink = brokers::make_sink(settings_);
    bool may = true;
    sink->send_while([&] { return may; });
    receiver_.hold();
    sink->send(messages(20));
    std::vector<relay::Delivery> none;
    wait_until("three are held", [&] {
        sink->collect(none, std::chrono::milliseconds(20));
        return receiver_.held() == 3;
    });
    may = false;
    receiver_.release();
    std::size_t delivered = 0;
    for (const auto& [ticket, delivery] : collect_all(*sink, 20))
        delivered += delivery.verdict == Verdict::delivered ? 1 : 0;
    EXPECT_EQ(delivered, 3U);
    EXPECT_EQ(receiver_.requests(), 3U);
}

TEST_F(HttpSinkTest, connections_are_kept_and_used_again) {
    Proxy proxy(receiver_.port());
    settings_.set("url", "http://127.0.0.1:" + std::to_string(proxy.port()) + "/");
    const auto sink = brokers::make_sink(settings_);
    for (int i = 0; i < 10; ++i) {
        sink->send(messages(1));
        EXPECT_EQ(collect_all(*sink, 1).at(1).verdict, Verdict::delivered);
    }
    EXPECT_EQ(proxy.accepted(), 1U);
}

TEST_F(HttpSinkTest, a_refused_batch_is_taken_apart_until_the_culprit_stands_alone) {
    settings_.set("mode", "batch");
    settings_.set("batch_size", std::int64_t{10});
    settings_.set("max_concurrent", std::int64_t{1});
    receiver_.answer_with([](const WebhookRequest& request) {
        const bool bad = request.body.find(R"("id":"m4")") != std::string::npos;
        return bad ? WebhookAnswer{400, "m4 is wrong", {}} : WebhookAnswer{};
    });
    const auto fate = deliver(messages(25));
    for (const auto& [ticket, delivery] : fate)
        EXPECT_EQ(delivery.verdict, ticket == 5 ? Verdict::rejected : Verdict::delivered)
            << ticket << delivery.error;
    EXPECT_EQ(fate.at(5).error, "HTTP 400: m4 is wrong");
    std::map<std::string, int> found;
    for (const auto& request : receiver_.kept())
        for (const auto& got : read_batch(request.body)) ++found[got.id];
    EXPECT_EQ(found.size(), 24U);
    for (const auto& [id, count] : found) EXPECT_EQ(count, 1) << id;
    EXPECT_LT(receiver_.requests(), 20U) << "nothing went in batches";
}

TEST_F(HttpSinkTest, the_destination_is_the_url) {
    auto three = messages(3);
    three[0].destination = url() + "elsewhere";
    three[1].destination = "orders";
    three[2].destination = "http://exa mple/";
    const auto fate = deliver(three);
    EXPECT_EQ(fate.at(1).verdict, Verdict::delivered) << fate.at(1).error;
    EXPECT_EQ(fate.at(2).verdict, Verdict::rejected);
    EXPECT_EQ(fate.at(3).verdict, Verdict::rejected);
    EXPECT_EQ(receiver_.kept("/elsewhere").size(), 1U);
    settings_.set("url", url() + "{topic}");
    EXPECT_NO_THROW(brokers::make_sink(settings_)->check()) << "a template is filled by events only";
    EXPECT_EQ(deliver_one().verdict, Verdict::rejected);
}

TEST_F(HttpSinkTest, tls_is_spoken_and_a_stranger_is_not_trusted) {
    const auto folder =
        std::filesystem::temp_directory_path() / ("baton-tls-" + std::to_string(receiver_.port()));
    const auto certificate = make_certificate(folder);
    WebhookReceiver safe(certificate);
    safe.start();
    settings_.set("url", "https://localhost:" + std::to_string(safe.port()) + "/");
    const auto delivery = deliver_one();
    EXPECT_EQ(delivery.verdict, Verdict::retry);
    EXPECT_NE(delivery.error.find("certificate"), std::string::npos) << delivery.error;
    settings_.set("tls_ca", certificate.cert.string());
    EXPECT_EQ(deliver_one().verdict, Verdict::delivered);
    EXPECT_NO_THROW(brokers::make_sink(settings_)->check());
    std::filesystem::remove_all(folder);
}

TEST_F(HttpSinkTest, settings_that_cannot_work_are_refused) {
    const auto refused = [&](const std::string& key, const relay::Settings::Value& value) {
        auto settings = settings_;
        settings.set(key, value);
        EXPECT_THROW(brokers::make_sink(settings), relay::SettingsError) << key;
    };
    refused("url", "ftp://example.com/");
    refused("mode", "bulk");
    refused("secret", "not-a-secret");
    refused("batch_size", std::int64_t{0});
    refused("max_concurrent", std::int64_t{0});
    refused("headers.a b", "x");
    refused("headers.ok", "two\r\nlines");
    refused("tls_cert", "/only/the/cert.pem");
    refused("secrt", "typo");
}

}  // namespace

}  // namespace baton::test
