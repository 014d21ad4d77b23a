#include "brokers/mqtt/packet.hpp"

#include <algorithm>
#include <map>

#include "baton/error.hpp"
#include "event/headers.hpp"
#include "event/json.hpp"

namespace baton::brokers {

namespace {

// Properties by their number in the standard.
enum Property : std::uint8_t {
    content_type = 0x03,
    response_topic = 0x08,
    correlation_data = 0x09,
    session_expiry = 0x11,
    server_keep_alive = 0x13,
    reason_string = 0x1F,
    receive_maximum = 0x21,
    maximum_qos = 0x24,
    retain_available = 0x25,
    user_property = 0x26,
    maximum_packet = 0x27,
};

[[noreturn]] void refuse(const char* what) {
    throw ConnectionError(std::string("mqtt: the server sent a packet that cannot be: ") + what);
}

class Reader {
  public:
    explicit Reader(std::string_view bytes) : bytes_(bytes) {}
    bool at_end() const { return bytes_.empty(); }
    std::string_view rest() const { return bytes_; }

    std::string_view take(std::size_t count) {
        if (count > bytes_.size()) refuse("it is cut off");
        const auto taken = bytes_.substr(0, count);
        bytes_.remove_prefix(count);
        return taken;
    }
    std::uint32_t number(std::size_t bytes) {
        std::uint32_t value = 0;
        for (const char byte : take(bytes)) value = value << 8 | static_cast<unsigned char>(byte);
        return value;
    }
    std::uint8_t byte() { return static_cast<std::uint8_t>(number(1)); }
    std::uint16_t word() { return static_cast<std::uint16_t>(number(2)); }
    std::uint32_t varying() {
        std::uint32_t value = 0;
        for (int shift = 0; shift < 28; shift += 7) {
            const std::uint8_t next = byte();
            value |= static_cast<std::uint32_t>(next & 0x7F) << shift;
            if ((next & 0x80) == 0) return value;
        }
        refuse("a length has no end");
    }
    std::string_view text() { return take(word()); }

    // Give each property's number, its value as a number or a text, and the second text of a pair.
    template <class Take>
    void properties(const Take& take_one) {
        if (at_end()) return;  // the standard lets them be left out together with the reason
        const std::uint32_t length = varying();
        Reader inside(take(length));
        while (!inside.at_end()) inside.property(take_one);
    }

  private:
    template <class Take>
    void property(const Take& take_one) {
        const std::uint8_t id = byte();
        switch (id) {
            case 0x01:
            case 0x17:
            case 0x19:
            case 0x24:
            case 0x25:
            case 0x28:
            case 0x29:
            case 0x2A:
                return take_one(id, number(1), std::string_view(), std::string_view());
            case 0x13:
            case 0x21:
            case 0x22:
            case 0x23:
                return take_one(id, number(2), std::string_view(), std::string_view());
            case 0x02:
            case 0x11:
            case 0x18:
            case 0x27:
                return take_one(id, number(4), std::string_view(), std::string_view());
            case 0x0B:
                return take_one(id, varying(), std::string_view(), std::string_view());
            case 0x03:
            case 0x08:
            case 0x09:
            case 0x12:
            case 0x15:
            case 0x16:
            case 0x1A:
            case 0x1C:
            case 0x1F:
                return take_one(id, 0U, text(), std::string_view());
            case 0x26: {
                const auto name = text();
                return take_one(id, 0U, name, text());
            }
            default:
                refuse("it has an unknown property");
        }
    }

    std::string_view bytes_;
};

void append_number(std::string& out, std::uint32_t value, int bytes) {
    for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFF);
}

void append_varying(std::string& out, std::size_t value) {
    do {
        const auto digit = static_cast<unsigned char>(value & 0x7F);
        value >>= 7;
        out += static_cast<char>(digit | (value > 0 ? 0x80 : 0));
    } while (value > 0);
}

void append_text(std::string& out, std::string_view text) {
    append_number(out, static_cast<std::uint32_t>(text.size()), 2);
    out += text;
}

void append_pair(std::string& out, std::string_view name, std::string_view value) {
    out += static_cast<char>(user_property);
    append_text(out, name);
    append_text(out, value);
}

std::string framed(MqttType type, std::uint8_t flags, std::string_view body) {
    std::string out;
    out.reserve(body.size() + 5);
    out += static_cast<char>(static_cast<std::uint8_t>(type) << 4 | flags);
    append_varying(out, body.size());
    return out.append(body);
}

// The longest body of a packet that the length in front of it can tell.
constexpr std::size_t longest_packet = 268'435'455;

std::string flaw_of_text(const std::string& what, std::string_view text) {
    if (text.size() > mqtt_longest_text)
        return what + " has " + std::to_string(text.size()) + " bytes, mqtt takes 65535";
    return is_text(text) ? std::string() : what + " is not UTF-8 text, mqtt takes nothing else";
}

}  // namespace

