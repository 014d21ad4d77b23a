// The parts of the http sink that need no server.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

#include "baton/error.hpp"
#include "brokers/http/message.hpp"
#include "brokers/http/webhook_signature.hpp"
#include "event/json.hpp"
#include "wire/address_guard.hpp"
#include "wire/encoding.hpp"
#include "wire/url.hpp"

namespace baton::brokers {

using namespace wire;

namespace {

bool is_private(const char* text) {
    sockaddr_storage storage{};
    auto* four = reinterpret_cast<sockaddr_in*>(&storage);
    auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
    } else {
        EXPECT_EQ(inet_pton(AF_INET6, text, &six->sin6_addr), 1) << text;
        six->sin6_family = AF_INET6;
    }
    EXPECT_EQ(show_address(*reinterpret_cast<const sockaddr*>(&storage)), text);
    return is_private_address(*reinterpret_cast<const sockaddr*>(&storage));
}

// The example that the specification's libraries share.
TEST(WebhookSignature, the_known_example_is_signed_as_everybody_signs_it) {
    const WebhookSigner signer({"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"});
    EXPECT_EQ(signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", R"({"test": 2432232314})"),
              "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

TEST(WebhookSignature, each_secret_of_a_rotation_signs) {
    const std::string first = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const std::string second = "whsec_" + base64_encode(std::string(32, 'k'));
    EXPECT_EQ(
        WebhookSigner({first, second}).sign("id", "1", "b"),
        WebhookSigner({first}).sign("id", "1", "b") + " " + WebhookSigner({second}).sign("id", "1", "b"));
    EXPECT_TRUE(WebhookSigner({}).empty());
}

TEST(WebhookSignature, secrets_in_another_form_are_refused_without_being_shown) {
    for (const std::string& bad :
         {std::string("plain-text-secret"), std::string("whsec_!!!!"), "whsec_" + base64_encode("short"),
          "whsec_" + base64_encode(std::string(65, 'x'))}) {
        try {
            const WebhookSigner signer({bad});
            ADD_FAILURE() << bad << " was taken";
        } catch (const UsageError& error) {
            EXPECT_EQ(std::string(error.what()).find(bad), std::string::npos);
        }
    }
}

TEST(AddressGuard, private_addresses_are_known_in_every_wrapping) {
    for (const char* address : {"0.0.0.0",
                                "10.1.2.3",
                                "100.64.0.1",
                                "127.0.0.1",
                                "127.255.255.255",
                                "169.254.169.254",
                                "172.16.0.1",
                                "172.31.255.255",
                                "192.168.0.1",
                                "198.18.0.1",
                                "224.0.0.1",
                                "255.255.255.255",
                                "::",
                                "::1",
                                "fe80::1",
                                "fc00::1",
                                "fd12:3456::1",
                                "ff02::1",
                                "::ffff:127.0.0.1",
                                "::ffff:10.0.0.1",
                                "64:ff9b::a00:1",
                                "2002:7f00:1::",
                                "2002:a9fe:a9fe::1",
                                "2001:db8::1"})
        EXPECT_TRUE(is_private(address)) << address;
}

TEST(AddressGuard, public_addresses_pass) {
    for (const char* address : {"1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.1", "100.128.0.1",
                                "192.169.0.1", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001::1",
                                "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"})
        EXPECT_FALSE(is_private(address)) << address;
}

TEST(AddressGuard, what_is_not_ip_is_refused) {
    sockaddr local{};
    local.sa_family = AF_UNIX;
    EXPECT_TRUE(is_private_address(local));
}

TEST(HttpHeaders, a_value_cannot_begin_another_header) {
    EXPECT_EQ(encode_header_value("a\r\nX-Evil: 1", false), "a%0D%0AX-Evil: 1");
    EXPECT_EQ(encode_header_name("a: b\r\nc"), "a%3A%20b%0D%0Ac");
    EXPECT_EQ(encode_header_value(std::string("\0", 1), false), "%00");
}

TEST(HttpHeaders, plain_values_stay_as_they_are_and_the_rest_can_be_decoded) {
    EXPECT_EQ(encode_header_value("two words; q=\"1\"", false), "two words; q=\"1\"");
    EXPECT_EQ(encode_header_value(" 100% ü ", false), "%20100%25 %C3%BC%20");
    EXPECT_EQ(encode_header_value("Euro%20%E2%82%AC\n", true), "Euro%20%E2%82%AC%0A")
        << "encoded by the envelope";
}

TEST(HttpHeaders, an_event_cannot_replace_the_headers_of_the_request) {
    HttpMessage message;
    message.message_id = "m";
    message.url = "http://example.com/";
    message.body = "{}";
    message.headers = {
        {"Content-Length", "0"}, {"HOST", "evil"}, {"Webhook-Signature", "v1,x"}, {"fine", ""}};
    const auto request = HttpComposer(WebhookSigner({}), {}).single(message);
    const auto has = [&](const std::string& line) {
        return std::find(request.headers.begin(), request.headers.end(), line) != request.headers.end();
    };
    EXPECT_TRUE(has("event-Content-Length: 0"));
    EXPECT_TRUE(has("event-HOST: evil"));
    EXPECT_TRUE(has("event-Webhook-Signature: v1,x"));
    EXPECT_TRUE(has("fine;"));
    EXPECT_FALSE(has("HOST: evil"));
}

TEST(HttpBatch, structured_cloud_events_become_a_cloud_events_batch) {
    std::vector<HttpMessage> messages(2);
    for (auto& message : messages) {
        message.content_type = "application/cloudevents+json; charset=utf-8";
        message.body = R"({"specversion":"1.0"})";
    }
    const auto request = HttpComposer(WebhookSigner({}), {}).batch(messages);
    EXPECT_EQ(request.own_body, R"([{"specversion":"1.0"},{"specversion":"1.0"}])");
    EXPECT_EQ(request.headers.front(), "content-type: application/cloudevents-batch+json");
}

TEST(HttpBatch, the_same_messages_have_the_same_batch_id_and_others_another) {
    std::vector<HttpMessage> messages(2);
    messages[0].message_id = "a";
    messages[1].message_id = "b";
    const HttpComposer composer(WebhookSigner({}), {});
    const auto id = [&] { return composer.batch(messages).headers[1]; };
    const std::string first = id();
    EXPECT_TRUE(first.starts_with("webhook-id: batch_")) << first;
    EXPECT_EQ(first, id());
    messages[1].message_id = "c";
    EXPECT_NE(first, id());
}

TEST(Encoding, utf8_is_told_from_other_bytes) {
    for (const char* good : {"", "plain", "größe", "鍵", "🚲", "\xF4\x8F\xBF\xBF"})
        EXPECT_TRUE(is_utf8(good)) << good;
    for (const char* bad : {"\x80", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC3",
                            "a\xFF", "\xF0\x9F\x9A"})
        EXPECT_FALSE(is_utf8(bad));
}

TEST(Encoding, base64_goes_both_ways) {
    for (std::size_t size = 0; size < 70; ++size) {
        std::string bytes;
        for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(i * 37);
        EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes);
    }
    EXPECT_EQ(base64_encode("any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
    EXPECT_FALSE(base64_decode("abc").has_value());
    for (const char* bad : {"ab!d", "====", "==QY", "a===", "=AAA", "YWJj    ", "    YWJj", "YQ==YQ=="})
        EXPECT_FALSE(base64_decode(bad).has_value()) << bad;
}

TEST(Url, its_parts_are_found) {
    const Url url = parse_url("amqps://us%40er:p%3Ass@[::1]:5671/my%2Fhost");
    EXPECT_EQ(url.scheme, "amqps");
    EXPECT_EQ(url.user, "us@er");
    EXPECT_EQ(url.password, "p:ss");
    EXPECT_EQ(url.host, "::1");
    EXPECT_EQ(url.port, 5671);
    EXPECT_EQ(url.path, "my/host");
    EXPECT_EQ(parse_url("redis://localhost").port, 0);
    EXPECT_THROW(parse_url("localhost:6379"), UsageError);
    EXPECT_THROW(parse_url("redis://:6379"), UsageError);
    EXPECT_THROW(parse_url("redis://h:99999"), UsageError);
    EXPECT_THROW(parse_url("redis://h:0"), UsageError);
    EXPECT_THROW(parse_url("redis://h:63 79"), UsageError);
}

TEST(Url, no_path_and_an_empty_one_are_two_things) {
    EXPECT_FALSE(parse_url("amqp://h").has_path);
    EXPECT_TRUE(parse_url("amqp://h/").has_path);
    EXPECT_EQ(parse_url("amqp://h/").path, "");
    EXPECT_EQ(parse_url("amqp://h/%2F").path, "/");
    EXPECT_EQ(parse_url("amqp://h/a/../b").path, "a/../b") << "it is a name, not a place";
}

TEST(Url, what_would_be_cut_off_is_refused_and_the_password_is_not_told) {
    for (const char* bad :
         {"redis://:p#secret@h:6379", "redis://:p?secret@h:6379", "redis://:p/secret@h:6379",
          "amqp://h/host?secret=30", "redis://:secret@", "redis://u:secret@h:port"})
        try {
            parse_url(bad);
            ADD_FAILURE() << bad;
        } catch (const UsageError& error) {
            EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
        }
}

}  // namespace

}  // namespace baton::brokers
