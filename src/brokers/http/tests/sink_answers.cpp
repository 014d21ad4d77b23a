// What the http sink makes of a receiver's answer: a status, a redirect, half an answer, or none.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <thread>

#include "brokers/http/tests/sink_case.hpp"

namespace baton::test {

namespace {

using relay::Verdict;

TEST_F(HttpSinkTest, the_status_decides_what_becomes_of_a_message) {
    const std::map<int, Verdict> verdicts{
        {200, Verdict::delivered}, {201, Verdict::delivered}, {202, Verdict::delivered},
        {204, Verdict::delivered}, {301, Verdict::shut},      {304, Verdict::shut},
        {307, Verdict::shut},      {400, Verdict::rejected},  {401, Verdict::shut},
        {403, Verdict::shut},      {404, Verdict::shut},      {405, Verdict::shut},
        {408, Verdict::retry},     {409, Verdict::rejected},  {410, Verdict::shut},
        {413, Verdict::rejected},  {415, Verdict::rejected},  {422, Verdict::rejected},
        {425, Verdict::retry},     {429, Verdict::retry},     {500, Verdict::retry},
        {502, Verdict::retry},     {503, Verdict::retry},     {504, Verdict::retry}};
    for (const auto& [status, verdict] : verdicts) {
        receiver_.answer_with([status = status](const WebhookRequest&) {
            return WebhookAnswer{status, "because of this", {}};
        });
        const auto delivery = deliver_one();
        EXPECT_EQ(delivery.verdict, verdict) << status;
        if (verdict == Verdict::delivered) {
            EXPECT_EQ(delivery.error, "");
        } else if (status != 304) {
            EXPECT_EQ(delivery.error, "HTTP " + std::to_string(status) + ": because of this");
        }
        EXPECT_FALSE(delivery.retry_after.has_value());
    }
}

TEST_F(HttpSinkTest, a_redirect_is_not_followed) {
    WebhookReceiver elsewhere;
    elsewhere.start();
    const std::string target = "http://127.0.0.1:" + std::to_string(elsewhere.port()) + "/";
    receiver_.answer_with([&](const WebhookRequest&) {
        return WebhookAnswer{308, "", {{"Location", target}}};
    });
    EXPECT_EQ(deliver_one().verdict, Verdict::shut);
    EXPECT_EQ(elsewhere.requests(), 0U);
}

TEST_F(HttpSinkTest, retry_after_is_understood_as_seconds_and_as_a_date) {
    receiver_.answer_with([](const WebhookRequest&) {
        return WebhookAnswer{429, "", {{"Retry-After", "17"}}};
    });
    EXPECT_EQ(deliver_one().retry_after, std::chrono::seconds(17));
    char date[64];
    const std::time_t then = std::time(nullptr) + 3000;
    std::tm parts{};
    gmtime_r(&then, &parts);
    std::strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    receiver_.answer_with([&](const WebhookRequest&) {
        return WebhookAnswer{503, "", {{"Retry-After", date}}};
    });
    const auto delivery = deliver_one();
    ASSERT_TRUE(delivery.retry_after.has_value());
    EXPECT_LE(*delivery.retry_after, std::chrono::seconds(3000));
    EXPECT_GT(*delivery.retry_after, std::chrono::seconds(2000));
    receiver_.answer_with([&](const WebhookRequest&) {
        return WebhookAnswer{200, "", {{"Retry-After", "5"}}};
    });
    EXPECT_FALSE(deliver_one().retry_after.has_value());
}

TEST_F(HttpSinkTest, a_receiver_that_never_answers_is_given_up) {
    settings_.set("timeout", "200ms");
    receiver_.hold();
    const auto delivery = deliver_one();
    EXPECT_EQ(delivery.verdict, Verdict::retry);
    EXPECT_NE(delivery.error.find("timed out"), std::string::npos) << delivery.error;
}

// Says the same to whoever comes, and then nothing more.
class HalfAnswer {
  public:
    explicit HalfAnswer(std::string words) : words_(std::move(words)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<std::uint16_t>(port_));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
            ::listen(listener_, 8) != 0)
            throw Error("cannot listen");
        thread_ = std::thread([this] {
            for (int client = 0; (client = ::accept(listener_, nullptr, nullptr)) >= 0;) {
                std::array<char, 4096> request{};
                [[maybe_unused]] const auto got = ::recv(client, request.data(), request.size(), 0);
                ::send(client, words_.data(), words_.size(), MSG_NOSIGNAL);
                clients_.push_back(client);
            }
        });
    }
    ~HalfAnswer() {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        for (const int client : clients_) ::close(client);
        ::close(listener_);
    }
    HalfAnswer(const HalfAnswer&) = delete;
    HalfAnswer& operator=(const HalfAnswer&) = delete;
    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }

  private:
    std::string words_;
    int port_ = find_free_port();
    int listener_ = -1;
    std::vector<int> clients_;
    std::thread thread_;
};

TEST_F(HttpSinkTest, a_status_holds_although_the_body_after_it_never_ends) {
    settings_.set("timeout", "500ms");
    const std::vector<std::pair<std::string, Verdict>> answers{
        {"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx", Verdict::delivered},
        {"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", Verdict::delivered},
        {"HTTP/1.1 422 No\r\nContent-Length: 1000\r\n\r\nx", Verdict::rejected},
        {"HTTP/1.1 200 OK\r\nX: y\r\n", Verdict::retry},
        {"HTTP/1.1 103 Early Hints\r\n\r\n", Verdict::retry},
    };
    for (const auto& [words, verdict] : answers) {
        const HalfAnswer receiver(words);
        settings_.set("url", receiver.url());
        EXPECT_EQ(deliver_one().verdict, verdict) << words;
    }
}

TEST_F(HttpSinkTest, an_endless_answer_does_not_fill_memory) {
    receiver_.answer_with([](const WebhookRequest&) {
        return WebhookAnswer{500, std::string(8 << 20, 'e'), {}};
    });
    const auto delivery = deliver_one();
    EXPECT_EQ(delivery.verdict, Verdict::retry);
    EXPECT_LT(delivery.error.size(), 1000U);
}

}  // namespace

}  // namespace baton::test
