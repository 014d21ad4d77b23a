// The http source. There is no broker: the sender keeps a message until it was answered with 2xx, and sends
// it again until then. Here the sender is a box that takes webhooks from baton's own sink and passes them on
// as they came.

#include <httplib.h>

#include <future>
#include <nlohmann/json.hpp>

#include "base/process.hpp"
#include "base/text.hpp"
#include "brokers/http/tests/receiver.hpp"
#include "brokers/http/tests/source_case.hpp"
#include "brokers/http/webhook_signature.hpp"
#include "brokers/registry.hpp"
#include "conformance/source_conformance.hpp"
#include "conformance/way_in.hpp"
#include "support/certificate.hpp"
#include "support/program.hpp"
#include "wire/encoding.hpp"

namespace baton::test {

namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using nlohmann::json;

const std::string secret = "whsec_" + wire::base64_encode(std::string(32, 's'));

// Sends what it was given until it is taken, several at a time.
class Sender {
  public:
    explicit Sender(int port) : port_(port) { start(); }
    ~Sender() { stop(); }

    void take(const std::vector<WebhookRequest>& requests) {
        const std::lock_guard lock(mutex_);
        for (const auto& request : requests) waiting_.push_back(request);
        changed_.notify_all();
    }
    // What was not taken yet.
    std::size_t held(const std::string& path) {
        const std::lock_guard lock(mutex_);
        const auto of_path = [&](const WebhookRequest& request) { return request.path == path; };
        return static_cast<std::size_t>(std::ranges::count_if(waiting_, of_path) +
                                        std::ranges::count_if(flying_, of_path));
    }
    void start() {
        stopping_ = false;
        for (int i = 0; i < 32; ++i) threads_.emplace_back([this] { work(); });
    }
    // End at once; what is under way counts as not taken.
    void stop() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
            for (auto* client : clients_) client->stop();
            changed_.notify_all();
        }
        for (auto& thread : threads_) thread.join();
        threads_.clear();
    }

  private:
    void work() {
        httplib::Client client("127.0.0.1", port_);
        client.set_keep_alive(true);
        client.set_connection_timeout(1s);
        client.set_read_timeout(5s);
        std::unique_lock lock(mutex_);
        clients_.insert(&client);
        while (!stopping_) {
            if (waiting_.empty()) {
                changed_.wait(lock);
                continue;
            }
            const auto mine = flying_.insert(flying_.end(), std::move(waiting_.front()));
            waiting_.pop_front();
            lock.unlock();
            httplib::Headers headers;
            for (const auto& [name, value] : mine->headers)
                if (name != "host" && name != "content-length" && name != "content-type" &&
                    !name.ends_with("_addr") && !name.ends_with("_port"))
                    headers.emplace(name, value);
            const auto answer = client.Post(mine->path, headers, mine->body, mine->header("content-type"));
            const bool taken = answer && answer->status / 100 == 2;
            lock.lock();
            if (!taken) {
                waiting_.push_back(std::move(*mine));
                changed_.wait_for(lock, 100ms, [this] { return stopping_; });
            }
            flying_.erase(mine);
        }
        clients_.erase(&client);
    }

    int port_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<WebhookRequest> waiting_;
    std::list<WebhookRequest> flying_;
    std::set<httplib::Client*> clients_;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

class HttpSourceFixture final : public SourceFixture {
  public:
    HttpSourceFixture() : sender_(proxy_.port()) {
        box_.start();
        // Whatever the sink gets rid of is the sender's from then on.
        box_.answer_with([this](const WebhookRequest& request) {
            sender_.take({request});
            return WebhookAnswer{};
        });
    }
    std::string make_place() override {
        port_ = find_free_port();
        proxy_.set_target(port_);
        return "place-" + std::to_string(++count_);
    }
    Table source(const std::string& place, const std::string&) override {
        return {{"type", "http"},
                {"listen", "127.0.0.1:" + std::to_string(port_)},
                {"path", "/" + place},
                {"secret", secret},
                {"answer_timeout", "10s"}};
    }
    Table sink() override {
        return {{"type", "http"}, {"url", "{topic}"}, {"secret", secret}, {"allow_private", true}};
    }
    std::string destination(const std::string& place) override {
        return "http://127.0.0.1:" + std::to_string(box_.port()) + "/" + place;
    }
    std::size_t held(const std::string& place) override {
        // The last answers may still be on their way: the least within a moment is what counts.
        std::size_t least = sender_.held("/" + place);
        const auto until = std::chrono::steady_clock::now() + 500ms;
        while (least > 0 && std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(10ms);
            least = std::min(least, sender_.held("/" + place));
        }
        return least;
    }
    // A sender whose answer was lost sends again what has long arrived.
    void wait_for_quiet(const std::string& place) override {
        wait_until("the sender has nothing left", [&] { return sender_.held("/" + place) == 0; });
    }
    void kill_broker() override { sender_.stop(); }
    void start_broker() override { sender_.start(); }
    Proxy& proxy() override { return proxy_; }
    bool knows_missing_places() const override { return false; }
    bool knows_unreachable() const override { return false; }
    bool orders() const override { return false; }
    bool keeps_empty_headers() const override { return false; }  // the server's library does not tell of them
    std::size_t readable(std::size_t sent) const override { return std::min<std::size_t>(sent, 24); }
    int port() const { return port_; }

