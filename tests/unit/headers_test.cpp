// The quick reader of headers beside the thorough one.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "event/header_reader.hpp"
#include "event/headers.hpp"
#include "event/template.hpp"

using namespace baton;

namespace {

using Found = std::multimap<std::string, std::string>;

template <class Read>
std::optional<Found> read(std::string_view text, const Read& read_into) {
    Headers headers;
    headers.add("before", "stays");
    try {
        read_into(headers, text);
    } catch (const RenderError&) {
        return {};
    }
    Found found;
    for (const auto& header : headers) found.emplace(header.name, header.value);
    return found;
}

class Reading : public testing::Test {
  protected:
    void expect_alike(const std::string& text) {
        EXPECT_EQ(read(text, [this](Headers& to, std::string_view from) { reader.append(to, from); }),
                  read(text, [](Headers& to, std::string_view from) { append_headers(to, from); }))
            << text;
    }
    HeaderReader reader;
};

}  // namespace

TEST_F(Reading, is_the_same_for_everything_unusual) {
    for (const char* text : {"",
                             "{}",
                             "null",
                             "[]",
                             "1",
                             "\"a\"",
                             "{",
                             "{\"a\":}",
                             "{\"a\":1}x",
                             "{\"a\": null}",
                             "{\"a\":1,\"a\":2}",
                             "{\"a\":\"x\",\"a\":\"y\"}",
                             "{\"a\":1.10}",
                             "{\"a\":1e400}",
                             "{\"a\":-0}",
                             "{\"a\":12345678901234567890123}",
                             "{\"a\":18446744073709551615}",
                             "{\"a\":-9223372036854775808}",
                             "{\"a\":{\"b\":[1, 2]}}",
                             "{\"a\":\"\\u0000\"}",
                             "{\"a\":\"\\ud83d\\ude00\"}",
                             "{\"a\":\"\\ud83d\"}",
                             "{\"\":\"\"}",
                             "{\"a\":tru}",
                             "{\"a\":\"line\nbreak\"}",
                             "{\"a\":\"\xff\"}",
                             " {\"a\" : true } "})
        expect_alike(text);
    expect_alike(std::string("{}\0", 3));
    expect_alike("{\"deep\":" + std::string(2000, '[') + std::string(2000, ']') + "}");
    std::string many = "{\"n\":0";
    for (int i = 0; i < 100; ++i) many += ",\"n" + std::to_string(i) + "\":" + std::to_string(i);
    expect_alike(many + "}");
}

TEST_F(Reading, is_the_same_for_whatever_is_written) {
    std::mt19937 random(5);
    const auto value = [&]() -> nlohmann::json {
        switch (random() % 8) {
            case 0:
                return nullptr;
            case 1:
                return random() % 2 == 0;
            case 2:
                return static_cast<std::int64_t>(random()) - (1 << 30);
            case 3:
                return static_cast<double>(random()) / 7;
            case 4:
                return nlohmann::json::array({1, "two"});
            default: {
                std::string text;
                for (std::size_t i = random() % 40; i > 0; --i)
                    text +=
                        random() % 9 == 0 ? "\xC3\xA9" : std::string(1, static_cast<char>(random() % 128));
                return text;
            }
        }
    };
    for (int round = 0; round < 5000; ++round) {
        nlohmann::json object = nlohmann::json::object();
        for (std::size_t i = random() % 6; i > 0; --i) object["h" + std::to_string(random() % 20)] = value();
        std::string text = object.dump(random() % 2 == 0 ? -1 : 2);
        if (random() % 4 == 0 && !text.empty())
            text[random() % text.size()] = static_cast<char>(random() % 128);
        expect_alike(text);
    }
}

TEST_F(Reading, keeps_every_digit_of_a_number_as_the_database_does) {
    Headers headers;
    reader.append(headers,
                  R"({"price": 1.10, "many": 12345678901234567890123, "fine": 0.12345678901234567890123,)"
                  R"( "far": 1e3, "low": -7, "twice": 1.50, "twice": 2.50})");
    std::map<std::string, std::string> found;
    for (const auto& header : headers) found[header.name] = header.value;
    const std::map<std::string, std::string> expected{{"price", "1.10"},
                                                      {"many", "12345678901234567890123"},
                                                      {"fine", "0.12345678901234567890123"},
                                                      {"far", "1e3"},
                                                      {"low", "-7"},
                                                      {"twice", "2.50"}};
    EXPECT_EQ(found, expected);
}

TEST_F(Reading, goes_on_with_a_copy_that_has_memory_of_its_own) {
    expect_alike(R"({"a":"one"})");
    HeaderReader copy(reader);
    Headers headers;
    copy.append(headers, R"({"b":"two"})");
    reader = copy;
    reader.append(headers, R"({"c":"three"})");
    ASSERT_EQ(headers.size(), 2U);
    EXPECT_EQ(headers.data()[0].value, "two");
    EXPECT_EQ(headers.data()[1].value, "three");
}