std::string mqtt_reason_text(std::uint8_t code) {
    static const std::map<std::uint8_t, const char*> texts{
        {0x00, "success"},
        {0x10, "no matching subscribers"},
        {0x80, "unspecified error"},
        {0x81, "malformed packet"},
        {0x82, "protocol error"},
        {0x83, "implementation specific error"},
        {0x84, "unsupported protocol version"},
        {0x85, "client identifier not valid"},
        {0x86, "bad user name or password"},
        {0x87, "not authorized"},
        {0x88, "server unavailable"},
        {0x89, "server busy"},
        {0x8A, "banned"},
        {0x8B, "server shutting down"},
        {0x8C, "bad authentication method"},
        {0x8D, "keep alive timeout"},
        {0x8E, "session taken over"},
        {0x8F, "topic filter invalid"},
        {0x90, "topic name invalid"},
        {0x91, "packet identifier in use"},
        {0x93, "receive maximum exceeded"},
        {0x95, "packet too large"},
        {0x96, "message rate too high"},
        {0x97, "quota exceeded"},
        {0x98, "administrative action"},
        {0x99, "payload format invalid"},
        {0x9A, "retain not supported"},
        {0x9B, "QoS not supported"},
        {0x9C, "use another server"},
        {0x9D, "server moved"},
        {0x9E, "shared subscriptions not supported"},
        {0x9F, "connection rate exceeded"},
        {0xA0, "maximum connect time"},
        {0xA1, "subscription identifiers not supported"},
        {0xA2, "wildcard subscriptions not supported"},
    };
    const auto found = texts.find(code);
    return found == texts.end() ? "reason code " + std::to_string(code) : found->second;
}

std::optional<MqttPacket> take_mqtt_packet(std::string_view bytes, std::size_t& at) {
    std::size_t length = 0;
    std::size_t place = at + 1;
    for (int shift = 0;; shift += 7) {
        if (shift == 28) refuse("a length has no end");
        if (place >= bytes.size()) return std::nullopt;
        const auto digit = static_cast<unsigned char>(bytes[place++]);
        length |= static_cast<std::size_t>(digit & 0x7F) << shift;
        if ((digit & 0x80) == 0) break;
    }
    if (bytes.size() - place < length) return std::nullopt;
    const auto first = static_cast<unsigned char>(bytes[at]);
    at = place + length;
    return MqttPacket{static_cast<MqttType>(first >> 4), static_cast<std::uint8_t>(first & 0x0F),
                      std::string(bytes.substr(place, length))};
}

std::string write_connect(const MqttHello& hello) {
    std::string body;
    append_text(body, "MQTT");
    append_number(body, 5, 1);
    append_number(
        body,
        (hello.has_user ? 0x80U : 0U) | (hello.has_password ? 0x40U : 0U) | (hello.clean_start ? 0x02U : 0U),
        1);
    append_number(body, hello.keep_alive, 2);
    std::string properties;
    if (hello.session_expiry > 0) {
        properties += static_cast<char>(session_expiry);
        append_number(properties, hello.session_expiry, 4);
    }
    properties += static_cast<char>(receive_maximum);
    append_number(properties, hello.receive_maximum, 2);
    append_varying(body, properties.size());
    body += properties;
    append_text(body, hello.client_id);
    if (hello.has_user) append_text(body, hello.user);
    if (hello.has_password) append_text(body, hello.password);
    return framed(MqttType::connect, 0, body);
}

MqttWelcome read_connack(const MqttPacket& packet) {
    Reader reader(packet.body);
    MqttWelcome welcome;
    welcome.session_present = (reader.byte() & 1) != 0;
    welcome.reason = reader.byte();
    reader.properties([&](std::uint8_t id, std::uint32_t number, std::string_view text, std::string_view) {
        if (id == receive_maximum && number > 0) welcome.receive_maximum = static_cast<std::uint16_t>(number);
        if (id == maximum_packet) welcome.max_packet = number;
        if (id == maximum_qos) welcome.max_qos = static_cast<std::uint8_t>(number);
        if (id == retain_available) welcome.retains = number != 0;
        if (id == session_expiry) welcome.session_expiry = number;
        if (id == server_keep_alive) welcome.keep_alive = static_cast<std::uint16_t>(number);
        if (id == reason_string) welcome.words = text;
    });
    return welcome;
}

