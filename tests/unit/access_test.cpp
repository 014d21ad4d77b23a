// Who may do what through the API.

#include "server/access.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.hpp"
#include "server/problem.hpp"
#include "support/program.hpp"

using namespace baton;
using namespace baton::server;
using operations::Right;

namespace {

constexpr const char* anns_token = "anns-token-0123456789";
constexpr const char* vics_token = "vics-token-0123456789";

httplib::Request request_with(std::initializer_list<std::pair<const char*, std::string>> headers) {
    httplib::Request request;
    request.remote_addr = "127.0.0.1";
    for (const auto& [name, value] : headers) request.headers.emplace(name, value);
    return request;
}

httplib::Request bearer(const std::string& token) {
    return request_with({{"Host", "localhost:8390"}, {"Authorization", "Bearer " + token}});
}

// The status of the problem that the work throws; 0 when it throws none.
template <class Work>
int status_of(const Work& work) {
    try {
        work();
    } catch (const Problem& problem) {
        return problem.status();
    }
    return 0;
}

class AccessTest : public testing::Test {
  protected:
    AccessTest() {
        write_tokens(std::string("ann operator ") + anns_token + "\n# a remark\nvic viewer " + vics_token);
    }
    void write_tokens(const std::string& text) const { write_text(folder / "tokens", text + "\n"); }
    std::string file() const { return (folder / "tokens").string(); }

    test::TemporaryFolder folder;
};

}  // namespace

TEST_F(AccessTest, a_token_has_the_right_of_its_role) {
    Access access({}, file(), true);
    const auto ann = access.meet(bearer(anns_token));
    EXPECT_EQ(ann.in_words(), "ann by api");
    EXPECT_TRUE(ann.may(Right::operate));
    const auto vic = access.meet(bearer(vics_token));
    EXPECT_TRUE(vic.may(Right::view));
    EXPECT_EQ(status_of([&] { access.check(vic, Right::operate, bearer(vics_token)); }), 403);
    EXPECT_EQ(status_of([&] { access.meet(bearer("anns-token-012345678")); }), 401);
    EXPECT_EQ(status_of([&] { access.meet(bearer("")); }), 401);
}

TEST_F(AccessTest, without_a_token_one_may_look_on_loopback_and_change_nothing) {
    Access access({}, {}, true);
    const auto here = request_with({{"Host", "127.0.0.1:8390"}});
    const auto somebody = access.meet(here);
    EXPECT_TRUE(somebody.may(Right::view));
    EXPECT_EQ(status_of([&] { access.check(somebody, Right::operate, here); }), 401);
    for (const char* host : {"localhost", "[::1]:8390", "127.3.2.1", "LOCALHOST:1"})
        EXPECT_TRUE(access.meet(request_with({{"Host", host}})).may(Right::view)) << host;
}

