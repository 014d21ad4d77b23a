#pragma once
// One suite for every sink, on its real server. A sink's test is a SinkFixture and
//
//   INSTANTIATE_TYPED_TEST_SUITE_P(Kafka, SinkConformance, KafkaFixture);
//
// One fixture, with one broker, serves all tests of the binary; each test sends to a destination of its own.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "conformance/sink_fixture.hpp"
#include "support/broker.hpp"

namespace baton::test {

template <class Fixture>
class SinkConformance : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        try {
            fixture_ = std::make_unique<Fixture>();
        } catch (const Unavailable& unavailable) {
            reason_ = unavailable.what();
            announce_skip(reason_);
        }
    }
    static void TearDownTestSuite() { fixture_.reset(); }
    void SetUp() override {
        if (!fixture_) GTEST_SKIP() << reason_;
    }
    void TearDown() override {
        if (fixture_ && fixture_->proxy() != nullptr) fixture_->proxy()->heal();
    }

    static inline std::unique_ptr<Fixture> fixture_;
    static inline std::string reason_;
};

TYPED_TEST_SUITE_P(SinkConformance);

#define BATON_CONFORMANCE(name)             \
    TYPED_TEST_P(SinkConformance, name) {   \
        conformance::name(*this->fixture_); \
    }

BATON_CONFORMANCE(every_event_arrives_with_its_id_headers_and_body)
BATON_CONFORMANCE(each_key_keeps_its_order_while_connections_break)
BATON_CONFORMANCE(nothing_is_lost_when_the_broker_is_killed_in_the_middle)
BATON_CONFORMANCE(a_sink_made_while_its_broker_is_away_delivers_once_it_is_back)
BATON_CONFORMANCE(a_half_open_connection_is_given_up_and_all_arrives)
BATON_CONFORMANCE(lost_answers_leave_only_copies_with_the_same_id)
BATON_CONFORMANCE(a_slow_broker_slows_the_sink_and_does_not_fill_memory)
BATON_CONFORMANCE(a_poison_message_is_rejected_and_the_others_go_on)
BATON_CONFORMANCE(a_second_delivery_carries_the_same_id)
BATON_CONFORMANCE(what_was_reported_is_there_after_the_sink_is_gone)
BATON_CONFORMANCE(a_sink_with_messages_in_flight_can_be_destroyed)
BATON_CONFORMANCE(check_tells_a_reachable_broker_from_one_that_is_not)
BATON_CONFORMANCE(a_wrong_login_is_waited_for_and_rejects_nothing)
BATON_CONFORMANCE(a_missing_destination_is_waited_for_and_gets_all_once_it_is_there)
BATON_CONFORMANCE(nothing_leaves_a_sink_that_may_not_send_and_all_of_it_once_it_may)
BATON_CONFORMANCE(headers_of_a_message_do_not_stand_for_its_id)
BATON_CONFORMANCE(what_is_refused_in_the_middle_of_a_key_is_overtaken_by_none_of_it)

REGISTER_TYPED_TEST_SUITE_P(
    SinkConformance, every_event_arrives_with_its_id_headers_and_body,
    each_key_keeps_its_order_while_connections_break, nothing_is_lost_when_the_broker_is_killed_in_the_middle,
    a_sink_made_while_its_broker_is_away_delivers_once_it_is_back,
    a_half_open_connection_is_given_up_and_all_arrives, lost_answers_leave_only_copies_with_the_same_id,
    a_slow_broker_slows_the_sink_and_does_not_fill_memory, a_poison_message_is_rejected_and_the_others_go_on,
    a_second_delivery_carries_the_same_id, what_was_reported_is_there_after_the_sink_is_gone,
    a_sink_with_messages_in_flight_can_be_destroyed, check_tells_a_reachable_broker_from_one_that_is_not,
    a_wrong_login_is_waited_for_and_rejects_nothing,
    a_missing_destination_is_waited_for_and_gets_all_once_it_is_there,
    nothing_leaves_a_sink_that_may_not_send_and_all_of_it_once_it_may,
    headers_of_a_message_do_not_stand_for_its_id,
    what_is_refused_in_the_middle_of_a_key_is_overtaken_by_none_of_it);

}  // namespace baton::test
