// When a relay writes down what hinders it.

#include "cli/trouble_notes.hpp"

#include <gtest/gtest.h>

using namespace baton::cli;
using namespace std::chrono_literals;

namespace {

struct Noting : ::testing::Test {
    // Look once a second, and write what is due. True when something was.
    bool look(const std::vector<Trouble>& now, bool renew = false) {
        at += 1s;
        auto due = notes.due(now, at, renew);
        if (due) notes.written(*due, at);
        return due.has_value();
    }

    TroubleNotes notes;
    TroubleNotes::Time at{1h};
    Trouble refused{"out", "out", "running", "connection refused"};
};

}  // namespace

TEST_F(Noting, what_lasts_is_written_once_and_its_end_once) {
    EXPECT_FALSE(look({refused}));
    EXPECT_TRUE(look({refused}));
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(look({refused}));
    EXPECT_TRUE(look({}));
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(look({}));
}

TEST_F(Noting, a_moment_is_no_trouble) {
    for (int i = 0; i < 10; ++i) {
        EXPECT_FALSE(look({refused}));
        EXPECT_FALSE(look({}));
    }
}

TEST_F(Noting, words_that_change_all_the_time_are_written_seldom) {
    int writes = 0;
    for (int i = 0; i < 101; ++i) {
        refused.words = "again in " + std::to_string(i) + " s";
        writes += look({refused});
    }
    EXPECT_EQ(writes, 10);
}

TEST_F(Noting, another_state_is_written_at_once) {
    look({refused});
    look({refused});
    refused.state = "halted";
    EXPECT_TRUE(look({refused}));
}

TEST_F(Noting, a_new_session_writes_again) {
    look({refused});
    look({refused});
    notes.forget();
    EXPECT_TRUE(look({refused}));
    EXPECT_FALSE(look({refused}));
    notes.forget();
    EXPECT_TRUE(look({})) << "the old session's notes are taken away";
    notes.forget();
    EXPECT_FALSE(look({}));
}

TEST_F(Noting, a_lease_is_renewed_in_time) {
    look({refused}, true);
    look({refused}, true);
    int writes = 0;
    for (int i = 0; i < 30; ++i) writes += look({refused}, true);
    EXPECT_EQ(writes, 3);
    static_assert(TroubleNotes::lease >= 2 * TroubleNotes::pause);
}
