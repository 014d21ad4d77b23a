// A primary is killed under load and its standby promoted, by Patroni: what was answered is there, and what
// the relay sent was never taken back.

#include <gtest/gtest.h>

#include "audit/report.hpp"
#include "chaos/failover.hpp"
#include "support/broker.hpp"

using namespace baton::test;
using namespace std::chrono_literals;

namespace {

baton::audit::Report hold(Replication replication) {
    return audit_failover(replication, 25s, 11,
                          [](const std::string& what) { std::cerr << what << std::endl; });
}

class Failover : public testing::Test {
  protected:
    void judge(Replication replication) {
        try {
            const auto report = hold(replication);
            EXPECT_TRUE(report.good()) << baton::audit::as_text(report);
            EXPECT_FALSE(report.faults.empty());
        } catch (const Unavailable& unavailable) {
            announce_skip(unavailable.what());
            GTEST_SKIP() << unavailable.what();
        }
    }
};

}  // namespace

TEST_F(Failover, with_synchronous_replication_nothing_is_lost_and_nothing_made_up) {
    judge(Replication::synchronous);
}

TEST_F(Failover, with_asynchronous_replication_nothing_is_sent_that_the_standby_does_not_have) {
    judge(Replication::guarded);
}
