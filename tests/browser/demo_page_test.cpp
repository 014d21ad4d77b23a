// The link that the demo prints, opened in a real browser.

#include <gtest/gtest.h>

#include "e2e/kept_demo.hpp"
#include "player.hpp"

namespace baton::test {
namespace {

TEST(DemoPage, its_link_shows_the_outage_and_the_dead_letter_and_both_are_mended_there) {
    const TemporaryFolder folder;
    KeptDemo demo(folder, {"--seconds", "1", "--mode", "sql", "--data-dir", (folder / "server").string()});
    const auto answer = [&demo](const std::string& what, const std::string&) -> std::string {
        if (what != "press enter") throw Error("a scenario asks for \"" + what + "\"");
        demo.press_enter();
        return "";
    };
    EXPECT_EQ(play("demo", demo.link(), folder.path(), answer), "");
    EXPECT_EQ(demo.interrupt(), 0) << demo.said();
}

}  // namespace
}  // namespace baton::test
