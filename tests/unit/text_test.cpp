#include "base/text.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace baton {

namespace {

TEST(Text, utf8_is_told_from_bytes) {
    for (const std::string_view good :
         {"", "a", "\xC3\xB6", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"})
        EXPECT_TRUE(is_utf8(good)) << good;
    // A lone continuation, cut off, overlong, a surrogate, beyond the last character.
    for (const std::string_view bad :
         {"\x80", "\xC3", "\xE2\x82", "\xC0\xAF", "\xE0\x80\xAF", "\xF0\x80\x80\xAF", "\xED\xA0\x80",
          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
        EXPECT_FALSE(is_utf8(bad));
    EXPECT_FALSE(is_text(std::string_view("a\0b", 3)));
}

TEST(Text, names_are_compared_without_case_and_whatever_the_locale) {
    EXPECT_TRUE(same_name("Content-TYPE", "content-type"));
    EXPECT_FALSE(same_name("content-type", "content-typ"));
    EXPECT_EQ(lower("AbC-\xC4\xD6"), "abc-\xC4\xD6");
}

TEST(Text, bytes_have_their_forms) {
    EXPECT_EQ(to_hex(std::string_view("\x00\x0F\xFF", 3)), "000fff");
    std::string uuid;
    append_uuid(uuid,
                std::string_view("\x01\x93\xa5\xc2\x7d\x4e\x7b\x1a\x9c\x3f\x01\x23\x45\x67\x89\xab", 16));
    EXPECT_EQ(uuid, "0193a5c2-7d4e-7b1a-9c3f-0123456789ab");
    for (const auto& [bytes, text] : std::vector<std::pair<std::string, std::string>>{
             {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"\xFF\xFE", "//4="}}) {
        std::string out;
        append_base64(out, bytes);
        EXPECT_EQ(out, text);
    }
}

TEST(Text, what_was_escaped_for_a_url_comes_back) {
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    std::string escaped;
    append_url_escaped(escaped, all);
    EXPECT_EQ(escaped.find_first_of("/:@?#&=+ \xC3"), std::string::npos);
    EXPECT_EQ(percent_decoded(escaped), all);
    for (const std::string_view plain : {"100%", "%", "%4", "%zz", "%-1"})
        EXPECT_EQ(percent_decoded(plain), plain);
    EXPECT_EQ(percent_decoded("%41%6a"), "Aj");
}

}  // namespace

}  // namespace baton
