// Requests that the http source does not take as they come: too large, too slow, too many, or in another
// form.

#include <fstream>
#include <future>

#include "brokers/http/tests/source_case.hpp"
#include "support/cluster.hpp"
#include "support/drip.hpp"
#include "wire/encoding.hpp"

namespace baton::test {

namespace {

using namespace std::string_literals;

// The most memory that this process ever had.
std::size_t peak_memory() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6)) * 1024;
    return 0;
}

std::uint32_t crc32(const std::string& bytes) {
    std::uint32_t crc = ~0U;
    for (const char c : bytes) {
        crc ^= static_cast<unsigned char>(c);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
    }
    return ~crc;
}

std::string little_endian(std::uint32_t value) {
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8U * static_cast<unsigned>(i)) & 0xFFU);
    return bytes;
}

}  // namespace

TEST_F(WebhookSource, a_compressed_body_is_kept_as_it_was_and_one_that_cannot_be_read_is_refused) {
    settings_.set("auth", "none");
    start();
    const std::string body = R"({"order": 1})";
    const std::string gzipped = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03"s + "\x01\x0c\x00\xf3\xff"s + body +
                                little_endian(crc32(body)) +
                                little_endian(static_cast<std::uint32_t>(body.size()));
    EXPECT_EQ(post({{"webhook-id", "a"}, {"Content-Encoding", "gzip"}}, gzipped), 204);
    EXPECT_EQ(last_payload(), body);
    EXPECT_EQ(post({{"webhook-id", "b"}, {"Content-Encoding", "zstd"}}, "whatever"), 415);
    EXPECT_EQ(post({{"webhook-id", "c"}, {"Content-Encoding", "gzip"}}, "no gzip"), 400);
    EXPECT_EQ(post({{"webhook-id", "d"}, {"Content-Encoding", "identity"}}, body), 204);
    EXPECT_EQ(ids(), (std::vector<std::string>{"a", "d"}));
}

// A gzip stream of zeros, about 160 times as long when it is unpacked.
std::string make_bomb(std::size_t size) {
    std::string bomb = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03"s;
    unsigned byte = 0;
    int bits = 0;
    const auto put = [&](const char* code) {
        for (; *code != '\0'; ++code) {
            byte |= static_cast<unsigned>(*code - '0') << static_cast<unsigned>(bits);
            if (++bits < 8) continue;
            bomb += static_cast<char>(byte);
            byte = 0;
            bits = 0;
        }
    };
    put("110");                                       // the last block, with the fixed codes
    put("00110000");                                  // a zero
    while (bomb.size() < size) put("1100010100000");  // the last byte 258 times more
    return bomb;
}

TEST_F(WebhookSource, a_body_that_grows_when_it_is_unpacked_is_cut_off_before_anybody_is_asked_who_it_is) {
    settings_.set("token", "secret");
    start();
    const std::string bomb = make_bomb(1'000'000);
    const auto before = peak_memory();
    EXPECT_EQ(post({{"webhook-id", "a"}, {"Content-Encoding", "gzip"}}, bomb), 413);
    EXPECT_LT(peak_memory() - before, 64U << 20);
}

TEST_F(WebhookSource, a_body_in_pieces_and_a_head_without_end_are_cut_off) {
    settings_.set("auth", "none");
    start();
    const std::string piece = "10000\r\n" + std::string(0x10000, 'x') + "\r\n";
    const std::string line = "a: " + std::string(1000, 'b') + "\r\n";
    for (const auto& [head, more] :
         {std::pair("POST /hooks/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"s, piece),
          std::pair("POST /hooks/a HTTP/1.1\r\n"s, line)}) {
        RawConnection connection(port_);
        connection.send(head);
        std::size_t sent = 0;
        while (sent < (256U << 20) && connection.send(more)) sent += more.size();
        EXPECT_LT(sent, 256U << 20) << head;
    }
    EXPECT_EQ(post({{"webhook-id", "a"}}, "{}"), 204);
    EXPECT_EQ(ids(), std::vector<std::string>{"a"});
}

TEST_F(WebhookSource, a_form_in_parts_is_refused_and_not_kept_as_an_empty_message) {
    settings_.set("auth", "none");
    start();
    const std::string body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nwanted\r\n--x--\r\n";
    const auto answer =
        client_.Post("/hooks/a", {{"webhook-id", "a"}}, body, "multipart/form-data; boundary=x");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 415);
    EXPECT_TRUE(ids().empty());
}

TEST_F(WebhookSource, whoever_sends_slowly_holds_up_nobody_and_does_not_keep_it_from_ending) {
    settings_.set("auth", "none");
    settings_.set("max_pending", std::int64_t{4});
    start();
    const Dripping drip(port_, 60);
    for (const auto* id : {"a", "b", "c"}) EXPECT_EQ(post({{"webhook-id", id}}, "{}"), 204);
    stop();
}

TEST_F(WebhookSource, a_request_that_does_not_arrive_in_time_is_given_up) {
    settings_.set("auth", "none");
    settings_.set("request_timeout", "100ms");
    start();
    RawConnection connection(port_);
    connection.send("POST /hooks/a HTTP/1.1\r\n");
    EXPECT_NE(connection.hear("\r\n\r\n").find(" 408 "), std::string::npos) << "no fault of the message";
    wait_until("the connection is closed", [&] { return !connection.send("a"); });
}

TEST_F(WebhookSource, a_request_that_has_not_arrived_when_it_ends_is_to_come_again) {
    settings_.set("auth", "none");
    settings_.set("request_timeout", "1h");
    start();
    std::future<void> ended;
    RawConnection connection(port_);
    connection.send("POST /hooks/a HTTP/1.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
    EXPECT_NE(connection.hear("\r\n\r\n").find(" 100 "), std::string::npos);
    connection.send("{\"a\":");
    ended = std::async(std::launch::async, [this] { stop(); });
    wait_until("it ends without the rest", [&] { return ended.wait_for(0s) == std::future_status::ready; });
    EXPECT_NE(connection.hear("send it again").find(" 503 "), std::string::npos) << connection.hear("");
    EXPECT_NE(connection.hear("").find("Retry-After: "), std::string::npos);
    EXPECT_EQ(ids(), std::vector<std::string>{});
}

TEST_F(WebhookSource, too_many_at_once_are_told_to_come_again) {
    settings_.set("auth", "none");
    settings_.set("max_pending", std::int64_t{2});
    settings_.set("answer_timeout", "30s");
    settling_ = false;
    start();
    std::vector<std::thread> senders;
    std::atomic<int> unsettled{0};
    for (const auto* id : {"a", "b"})
        senders.emplace_back([&, id] {
            httplib::Client client("127.0.0.1", port_);
            client.set_read_timeout(60s);
            const auto answer = client.Post("/hooks/a", {{"webhook-id", id}}, "{}", "application/json");
            if (answer && answer->status == 503) ++unsettled;
        });
    wait_until("both wait", [&] { return ids().size() == 2; });
    EXPECT_EQ(post({{"webhook-id", "c"}}, "{}"), 429);
    EXPECT_EQ(retry_after_, "1");
    stop();
    for (auto& sender : senders) sender.join();
    EXPECT_EQ(unsettled, 2) << "whoever was not settled is told so when the relay stops";
}

}  // namespace baton::test
