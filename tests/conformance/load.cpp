#include "conformance/load.hpp"

#include <gtest/gtest.h>

#include <map>

namespace baton::test::conformance {

void expect_same(const SinkFixture& fixture, const Message& sent, const Received& got) {
    EXPECT_TRUE(fixture.same_body(got.body, sent.body))
        << sent.message_id << ": body of " << got.body.size() << " bytes instead of " << sent.body.size()
        << ", begins " << got.body.substr(0, 60);
    if (fixture.shows_key()) {
        EXPECT_EQ(got.key, sent.key) << sent.message_id;
    }
    for (const auto& header : sent.headers) {
        const auto found = got.headers.find(header.name);
        if (found == got.headers.end())
            ADD_FAILURE() << sent.message_id << " lost its header " << header.name;
        else
            EXPECT_EQ(found->second, header.value) << sent.message_id << ", header " << header.name;
    }
}

void expect_all_arrived(SinkFixture& fixture, const std::string& destination, const Load& load) {
    std::map<std::string, const Message*> missing;
    std::map<std::string, const Message*> known;
    for (const auto& message : load.messages())
        missing[message.message_id] = known[message.message_id] = &message;
    std::size_t copies = 0;
    for (const auto& got : fixture.read_all(destination)) {
        const auto sent = known.find(got.id);
        if (sent == known.end()) {
            ADD_FAILURE() << "phantom: " << got.id;
            continue;
        }
        expect_same(fixture, *sent->second, got);
        if (missing.erase(got.id) == 0) ++copies;
    }
    if (fixture.deduplicates()) {
        EXPECT_EQ(copies, 0U);
    }
    EXPECT_EQ(missing.size(), 0U) << "lost, first of them: "
                                  << (missing.empty() ? "" : missing.begin()->first);
}

void expect_key_order(SinkFixture& fixture, const std::string& destination, const Load& load) {
    std::map<std::string, std::pair<std::string, std::size_t>> place;  // id -> key, number within it
    std::map<std::string, std::size_t> count;
    for (const auto& message : load.messages()) {
        const std::string key(message.key);
        place[message.message_id] = {key, count[key]++};
    }
    std::map<std::string, std::size_t> next;
    for (const auto& got : fixture.read_all(destination)) {
        const auto found = place.find(got.id);
        ASSERT_NE(found, place.end()) << "phantom: " << got.id;
        const auto& [key, number] = found->second;
        EXPECT_LE(number, next[key]) << got.id << " came before an earlier one of " << key;
        if (number == next[key]) ++next[key];
    }
}

}  // namespace baton::test::conformance
