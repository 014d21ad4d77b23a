// What becomes of messages at servers that refuse some: a server of the test's own, which does to a message
// what its body says, because mosquitto gives few of these answers.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <thread>

#include "brokers/mqtt/packet.hpp"
#include "brokers/mqtt/sink.hpp"
#include "support/cluster.hpp"

namespace baton::test {

namespace {

using namespace std::chrono_literals;
using relay::Verdict;

// Answers a message with the reason code that its body begins with, or hangs up with that code when "!"
// stands before it.
class Scripted {
  public:
    Scripted() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
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
    static bool answer(int client, const brokers::MqttPacket& packet) {
        if (packet.type == brokers::MqttType::connect) return say(client, std::string("\x20\x03\0\0\0", 5));
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

}  // namespace

}  // namespace baton::test