  private:
    Proxy proxy_;
    Sender sender_;
    WebhookReceiver box_;
    int port_ = 0;
    int count_ = 0;
};

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Http, SourceConformance, HttpSourceFixture);

namespace {

httplib::Headers signed_headers(const std::string& id, const std::string& body, std::time_t time,
                                const std::string& by = secret) {
    const std::string text = std::to_string(time);
    return {{"webhook-id", id},
            {"webhook-timestamp", text},
            {"webhook-signature", "v1,AAAA " + brokers::WebhookSigner({by}).sign(id, text, body)}};
}

}  // namespace

TEST_F(WebhookSource, a_standard_webhooks_signature_must_hold) {
    settings_.set("secret", secret);
    start();
    const auto now = std::time(nullptr);
    EXPECT_EQ(post(signed_headers("msg_1", "{}", now), "{}"), 204);
    EXPECT_EQ(post(signed_headers("msg_2", "{}", now), "{ }"), 401) << "another body";
    EXPECT_EQ(post(signed_headers("msg_3", "{}", now - 400), "{}"), 401) << "too old";
    EXPECT_EQ(post(signed_headers("msg_4", "{}", now + 400), "{}"), 401) << "from the future";
    EXPECT_EQ(
        post(signed_headers("msg_5", "{}", now, "whsec_" + wire::base64_encode(std::string(32, 't'))), "{}"),
        401)
        << "another secret";
    auto other_id = signed_headers("msg_6", "{}", now);
    other_id.erase("webhook-id");
    EXPECT_EQ(post(other_id, "{}"), 400) << "no id";
    other_id.emplace("webhook-id", "msg_7");
    EXPECT_EQ(post(other_id, "{}"), 401) << "another id";
    EXPECT_EQ(post({}, "{}"), 401) << "nothing at all";
    EXPECT_EQ(post({{"webhook-id", "m"}, {"webhook-timestamp", "soon"}, {"webhook-signature", "v1,x"}}, "{}"),
              400);
    EXPECT_EQ(ids(), std::vector<std::string>{"msg_1"});
    EXPECT_EQ(last_headers_.find("webhook-signature"), std::string::npos);
    EXPECT_EQ(last_topic_, "/hooks/a");
}

TEST_F(WebhookSource, a_plain_hmac_must_hold_in_hex_or_base64) {
    settings_.set("hmac_secret", "it's a secret");
    settings_.set("hmac_header", "X-Signature");
    start();
    const std::string digest = wire::hmac_sha256("it's a secret", "{}");
    const auto with = [&](const std::string& value, const std::string& id) {
        return post({{"X-Signature", value},
                     {"Idempotency-Key", id},
                     {"Authorization", "Basic x"},
                     {"Colour", "red"}},
                    "{}");
    };
    EXPECT_EQ(with(to_hex(digest), "a"), 204);
    EXPECT_EQ(with("sha256=" + to_hex(digest), "b"), 204);
    EXPECT_EQ(with(wire::base64_encode(digest), "c"), 204);
    EXPECT_EQ(with(to_hex(wire::hmac_sha256("it's another", "{}")), "d"), 401);
    EXPECT_EQ(with("", "e"), 401);
    EXPECT_EQ(ids(), (std::vector<std::string>{"a", "b", "c"}));
    const auto headers = json::parse(last_headers_);
    EXPECT_EQ(headers.count("x-signature") + headers.count("authorization"), 0U) << "secrets stay here";
    EXPECT_EQ(headers.at("colour"), "red");
}