std::string flaw_of_publish(const Message& message, std::string_view topic) {
    std::string flaw = flaw_of_text("the topic", topic);
    if (flaw.empty()) flaw = flaw_of_text("the message id", message.message_id);
    if (flaw.empty()) flaw = flaw_of_text("the key", message.key);
    if (flaw.empty()) flaw = flaw_of_text("the content type", message.content_type);
    std::size_t bytes = message.body.size() + topic.size() + message.message_id.size() + message.key.size() +
                        message.content_type.size() + 100;
    for (const auto& header : message.headers) {
        if (flaw.empty()) flaw = flaw_of_text("the name of a header", header.name);
        if (flaw.empty()) flaw = flaw_of_text("header \"" + header.name + "\"", header.value);
        bytes += header.name.size() + header.value.size() + 5;
    }
    if (flaw.empty() && bytes > longest_packet)
        return "the message has " + std::to_string(bytes) + " bytes, mqtt takes " +
               std::to_string(longest_packet);
    return flaw;
}

MqttOutgoing write_publish(const Message& message, std::string_view topic, bool retain) {
    std::string properties;
    if (!message.content_type.empty()) {
        properties += static_cast<char>(content_type);
        append_text(properties, message.content_type);
    }
    append_pair(properties, "message-id", message.message_id);
    if (!message.key.empty()) append_pair(properties, "partition-key", message.key);
    for (std::size_t i = 0; i < message.headers.size(); ++i)
        if (!comes_again(message.headers, i))
            append_pair(
                properties,
                is_named(message.headers[i], "message-id") ? "event-message-id" : message.headers[i].name,
                message.headers[i].value);  // the message's own id has that name
    std::string head;
    append_text(head, topic);
    const std::size_t id_in_head = head.size();
    append_number(head, 0, 2);
    append_varying(head, properties.size());
    MqttOutgoing packet;
    const std::size_t length = head.size() + properties.size() + message.body.size();
    packet.bytes.reserve(length + 5);
    packet.bytes +=
        static_cast<char>(static_cast<std::uint8_t>(MqttType::publish) << 4 | 0x02 | (retain ? 0x01 : 0x00));
    append_varying(packet.bytes, length);
    packet.id_at = packet.bytes.size() + id_in_head;
    packet.bytes.append(head).append(properties).append(message.body);
    return packet;
}

void set_packet_id(MqttOutgoing& packet, std::uint16_t id) {
    packet.bytes[packet.id_at] = static_cast<char>(id >> 8);
    packet.bytes[packet.id_at + 1] = static_cast<char>(id & 0xFF);
}

MqttIncoming read_publish(std::uint8_t flags, std::string_view body) {
    Reader reader(body);
    MqttIncoming incoming;
    incoming.again = (flags & 0x08) != 0;
    const int qos = flags >> 1 & 0x03;
    if (qos > 1) refuse("its QoS is higher than what was subscribed for");
    incoming.topic = reader.text();
    if (qos > 0) {
        incoming.packet_id = reader.word();
        if (incoming.packet_id == 0) refuse("its packet identifier is 0");
    }
    reader.properties([&](std::uint8_t id, std::uint32_t, std::string_view text, std::string_view second) {
        if (id == content_type) incoming.content_type = text;
        if (id == response_topic) incoming.response_topic = text;
        if (id == correlation_data) incoming.correlation_data = text;
        if (id == user_property) incoming.properties.emplace_back(text, second);
    });
    incoming.body = reader.rest();
    return incoming;
}

MqttAnswer read_answer(const MqttPacket& packet) {
    Reader reader(packet.body);
    MqttAnswer answer;
    answer.packet_id = reader.word();
    const auto take = [&](std::uint8_t id, std::uint32_t, std::string_view text, std::string_view) {
        if (id == reason_string) answer.words = text;
    };
    if (packet.type == MqttType::puback) {
        answer.reasons.push_back(reader.at_end() ? 0 : reader.byte());
        reader.properties(take);
        return answer;
    }
    reader.properties(take);
    while (!reader.at_end()) answer.reasons.push_back(reader.byte());
    return answer;
}

MqttFarewell read_disconnect(const MqttPacket& packet) {
    Reader reader(packet.body);
    MqttFarewell farewell;
    if (!reader.at_end()) farewell.reason = reader.byte();
    reader.properties([&](std::uint8_t id, std::uint32_t, std::string_view text, std::string_view) {
        if (id == reason_string) farewell.words = text;
    });
    return farewell;
}

std::string write_puback(std::uint16_t packet_id) {
    std::string body;
    append_number(body, packet_id, 2);
    return framed(MqttType::puback, 0, body);
}

std::string write_subscribe(std::uint16_t packet_id, const std::vector<std::string>& topics, bool retained) {
    std::string body;
    append_number(body, packet_id, 2);
    append_varying(body, 0);
    for (const auto& topic : topics) {
        append_text(body, topic);
        append_number(body, 0x01U | (retained ? 0x10U : 0x20U), 1);
    }
    return framed(MqttType::subscribe, 0x02, body);
}

std::string write_pingreq() {
    return framed(MqttType::pingreq, 0, {});
}

std::string write_disconnect() {
    return framed(MqttType::disconnect, 0, {});
}

}  // namespace baton::brokers
