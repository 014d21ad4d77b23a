// Messages as AMQP 1.0 writes them: ours, and those of publishers who know nothing of baton.

#include "brokers/amqp1/message.hpp"

#include <gtest/gtest.h>
#include <proton/codec.h>

#include <functional>

namespace baton::test {

namespace {

using brokers::Amqp1Codec;

pn_bytes_t bytes_of(std::string_view text) {
    return pn_bytes(text.size(), text.data());
}

// A message by somebody else.
std::string foreign(const std::function<void(pn_message_t*)>& fill) {
    const std::unique_ptr<pn_message_t, decltype(&pn_message_free)> message(pn_message(), pn_message_free);
    fill(message.get());
    std::string bytes(4096, '\0');
    std::size_t size = bytes.size();
    EXPECT_EQ(pn_message_encode(message.get(), bytes.data(), &size), 0);
    bytes.resize(size);
    return bytes;
}

std::string header(const intake::Incoming& message, std::string_view name) {
    for (const auto& one : message.headers)
        if (one.name == name) return std::string(one.value);
    return "(none)";
}

TEST(Amqp1Message, what_is_written_is_read) {
    Event event;
    event.event_type = "placed";
    event.occurred_at = Timestamp(std::chrono::milliseconds(1'700'000'000'123));
    Message message;
    message.event = &event;
    message.message_id = "id-1";
    message.key = "schlüssel";
    message.content_type = "application/json";
    const std::string body("{\"a\":\0}", 7);
    message.body = body;
    message.headers = {{"n", "1"}, {"empty", ""}, {"n", "2"}, {"_AMQ_DUPL_ID", "x"}};
    Amqp1Codec codec;
    intake::BrokerBatch batch;
    const auto read = codec.decode(codec.encode(message), batch);
    EXPECT_EQ(read.message_id, "id-1");
    EXPECT_EQ(read.key, "schlüssel");
    EXPECT_EQ(read.content_type, "application/json");
    EXPECT_EQ(read.body, body);
    EXPECT_EQ(read.time, Timestamp(std::chrono::milliseconds(1'700'000'000'123)));
    EXPECT_EQ(header(read, "n"), "2") << "a map has each name once, and the last one counts";
    EXPECT_EQ(header(read, "empty"), "");
    EXPECT_EQ(header(read, "event-type"), "placed");
    EXPECT_EQ(header(read, "_AMQ_DUPL_ID"), "(none)") << "an order to the broker";
    EXPECT_EQ(header(read, "event-_AMQ_DUPL_ID"), "x");
}

TEST(Amqp1Message, a_message_that_is_longer_than_expected_is_written_whole) {
    Message message;
    message.message_id = "id";
    for (int i = 0; i < 300; ++i) message.headers.add("name-" + std::to_string(i), std::string(300, 'v'));
    Amqp1Codec codec;
    intake::BrokerBatch batch;
    EXPECT_EQ(codec.decode(codec.encode(message), batch).headers.size(), 300U);
}

TEST(Amqp1Message, bodies_of_others_are_text_bytes_or_json) {
    Amqp1Codec codec;
    intake::BrokerBatch batch;
    const auto body = [&](const std::function<void(pn_data_t*)>& fill) {
        return std::string(
            codec.decode(foreign([&](pn_message_t* message) { fill(pn_message_body(message)); }), batch)
                .body.value_or("(none)"));
    };
    EXPECT_EQ(body([](pn_data_t*) {}), "");
    EXPECT_EQ(body([](pn_data_t* data) { pn_data_put_string(data, bytes_of("text")); }), "text");
    EXPECT_EQ(body([](pn_data_t* data) { pn_data_put_binary(data, bytes_of("b\0b")); }), "b");
    EXPECT_EQ(body([](pn_data_t* data) { pn_data_put_long(data, -7); }), "-7");
    EXPECT_EQ(body([](pn_data_t* data) { pn_data_put_null(data); }), "");
    EXPECT_EQ(body([](pn_data_t* data) {
                  pn_data_put_map(data);
                  pn_data_enter(data);
                  pn_data_put_string(data, bytes_of("list"));
                  pn_data_put_list(data);
                  pn_data_enter(data);
                  pn_data_put_string(data, bytes_of("quo\"te"));
                  pn_data_put_bool(data, true);
                  pn_data_put_null(data);
                  pn_data_put_double(data, 0.5);
                  pn_data_exit(data);
                  pn_data_put_symbol(data, bytes_of("s"));
                  pn_data_put_uint(data, 4);
                  pn_data_exit(data);
              }),
              R"({"list":["quo\"te",true,null,0.5],"s":4})");
}

TEST(Amqp1Message, ids_of_any_kind_are_known_and_a_sequence_number_is_a_place) {
    Amqp1Codec codec;
    intake::BrokerBatch batch;
    const auto read = codec.decode(foreign([](pn_message_t* message) {
                                       pn_msgid_t id{};
                                       id.type = PN_UUID;
                                       for (int i = 0; i < 16; ++i)
                                           id.u.as_uuid.bytes[i] = static_cast<char>(i * 16 + i);
                                       pn_message_set_id(message, id);
                                       id.type = PN_ULONG;
                                       id.u.as_ulong = 42;
                                       pn_message_set_correlation_id(message, id);
                                       pn_data_t* data = pn_message_annotations(message);
                                       pn_data_put_map(data);
                                       pn_data_enter(data);
                                       pn_data_put_symbol(data, bytes_of("x-opt-sequence-number"));
                                       pn_data_put_long(data, 99);
                                       pn_data_put_symbol(data, bytes_of("x-opt-partition-key"));
                                       pn_data_put_string(data, bytes_of("p"));
                                       pn_data_exit(data);
                                   }),
                                   batch);
    EXPECT_EQ(read.message_id, "00112233-4455-6677-8899-aabbccddeeff");
    EXPECT_EQ(header(read, "correlation-id"), "42");
    EXPECT_EQ(read.position, "99");
    EXPECT_EQ(read.key, "p");
}

