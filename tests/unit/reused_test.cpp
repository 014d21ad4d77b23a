#include "base/reused.hpp"

#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

TEST(reused, elements_keep_their_memory_when_the_list_is_cleared) {
    Reused<std::string> list;
    list.emplace_back().assign(100, 'x');
    const char* memory = list.front().data();
    list.clear();
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(list.emplace_back().assign(50, 'y').data(), memory);
    EXPECT_EQ(list.size(), 1U);
}

TEST(reused, a_copy_holds_what_is_in_the_list_and_nothing_else) {
    Reused<std::string> list{"a", "b", "c"};
    list.shorten(2);
    const Reused<std::string> copy(list);
    list[0] = "changed";
    EXPECT_EQ(std::vector<std::string>(copy.begin(), copy.end()), (std::vector<std::string>{"a", "b"}));
    Reused<std::string> moved(std::move(list));
    EXPECT_EQ(moved.size(), 2U);
    EXPECT_EQ(moved.back(), "b");
    list = moved;
    EXPECT_EQ(list.front(), "changed");
    list.push_back("d");
    EXPECT_EQ(list.size(), 3U);
    EXPECT_EQ(moved.size(), 2U);
}

}  // namespace
}  // namespace baton
