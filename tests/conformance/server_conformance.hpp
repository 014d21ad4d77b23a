#pragma once
// The brokers that the other suites stand on: each starts beside another of its kind and frees its port when
// it is killed or stopped.

#include <gtest/gtest.h>

#include "support/broker.hpp"
#include "support/proxy.hpp"

namespace baton::test {

template <class Server>
class ServerConformance : public testing::Test {};

TYPED_TEST_SUITE_P(ServerConformance);

TYPED_TEST_P(ServerConformance, two_run_side_by_side_and_a_killed_one_frees_its_port) {
    try {
        TypeParam first;
        TypeParam second;
        first.start();
        second.start();
        EXPECT_NE(first.port(), second.port());
        const int port = first.port();
        first.kill_hard();
        EXPECT_FALSE(accepts_connections(port));
        EXPECT_TRUE(accepts_connections(second.port()));
        second.stop();
        EXPECT_FALSE(accepts_connections(second.port()));
    } catch (const Unavailable& unavailable) {
        announce_skip(unavailable.what());
        GTEST_SKIP() << unavailable.what();
    }
}

REGISTER_TYPED_TEST_SUITE_P(ServerConformance, two_run_side_by_side_and_a_killed_one_frees_its_port);

}  // namespace baton::test
