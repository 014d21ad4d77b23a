#include "brokers/mqtt/packet.hpp"

#include <gtest/gtest.h>

#include "baton/error.hpp"
#include "brokers/mqtt/form.hpp"

namespace baton::brokers {

namespace {

// The one packet that the bytes hold.
MqttPacket only(const std::string& bytes) {
    std::size_t at = 0;
    auto packet = take_mqtt_packet(bytes, at);
    EXPECT_TRUE(packet.has_value());
    EXPECT_EQ(at, bytes.size());
    return packet.value_or(MqttPacket());
}

Message message() {
    Message made;
    made.message_id = "id";
    made.key = "key";
    made.body = "body";
    made.content_type = "text/plain";
    made.headers.add("type", "the event's own");
    made.headers.add("note", "größe");
    made.headers.add("type", "an attribute");
    return made;
}

// What a server may send, in packets that are whole.
std::vector<std::string> packets() {
    auto published = write_publish(message(), "a/b", false);
    set_packet_id(published, 0x0102);
    return {
        published.bytes,
        std::string("\x20\x17\x01\x00\x14\x21\x00\x0a\x27\x00\x00\x04\x00\x24\x01\x25\x00\x13\x00\x05"
                    "\x11\x00\x00\x00\x07",
                    25),
        std::string("\x40\x02\x00\x07", 4),
        std::string("\x40\x08\x00\x07\x97\x04\x1f\x00\x01x", 10),
        std::string("\x90\x05\x00\x01\x00\x01\x87", 7),
        std::string("\xe0\x01\x8e", 3),
        std::string("\xe0\x00", 2),
        std::string("\xd0\x00", 2),
    };
}

// Read the packet as whatever it says it is.
void read(const MqttPacket& packet) {
    switch (packet.type) {
        case MqttType::connack:
            read_connack(packet);
            break;
        case MqttType::publish:
            read_publish(packet.flags, packet.body);
            break;
        case MqttType::puback:
        case MqttType::suback:
            read_answer(packet);
            break;
        case MqttType::disconnect:
            read_disconnect(packet);
            break;
        default:
            break;
    }
}

}  // namespace

TEST(MqttPacket, what_is_published_is_read_as_it_was) {
    const auto packet = only(packets()[0]);
    ASSERT_EQ(packet.type, MqttType::publish);
    const auto got = read_publish(packet.flags, packet.body);
    EXPECT_EQ(got.topic, "a/b");
    EXPECT_EQ(got.packet_id, 0x0102);
    EXPECT_FALSE(got.again);
    EXPECT_EQ(got.content_type, "text/plain");
    EXPECT_EQ(got.body, "body");
    using Pair = std::pair<std::string_view, std::string_view>;
    EXPECT_EQ(
        got.properties,
        (std::vector<Pair>{
            {"message-id", "id"}, {"partition-key", "key"}, {"note", "größe"}, {"type", "an attribute"}}));
}

TEST(MqttPacket, lengths_of_one_to_four_bytes_are_written_and_read) {
    for (const std::size_t size : {0U, 100U, 127U, 128U, 16'383U, 16'384U, 2'097'151U, 2'097'152U}) {
        const std::string body(size, 'x');
        Message sent = message();
        sent.body = body;
        const auto packet = only(write_publish(sent, "t", true).bytes);
        auto with_id = write_publish(sent, "t", true);
        set_packet_id(with_id, 1);
        const auto whole = only(with_id.bytes);
        EXPECT_EQ(read_publish(whole.flags, whole.body).body.size(), size);
        EXPECT_EQ(packet.flags, 0x03);
    }
}

TEST(MqttPacket, a_welcome_tells_the_servers_limits) {
    const auto welcome = read_connack(only(packets()[1]));
    EXPECT_TRUE(welcome.session_present);
    EXPECT_EQ(welcome.reason, 0);
    EXPECT_EQ(welcome.receive_maximum, 10);
    EXPECT_EQ(welcome.max_packet, 1024U);
    EXPECT_EQ(welcome.max_qos, 1);
    EXPECT_FALSE(welcome.retains);
    EXPECT_EQ(welcome.keep_alive, 5);
    EXPECT_EQ(welcome.session_expiry, 7U);
}

TEST(MqttPacket, an_answer_has_a_reason_also_where_the_server_leaves_it_out) {
    EXPECT_EQ(read_answer(only(packets()[2])).reasons, std::vector<std::uint8_t>{0});
    const auto refused = read_answer(only(packets()[3]));
    EXPECT_EQ(refused.packet_id, 7);
    EXPECT_EQ(refused.reasons, std::vector<std::uint8_t>{0x97});
    EXPECT_EQ(refused.words, "x");
    EXPECT_EQ(read_answer(only(packets()[4])).reasons, (std::vector<std::uint8_t>{0x01, 0x87}));
    EXPECT_EQ(read_disconnect(only(packets()[5])).reason, mqtt_reason::session_taken_over);
    EXPECT_EQ(read_disconnect(only(packets()[6])).reason, 0);
}

TEST(MqttPacket, a_packet_that_is_not_all_there_is_waited_for) {
    for (const auto& bytes : packets())
        for (std::size_t size = 0; size + 1 < bytes.size(); ++size) {
            std::size_t at = 0;
            EXPECT_FALSE(take_mqtt_packet(std::string_view(bytes).substr(0, size), at)) << size;
            EXPECT_EQ(at, 0U);
        }
}

TEST(MqttPacket, whatever_is_cut_off_or_changed_is_read_or_refused) {
    std::size_t refused = 0;
    const auto try_to_read = [&](const MqttPacket& packet) {
        try {
            read(packet);
        } catch (const ConnectionError&) {
            ++refused;
        }
    };
    for (const auto& bytes : packets()) {
        std::size_t at = 0;
        const auto packet = take_mqtt_packet(bytes, at);
        if (!packet) continue;
        for (std::size_t size = 0; size < packet->body.size(); ++size)
            try_to_read({packet->type, packet->flags, packet->body.substr(0, size)});
        for (std::size_t place = 0; place < packet->body.size(); ++place)
            for (int value = 0; value < 256; ++value) {
                MqttPacket changed = *packet;
                changed.body[place] = static_cast<char>(value);
                try_to_read(changed);
            }
    }
    EXPECT_GT(refused, 100U);
    std::size_t at = 0;
    EXPECT_THROW(take_mqtt_packet(std::string("\x30\xff\xff\xff\xff\x01", 6), at), ConnectionError);
}

TEST(MqttTopic, wildcards_emptiness_zeros_and_65536_bytes_are_flaws) {
    for (const std::string& wrong : {std::string(), std::string("a/+"), std::string("#"),
                                     std::string("a\0b", 3), std::string("\xff"), std::string(65536, 'a')})
        EXPECT_NE(flaw_of_mqtt_topic(wrong), nullptr) << wrong.substr(0, 20);
    for (const std::string& right : {std::string("a"), std::string("/"), std::string("a//b/"),
                                     std::string("größe"), std::string(65535, 'a')})
        EXPECT_EQ(flaw_of_mqtt_topic(right), nullptr) << right.substr(0, 20);
}

}  // namespace baton::brokers
