#pragma once
// MQTT 5 on the wire, as far as a client with QoS 1 needs it: packets written and taken apart. What a server
// sends is never trusted: whatever is cut off, too long or of the wrong kind throws ConnectionError.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "event/event.hpp"

namespace baton::brokers {

enum class MqttType : std::uint8_t {
    connect = 1,
    connack = 2,
    publish = 3,
    puback = 4,
    subscribe = 8,
    suback = 9,
    pingreq = 12,
    pingresp = 13,
    disconnect = 14,
};

// Reason codes that somebody asks for by name.
namespace mqtt_reason {
constexpr std::uint8_t malformed_packet = 0x81;
constexpr std::uint8_t protocol_error = 0x82;
constexpr std::uint8_t unsupported_version = 0x84;
constexpr std::uint8_t client_id_not_valid = 0x85;
constexpr std::uint8_t bad_login = 0x86;
constexpr std::uint8_t not_authorized = 0x87;
constexpr std::uint8_t banned = 0x8A;
constexpr std::uint8_t bad_authentication_method = 0x8C;
constexpr std::uint8_t session_taken_over = 0x8E;
constexpr std::uint8_t topic_filter_invalid = 0x8F;
constexpr std::uint8_t topic_name_invalid = 0x90;
constexpr std::uint8_t packet_too_large = 0x95;
constexpr std::uint8_t payload_format_invalid = 0x99;
constexpr std::uint8_t retain_not_supported = 0x9A;
constexpr std::uint8_t qos_not_supported = 0x9B;
constexpr std::uint8_t shared_not_supported = 0x9E;
constexpr std::uint8_t wildcards_not_supported = 0xA2;
}  // namespace mqtt_reason

// From this code on, a reason code is a failure.
constexpr std::uint8_t mqtt_failure = 0x80;
// The longest text that a packet can carry.
constexpr std::size_t mqtt_longest_text = 65535;

// Say a reason code in the words of the standard.
std::string mqtt_reason_text(std::uint8_t code);

struct MqttPacket {
    MqttType type{};
    std::uint8_t flags = 0;
    std::string body;  // after the fixed header
};

// Take the next whole packet out of the bytes from `at` on, and move `at` behind the packet; nothing while
// the packet is not all there.
std::optional<MqttPacket> take_mqtt_packet(std::string_view bytes, std::size_t& at);

// What a client says of itself.
struct MqttHello {
    std::string client_id;  // empty: the server makes one up
    std::string user, password;
    bool has_user = false, has_password = false;
    bool clean_start = true;
    std::uint32_t session_expiry = 0;  // in seconds
    std::uint16_t receive_maximum = 65535;
    std::uint16_t keep_alive = 0;  // in seconds; 0: none
};
std::string write_connect(const MqttHello& hello);

struct MqttWelcome {
    std::uint8_t reason = 0;
    std::string words;  // the server's own
    bool session_present = false;
    std::uint16_t receive_maximum = 65535;
    std::size_t max_packet = 0;  // 0: no limit
    std::uint8_t max_qos = 2;
    bool retains = true;
    std::optional<std::uint32_t> session_expiry;  // when the server changed it
    std::optional<std::uint16_t> keep_alive;      // likewise
};
MqttWelcome read_connack(const MqttPacket& packet);

// A PUBLISH with QoS 1 and packet id 0; `id_at` is where the packet id goes.
struct MqttOutgoing {
    std::string bytes;
    std::size_t id_at = 0;
};
void set_packet_id(MqttOutgoing& packet, std::uint16_t id);
// What keeps the message from being a PUBLISH packet, or nothing.
std::string flaw_of_publish(const Message& message, std::string_view topic);
// Write a message that has no flaw. Of headers with one name the last one goes: CloudEvents attributes stand
// after the event's own headers.
MqttOutgoing write_publish(const Message& message, std::string_view topic, bool retain);

// Views into the packet's body.
struct MqttIncoming {
    std::string_view topic;
    std::uint16_t packet_id = 0;  // 0 with QoS 0
    bool again = false;           // the server has sent it before
    std::string_view content_type;
    std::string_view response_topic;
    std::string_view correlation_data;
    std::vector<std::pair<std::string_view, std::string_view>> properties;
    std::string_view body;
};
MqttIncoming read_publish(std::uint8_t flags, std::string_view body);

// An answer to a packet of ours: PUBACK has one reason, SUBACK one per topic.
struct MqttAnswer {
    std::uint16_t packet_id = 0;
    std::vector<std::uint8_t> reasons;
    std::string words;
};
MqttAnswer read_answer(const MqttPacket& packet);

struct MqttFarewell {
    std::uint8_t reason = 0;
    std::string words;
};
MqttFarewell read_disconnect(const MqttPacket& packet);

std::string write_puback(std::uint16_t packet_id);
// Subscribe with QoS 1. Retained messages come only when the subscription is new, or never.
std::string write_subscribe(std::uint16_t packet_id, const std::vector<std::string>& topics, bool retained);
std::string write_pingreq();
std::string write_disconnect();

}  // namespace baton::brokers
