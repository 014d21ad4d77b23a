// What becomes of messages at servers that refuse some, or use a packet id again at once: a server of the
// test's own, which does to a message what its body says, because mosquitto does little of this.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "brokers/mqtt/packet.hpp"
#include "brokers/mqtt/sink.hpp"
#include "brokers/mqtt/source.hpp"
#include "support/cluster.hpp"

namespace baton::test {

namespace {

using namespace std::chrono_literals;
using relay::Verdict;

// Answers a message with the reason code that its body begins with, or hangs up with that code when "!"
// stands before it. A subscriber gets these packets, one for each connection, and is hung up on when it
// acknowledges.
class Scripted {
  public:
    explicit Scripted(std::deque<std::string> packets = {})
        : packets_(std::move(packets)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
            ::listen(listener_, 16) != 0 ||
            ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
            throw Error("cannot listen");
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { serve(); });
    }
    ~Scripted() {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
    }
    Scripted(const Scripted&) = delete;
    Scripted& operator=(const Scripted&) = delete;
    std::string url() const { return "mqtt://127.0.0.1:" + std::to_string(port_); }

  private:
    // One client after the other.
    void serve() {
        for (;;) {
            const int client = ::accept(listener_, nullptr, nullptr);
            if (client < 0) return;
            std::string in;
            std::array<char, 4096> buffer{};
            bool open = true;
            while (open) {
                const auto got = ::recv(client, buffer.data(), buffer.size(), 0);
                if (got <= 0) break;
                in.append(buffer.data(), static_cast<std::size_t>(got));
                std::size_t at = 0;
                while (open) {
                    const auto packet = brokers::take_mqtt_packet(in, at);
                    if (!packet) break;
                    open = answer(client, *packet);
                }
                in.erase(0, at);
            }
            ::close(client);
        }
    }
    bool answer(int client, const brokers::MqttPacket& packet) {
        if (packet.type == brokers::MqttType::connect) return say(client, std::string("\x20\x03\0\0\0", 5));
        if (packet.type == brokers::MqttType::subscribe) {
            std::string bytes("\x90\x04\0\1\0\1", 6);
            if (!packets_.empty()) bytes += packets_.front();
            if (!packets_.empty()) packets_.pop_front();
            return say(client, bytes);
        }
        if (packet.type == brokers::MqttType::puback) return false;
        if (packet.type != brokers::MqttType::publish) return true;
        const auto message = brokers::read_publish(packet.flags, packet.body);
        const bool hangs_up = message.body.starts_with('!');
        const char code =
            static_cast<char>(std::stoi(std::string(message.body.substr(hangs_up)), nullptr, 16));
        if (hangs_up) {
            say(client, std::string{static_cast<char>(0xE0), 1, code});
            return false;
        }
        return say(client, std::string{0x40, 3, static_cast<char>(message.packet_id >> 8),
                                       static_cast<char>(message.packet_id & 0xFF), code});
    }
    static bool say(int client, const std::string& bytes) {
        return ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0;
    }

