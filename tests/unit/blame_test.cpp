// Each row of the table in relay/blame.hpp.

#include <gtest/gtest.h>

#include "relay/blame.hpp"

using namespace baton::relay;

namespace {

class Blaming : public testing::Test {
  protected:
    // Send an event and let it come back `times` times, others going or not; returns the last ruling.
    Ruling fail(Fault fault, int times, bool others_go, bool first = true) {
        Ruling ruling{};
        for (int i = 0; i < times; ++i) {
            blame.sent(record);
            if (others_go) blame.delivered();
            ruling = blame.judge(record, fault, first);
        }
        return ruling;
    }
    void give_up(int events) {
        for (int i = 0; i < events; ++i) blame.gave_up("no");
    }

    Blame blame{{.attempts = 3, .give_up_limit = 5}};
    Record record;
};

}  // namespace

TEST_F(Blaming, a_moment_is_waited_for_while_nothing_goes) {
    EXPECT_EQ(fail(Fault::moment, 2, false), Ruling::await_sink);
    EXPECT_EQ(record.attempts, 0u);
}

TEST_F(Blaming, after_enough_tries_the_sink_is_asked_whether_it_is_up) {
    EXPECT_EQ(fail(Fault::moment, 3, false), Ruling::ask_sink);
    EXPECT_EQ(blame.sink_is_up(), Ruling::park);
}

TEST_F(Blaming, a_destination_is_waited_for_however_often_it_refuses) {
    EXPECT_EQ(fail(Fault::destination, 1000, false), Ruling::await_sink);
    EXPECT_EQ(record.attempts, 0u);
}

TEST_F(Blaming, what_fails_while_others_go_counts_and_is_parked_in_the_end) {
    for (const Fault fault : {Fault::moment, Fault::destination}) {
        record = {};
        EXPECT_EQ(fail(fault, 2, true), Ruling::wait);
        EXPECT_EQ(fail(fault, 1, true), Ruling::park);
    }
}

TEST_F(Blaming, those_behind_the_first_of_their_key_are_not_blamed) {
    EXPECT_NE(fail(Fault::moment, 10, true, false), Ruling::park);
    EXPECT_EQ(record.attempts, 0u);
}

TEST_F(Blaming, an_event_at_fault_is_buried_at_once) {
    EXPECT_EQ(fail(Fault::event, 1, false), Ruling::bury);
    EXPECT_EQ(fail(Fault::event, 1, true), Ruling::bury);
}

TEST_F(Blaming, after_too_many_in_a_row_nothing_is_given_up_whatever_the_fault) {
    give_up(4);
    EXPECT_EQ(fail(Fault::event, 1, false), Ruling::bury);
    give_up(1);
    EXPECT_TRUE(blame.streak().full());
    EXPECT_EQ(fail(Fault::event, 1, false), Ruling::stop);
    EXPECT_EQ(blame.sink_is_up(), Ruling::stop);
    record.attempts = 10;
    EXPECT_EQ(fail(Fault::moment, 1, false), Ruling::stop);
    EXPECT_EQ(fail(Fault::destination, 1, false), Ruling::stop);
}

TEST_F(Blaming, one_delivery_ends_the_streak) {
    give_up(5);
    blame.delivered();
    EXPECT_EQ(fail(Fault::event, 1, false), Ruling::bury);
    give_up(4);
    EXPECT_FALSE(blame.streak().full());
}

TEST_F(Blaming, the_streak_says_how_many_and_why) {
    give_up(5);
    EXPECT_NE(blame.streak().words().find("5 events in a row"), std::string::npos);
    EXPECT_TRUE(blame.streak().words().ends_with(": no")) << blame.streak().words();
}

TEST_F(Blaming, without_a_limit_the_burying_never_stops) {
    Blame endless{{.attempts = 3, .give_up_limit = 0}};
    for (int i = 0; i < 1000; ++i) endless.gave_up("no");
    EXPECT_EQ(endless.judge(record, Fault::event, true), Ruling::bury);
}

TEST_F(Blaming, where_nothing_keeps_what_is_given_up_everything_is_waited_for) {
    Blame patient{{.attempts = 1, .give_up_limit = 1, .keeps_trying = true}};
    for (const Fault fault : {Fault::moment, Fault::destination, Fault::event})
        for (int i = 0; i < 10; ++i) {
            patient.sent(record);
            if (i % 2 == 0) patient.delivered();
            const Ruling ruling = patient.judge(record, fault, true);
            EXPECT_TRUE(ruling == Ruling::wait || ruling == Ruling::await_sink);
        }
}

TEST_F(Blaming, tries_before_an_outage_was_over_are_forgotten) {
    EXPECT_EQ(fail(Fault::moment, 2, false), Ruling::await_sink);
    blame.outage_is_over();
    EXPECT_EQ(fail(Fault::moment, 2, false), Ruling::await_sink);
    EXPECT_EQ(fail(Fault::moment, 1, false), Ruling::ask_sink);
}
