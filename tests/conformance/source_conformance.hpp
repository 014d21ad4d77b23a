#pragma once
// One suite for every source, on its real server and through a real inbox. A source's test is a SourceFixture
// and
//
//   INSTANTIATE_TYPED_TEST_SUITE_P(Kafka, SourceConformance, KafkaFixture);
//
// One fixture, with one broker, and one PostgreSQL server serve all tests of the binary; each test reads from
// a place of its own into a database of its own.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "conformance/source_fixture.hpp"
#include "support/broker.hpp"

namespace baton::test {

template <class Fixture>
class SourceConformance : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        try {
            fixture_ = std::make_unique<Fixture>();
            cluster_ = std::make_unique<Cluster>(Form::extension);
        } catch (const Unavailable& unavailable) {
            reason_ = unavailable.what();
            announce_skip(reason_);
        }
    }
    static void TearDownTestSuite() {
        fixture_.reset();
        cluster_.reset();
    }
    void SetUp() override {
        if (!fixture_) GTEST_SKIP() << reason_;
    }
    void TearDown() override {
        if (fixture_) fixture_->proxy().heal();
    }

    static inline std::unique_ptr<Fixture> fixture_;
    static inline std::unique_ptr<Cluster> cluster_;
    static inline std::string reason_;
};

TYPED_TEST_SUITE_P(SourceConformance);

#define BATON_SOURCE_CONFORMANCE(name)                       \
    TYPED_TEST_P(SourceConformance, name) {                  \
        conformance::name(*this->fixture_, *this->cluster_); \
    }

BATON_SOURCE_CONFORMANCE(every_message_arrives_once_with_its_id_headers_and_body)
BATON_SOURCE_CONFORMANCE(what_was_committed_and_not_acknowledged_comes_again_as_a_duplicate)
BATON_SOURCE_CONFORMANCE(nothing_is_acknowledged_before_the_inbox_has_committed)
BATON_SOURCE_CONFORMANCE(nothing_is_lost_when_the_broker_is_killed_in_the_middle)
BATON_SOURCE_CONFORMANCE(nothing_is_lost_and_order_holds_while_connections_are_cut)
BATON_SOURCE_CONFORMANCE(a_half_open_connection_is_given_up_and_all_arrives)
BATON_SOURCE_CONFORMANCE(nothing_is_lost_when_the_database_is_killed_in_the_middle)
BATON_SOURCE_CONFORMANCE(nothing_is_lost_when_the_relay_is_killed_again_and_again)
BATON_SOURCE_CONFORMANCE(what_cannot_be_read_is_kept_with_its_bytes_and_the_others_go_on)
BATON_SOURCE_CONFORMANCE(a_slow_inbox_slows_the_source_and_does_not_fill_memory)
BATON_SOURCE_CONFORMANCE(readers_come_and_go_and_nothing_is_lost)
BATON_SOURCE_CONFORMANCE(a_graceful_stop_leaves_nothing_unacknowledged_that_was_committed)
BATON_SOURCE_CONFORMANCE(an_inbox_that_is_missing_is_waited_for)
BATON_SOURCE_CONFORMANCE(check_tells_a_reachable_broker_from_one_that_is_not)

REGISTER_TYPED_TEST_SUITE_P(SourceConformance, every_message_arrives_once_with_its_id_headers_and_body,
                            what_was_committed_and_not_acknowledged_comes_again_as_a_duplicate,
                            nothing_is_acknowledged_before_the_inbox_has_committed,
                            nothing_is_lost_when_the_broker_is_killed_in_the_middle,
                            nothing_is_lost_and_order_holds_while_connections_are_cut,
                            a_half_open_connection_is_given_up_and_all_arrives,
                            nothing_is_lost_when_the_database_is_killed_in_the_middle,
                            nothing_is_lost_when_the_relay_is_killed_again_and_again,
                            what_cannot_be_read_is_kept_with_its_bytes_and_the_others_go_on,
                            a_slow_inbox_slows_the_source_and_does_not_fill_memory,
                            readers_come_and_go_and_nothing_is_lost,
                            a_graceful_stop_leaves_nothing_unacknowledged_that_was_committed,
                            an_inbox_that_is_missing_is_waited_for,
                            check_tells_a_reachable_broker_from_one_that_is_not);

}  // namespace baton::test