TEST(Amqp1Message, what_is_no_message_comes_as_its_bytes) {
    Amqp1Codec codec;
    intake::BrokerBatch batch;
    const auto read = codec.decode("\x01\x02 no message", batch);
    EXPECT_EQ(read.body, "\x01\x02 no message");
    EXPECT_EQ(read.content_type, "application/octet-stream");
    EXPECT_FALSE(read.message_id);
    EXPECT_EQ(codec.decode("", batch).body, "");
    const std::string cut = foreign([](pn_message_t* message) {
                                pn_data_put_string(pn_message_body(message), bytes_of("some text"));
                            }).substr(0, 20);
    EXPECT_EQ(codec.decode(cut, batch).body, cut);
}

// Whatever bytes come, the relay lives: a broker's publishers are strangers.
TEST(Amqp1Message, bytes_that_were_changed_in_any_place_are_read_as_something) {
    const std::string good = foreign([](pn_message_t* message) {
        pn_message_set_group_id(message, "g");
        pn_message_set_content_type(message, "text/plain");
        for (pn_data_t* data : {pn_message_properties(message), pn_message_body(message)}) {
            pn_data_put_map(data);
            pn_data_enter(data);
            pn_data_put_string(data, bytes_of("name"));
            pn_data_put_string(data, bytes_of("value"));
            pn_data_put_string(data, bytes_of("list"));
            pn_data_put_int(data, 70000);
            pn_data_exit(data);
        }
    });
    Amqp1Codec codec;
    for (std::size_t at = 0; at < good.size(); ++at)
        for (int value = 0; value < 256; ++value) {
            std::string changed = good;
            changed[at] = static_cast<char>(value);
            intake::BrokerBatch batch;
            EXPECT_TRUE(codec.decode(changed, batch).body) << at << " " << value;
        }
}

// A section of a message, with a value that is written already.
std::string section(char code, const std::string& value) {
    return std::string("\0\x53", 2) + code + value;
}

std::string short_binary(const std::string& bytes) {
    return std::string("\xa0") + static_cast<char>(bytes.size()) + bytes;
}

// A list in a list in a list, and so on.
std::string nested_lists(std::size_t depth) {
    std::string out;
    for (std::size_t inside = depth; inside-- > 0;) {
        out += '\xd0';
        for (const std::size_t number : {inside * 9 + 1 + 4, std::size_t{1}})
            for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift & 0xff);
    }
    return out + '\x40';
}

TEST(Amqp1Message, a_body_in_several_sections_is_read_whole) {
    Amqp1Codec codec;
    intake::BrokerBatch batch;
    const std::string data = section('\x75', short_binary("first ")) + section('\x75', short_binary("")) +
                             section('\x75', short_binary("second"));
    EXPECT_EQ(codec.decode(data, batch).body, "first second");
    const std::string footer = section('\x78', std::string("\xc1\x01\0", 3));
    EXPECT_EQ(codec.decode(data + footer, batch).body, "first second");
    const auto sequence = [](char number) {
        return section('\x76', std::string("\xc0\x03\x01\x54", 4) + number);
    };
    const std::string none = section('\x76', "\x45");
    EXPECT_EQ(codec.decode(none + sequence(1) + none + sequence(2), batch).body, "[1,2]");
    EXPECT_EQ(codec.decode(none + none, batch).body, "[]");
}

TEST(Amqp1Message, a_value_with_a_type_of_its_publisher_is_the_value) {
    Amqp1Codec codec;
    intake::BrokerBatch batch;
    EXPECT_EQ(codec.decode(section('\x77', std::string("\0\xa3\1x\xa1\5hello", 11)), batch).body, "hello");
}

// Any publisher can send one, and it would come again after each crash.
TEST(Amqp1Message, lists_in_lists_without_end_do_not_exhaust_the_stack) {
    Amqp1Codec codec;
    for (const std::size_t depth : {1U, 20U, 1000U, 30'000U, 300'000U}) {
        intake::BrokerBatch batch;
        const std::string bytes = section('\x77', nested_lists(depth));
        const auto read = codec.decode(bytes, batch);
        if (depth < 100)
            EXPECT_EQ(read.body, std::string(depth, '[') + "null" + std::string(depth, ']'));
        else
            EXPECT_EQ(read.body, bytes) << depth;
    }
}

TEST(Amqp1Message, texts_that_cannot_be_texts_are_told) {
    Message message;
    message.message_id = "id";
    EXPECT_EQ(brokers::flaw_of_amqp1_message(message), "");
    message.headers.add("bad", "\xff");
    EXPECT_NE(brokers::flaw_of_amqp1_message(message).find("header \"bad\""), std::string::npos);
    message.headers.clear();
    message.key = std::string_view("a\0b", 3);
    EXPECT_NE(brokers::flaw_of_amqp1_message(message).find("the key"), std::string::npos);
}

}  // namespace

}  // namespace baton::test