    std::deque<std::string> packets_;
    int listener_;
    int port_ = 0;
    std::thread thread_;
};

// Send a message with each of these bodies; those that come back to be tried again are sent again as often as
// `may_go_on` says.
std::map<std::string, relay::Delivery> deliver(relay::Sink& sink, const std::vector<std::string>& bodies,
                                               const std::function<bool()>& may_go_on) {
    std::map<std::string, relay::Delivery> fates;
    wait_until("every message has found its fate", [&] {
        std::vector<Message> messages;
        for (std::size_t i = 0; i < bodies.size(); ++i) {
            const auto fate = fates.find(bodies[i]);
            if (fate != fates.end() && fate->second.verdict != Verdict::retry) continue;
            Message& message = messages.emplace_back();
            message.ticket = i;
            message.message_id = "m" + std::to_string(i);
            message.destination = "t";
            message.body = bodies[i];
        }
        if (messages.empty()) return true;
        sink.send(messages);
        std::vector<relay::Delivery> deliveries;
        wait_until("every message is reported", [&] {
            sink.collect(deliveries, 20ms);
            return deliveries.size() >= messages.size();
        });
        for (auto& delivery : deliveries) fates.insert_or_assign(bodies[delivery.ticket], delivery);
        return !may_go_on();
    });
    return fates;
}

std::unique_ptr<relay::Sink> sink_to(const Scripted& server) {
    relay::Settings settings("sink");
    settings.set("url", server.url());
    return brokers::make_mqtt_sink(settings);
}

TEST(MqttRefusals, a_reason_code_says_whose_fault_it_is) {
    const Scripted server;
    const auto sink = sink_to(server);
    EXPECT_FALSE(sink->traits().keeps_order_after_failure) << "the server takes what follows a refused one";
    const std::map<std::string, Verdict> expected{
        {"00", Verdict::delivered}, {"10", Verdict::delivered}, {"87", Verdict::shut},
        {"90", Verdict::shut},      {"95", Verdict::rejected},  {"99", Verdict::rejected},
        {"97", Verdict::retry},     {"80", Verdict::retry},     {"83", Verdict::retry},
    };
    std::vector<std::string> bodies;
    for (const auto& [body, verdict] : expected) bodies.push_back(body);
    auto fates = deliver(*sink, bodies, [] { return false; });
    for (const auto& [body, verdict] : expected) {
        ASSERT_TRUE(fates.contains(body)) << body;
        EXPECT_EQ(fates[body].verdict, verdict) << body << " " << fates[body].error;
        EXPECT_EQ(fates[body].error.empty(), verdict == Verdict::delivered) << body;
    }
}

TEST(MqttRefusals, the_message_that_a_server_hangs_up_on_is_found_and_the_others_go_on) {
    const Scripted server;
    const auto sink = sink_to(server);
    auto fates = deliver(*sink, {"00 a", "00 b", "!95", "00 c", "00 d"}, [] { return true; });
    EXPECT_EQ(fates["!95"].verdict, Verdict::rejected);
    EXPECT_NE(fates["!95"].error.find("packet too large"), std::string::npos) << fates["!95"].error;
    for (const char* good : {"00 a", "00 b", "00 c", "00 d"})
        EXPECT_EQ(fates[good].verdict, Verdict::delivered) << good << " " << fates[good].error;
}

TEST(MqttRefusals, a_server_that_hangs_up_for_its_own_sake_rejects_nothing) {
    const Scripted server;
    const auto sink = sink_to(server);
    auto fates = deliver(*sink, {"!8b"}, [left = 5]() mutable { return --left > 0; });
    EXPECT_EQ(fates["!8b"].verdict, Verdict::retry);
}

TEST(MqttRefusals, a_packet_id_that_was_acknowledged_may_come_again_with_another_message) {
    // Both say 21 and have no id of their own. The server has heard that the first one is settled; the second
    // one gets lost with its connection, so that it comes only as one that was sent before.
    const std::string first(
        "\x32\x08\0\1t\0\1\0"
        "21",
        10);
    const std::string second(
        "\x3A\x08\0\1t\0\1\0"
        "21",
        10);
    const Scripted server({first, second});
    relay::Settings settings("source");
    settings.set("url", server.url());
    settings.set("topics", std::vector<std::string>{"#"});
    const auto source = brokers::make_mqtt_source(settings, {"in", "one"});
    const auto read = [](relay::Feed& feed) {
        relay::BatchPtr batch;
        wait_until("a message comes", [&] { return (batch = feed.read(20ms)) != nullptr; });
        return batch;
    };
    auto feed = source->open();
    const auto one = read(*feed);
    feed->settle(one, 1, {});
    wait_until("the server hangs up", [&] {
        try {
            feed->read(20ms);
            return false;
        } catch (const ConnectionError&) {
            return true;
        }
    });
    feed = source->open();
    const auto two = read(*feed);
    EXPECT_NE(two->events[0].event_id, one->events[0].event_id);
}

}  // namespace

}  // namespace baton::test