TEST_F(AccessTest, a_name_that_another_site_chose_opens_nothing) {
    Access access({}, {}, true);
    for (const char* host :
         {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]", "", "10.0.0.1"})
        EXPECT_FALSE(access.meet(request_with({{"Host", host}})).may(Right::view)) << host;
    EXPECT_FALSE(
        access.meet(request_with({{"Host", "localhost"}, {"X-Forwarded-For", "1.2.3.4"}})).may(Right::view));
    EXPECT_EQ(status_of([&] { access.meet(request_with({})); }), 400);
    EXPECT_EQ(status_of([&] {
                  access.meet(request_with({{"Host", "localhost"}, {"Host", "evil.example"}}));
              }),
              400);
    EXPECT_EQ(status_of([&] {
                  access.meet(request_with({{"Host", "localhost"}, {"Origin", "http://evil.example"}}));
              }),
              403);
    EXPECT_EQ(status_of([&] {
                  access.meet(request_with({{"Host", "localhost"}, {"Sec-Fetch-Site", "cross-site"}}));
              }),
              403);
}

TEST_F(AccessTest, beyond_loopback_looking_needs_a_token_too) {
    Access access({}, file(), false);
    const auto request = request_with({{"Host", "localhost"}});
    EXPECT_EQ(status_of([&] { access.check(access.meet(request), Right::view, request); }), 401);
    EXPECT_TRUE(access.meet(bearer(vics_token)).may(Right::view));
}

TEST_F(AccessTest, a_session_changes_only_with_what_its_own_page_knows) {
    Access access({}, file(), true);
    const auto opened = access.open_session(request_with({{"Host", "localhost"}}), anns_token);
    auto request = request_with({{"Host", "localhost"}, {"Cookie", "a=b; baton_session=" + opened.secret}});
    const auto ann = access.meet(request);
    EXPECT_EQ(ann.in_words(), "ann by dashboard");
    EXPECT_EQ(status_of([&] { access.check(ann, Right::view, request); }), 0);
    EXPECT_EQ(status_of([&] { access.check(ann, Right::operate, request); }), 403);
    request.headers.emplace("X-Baton-CSRF", opened.visitor.csrf);
    EXPECT_EQ(status_of([&] { access.check(ann, Right::operate, request); }), 0);
    access.close_session(request);
    EXPECT_TRUE(access.meet(request).name.empty());
}

TEST_F(AccessTest, a_token_that_is_taken_away_ends_its_sessions) {
    Access access({}, file(), true);
    const auto opened = access.open_session(request_with({{"Host", "localhost"}}), anns_token);
    const auto request = request_with({{"Host", "localhost"}, {"Cookie", "baton_session=" + opened.secret}});
    write_tokens(std::string("vic viewer ") + vics_token);
    access.replace({}, file());
    EXPECT_TRUE(access.meet(request).name.empty());
    EXPECT_EQ(status_of([&] { access.meet(bearer(anns_token)); }), 401);
}

TEST_F(AccessTest, sessions_are_bounded_and_the_oldest_goes_first) {
    Access access({}, file(), true);
    const auto nobody = request_with({{"Host", "localhost"}});
    const auto first = access.open_session(nobody, anns_token);
    for (std::size_t i = 0; i < Access::most_sessions; ++i) access.open_session(nobody, vics_token);
    EXPECT_TRUE(
        access.meet(request_with({{"Host", "localhost"}, {"Cookie", "baton_session=" + first.secret}}))
            .name.empty());
}

TEST_F(AccessTest, whoever_guesses_is_made_to_wait_and_nobody_else) {
    Access access({}, file(), true);
    for (int i = 0; i < Attempts::most; ++i)
        EXPECT_EQ(status_of([&] { access.meet(bearer("a-wrong-token-" + std::to_string(i))); }), 401);
    EXPECT_EQ(status_of([&] { access.meet(bearer("another-wrong-token")); }), 429);
    EXPECT_EQ(status_of([&] { access.meet(bearer(anns_token)); }), 429);
    auto elsewhere = bearer(anns_token);
    elsewhere.remote_addr = "10.1.2.3";
    EXPECT_EQ(status_of([&] { access.meet(elsewhere); }), 0);
}

TEST(Attempts, come_back_with_time) {
    Attempts attempts;
    const auto now = Attempts::Clock::now();
    for (int i = 0; i < Attempts::most; ++i) attempts.note_failure("a", now);
    EXPECT_FALSE(attempts.allowed("a", now));
    EXPECT_TRUE(attempts.allowed("a", now + Attempts::pause));
    EXPECT_TRUE(attempts.allowed("b", now));
}

TEST(Tokens, that_cannot_be_used_are_refused_with_the_place) {
    const test::TemporaryFolder folder;
    const auto refused = [&](const std::string& text) {
        write_text(folder / "tokens", text);
        try {
            read_tokens({}, (folder / "tokens").string());
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_NE(refused("short\n").find("cannot be used"), std::string::npos);
    EXPECT_NE(refused("ann admin 0123456789abcdef\n").find("no token"), std::string::npos);
    EXPECT_NE(refused("# nothing\n").find("there is no token"), std::string::npos);
    EXPECT_NE(refused("ann viewer 0123456789abcdef\nbob viewer 0123456789abcdef\n").find("twice"),
              std::string::npos);
    EXPECT_EQ(refused("0123456789abcdef0\n"), "");
}