TEST_F(WebhookSource, a_bearer_token_must_be_the_right_one) {
    settings_.set("token", "s3cret");
    start();
    EXPECT_EQ(post({{"Authorization", "Bearer s3cret"}}, "{}"), 204);
    EXPECT_EQ(post({{"Authorization", "bearer s3cret"}}, "[]"), 204);
    EXPECT_EQ(post({{"Authorization", "Bearer s3cre"}}, "{}"), 401);
    EXPECT_EQ(post({{"Authorization", "Bearer s3crets"}}, "{}"), 401);
    EXPECT_EQ(post({{"Authorization", "s3cret"}}, "{}"), 401);
    EXPECT_EQ(post({}, "{}"), 401);
    EXPECT_EQ(ids().size(), 2U);
}

TEST_F(WebhookSource, whatever_is_not_for_it_is_refused_before_it_is_kept) {
    settings_.set("auth", "none");
    settings_.set("max_body", std::int64_t{1000});
    start();
    EXPECT_EQ(post({}, "{}", "/elsewhere"), 404);
    EXPECT_EQ(client_.Get("/hooks/a")->status, 405);
    EXPECT_EQ(post({}, std::string(1001, 'x')), 413);
    EXPECT_EQ(post({}, ""), 400) << "there is nothing to keep";
    EXPECT_TRUE(ids().empty());
    EXPECT_EQ(post({}, std::string(1000, 'x')), 204);
    EXPECT_EQ(post({{"webhook-id", "empty"}}, ""), 204);
}

TEST_F(WebhookSource, whatever_is_settled_when_it_ends_is_answered) {
    settings_.set("auth", "none");
    settling_ = false;
    start();
    std::vector<std::future<int>> answers;
    for (int i = 0; i < 24; ++i)
        answers.push_back(std::async(std::launch::async, [this, i] {
            httplib::Client client("127.0.0.1", port_);
            client.set_read_timeout(60s);
            const auto answer =
                client.Post("/hooks/a", {{"webhook-id", std::to_string(i)}}, "{}", "application/json");
            return answer ? answer->status : -1;
        }));
    wait_until("all have come", [&] { return ids().size() == answers.size(); });
    settle_at_end_ = true;
    stop();
    for (auto& answer : answers) EXPECT_EQ(answer.get(), 204);
}

TEST_F(WebhookSource, tls_is_spoken_where_there_is_a_certificate) {
    const TemporaryFolder folder;
    const auto certificate = make_certificate(folder.path());
    settings_.set("auth", "none");
    settings_.set("tls_cert", certificate.cert.string());
    settings_.set("tls_key", certificate.key.string());
    start();
    httplib::SSLClient client("localhost", port_);
    client.set_ca_cert_path(certificate.cert.c_str());
    client.enable_server_certificate_verification(true);
    const auto answer = client.Post("/hooks/a", {{"webhook-id", "a"}}, "{}", "application/json");
    ASSERT_TRUE(answer) << httplib::to_string(answer.error());
    EXPECT_EQ(answer->status, 204);
    EXPECT_EQ(ids(), std::vector<std::string>{"a"});
    const auto plain = client_.Post("/hooks/a", {{"webhook-id", "b"}}, "{}", "application/json");
    EXPECT_FALSE(plain && plain->status == 204) << "nothing is taken in the clear";
}

TEST_F(WebhookSource, what_is_not_settled_in_time_is_answered_with_503) {
    settings_.set("auth", "none");
    settings_.set("answer_timeout", "100ms");
    settling_ = false;
    start();
    EXPECT_EQ(post({{"webhook-id", "a"}}, "{}"), 503);
    EXPECT_EQ(retry_after_, "1");
    settling_ = true;
    EXPECT_EQ(post({{"webhook-id", "a"}}, "{}"), 204) << "and may come again, with the same id";
    EXPECT_EQ(ids(), (std::vector<std::string>{"a", "a"}));
}

TEST_F(WebhookSource, settings_that_cannot_work_are_refused) {
    const auto refused = [&](const std::string& key, const relay::Settings::Value& value) {
        auto settings = settings_;
        settings.set("token", "t");
        settings.set(key, value);
        EXPECT_THROW(brokers::make_source(settings, {"in", "one"}), relay::SettingsError) << key;
    };
    EXPECT_THROW(brokers::make_source(settings_, {"in", "one"}), relay::SettingsError) << "whoever comes";
    refused("listen", "8080");
    refused("listen", "localhost:x");
    refused("path", "hooks");
    refused("secret", "not whsec_");
    refused("auth", "none");
    refused("token", "");
    refused("token", "per%cent");
    refused("max_body", std::int64_t{0});
    refused("tls_cert", "/only/one.pem");
    refused("sekret", "typo");
}

}  // namespace baton::test
