// An event leaves only when as many standbys have its commit on disk as outbox_publish_after_standbys says.

#include <gtest/gtest.h>
#include <signal.h>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class Replication : public testing::Test {
  protected:
    Replication() {
        admin.exec(
            "select baton.create_outbox('events'), baton.create_consumer_group('g', 'events', 'earliest'), "
            "baton.set_setting('outbox_publish_after_standbys', '1')");
    }
    void publish() { admin.exec("insert into events (event_type) values ('e')"); }
    std::string polled() { return admin.value("select count(*) from baton.poll_outbox('g', 'c')"); }

    Cluster cluster{Form::extension};
    std::string url = cluster.fresh_database();
    Connection admin{url};
};

}  // namespace

TEST_F(Replication, nothing_leaves_without_a_standby) {
    publish();
    EXPECT_EQ(polled(), "0");
    admin.exec("select baton.set_setting('outbox_publish_after_standbys', '0')");
    EXPECT_EQ(polled(), "1") << "nothing was lost meanwhile";
}

TEST_F(Replication, an_event_waits_for_the_standby_that_does_not_write) {
    Cluster standby = cluster.make_standby();
    const auto follows = [&] {
        return admin.value("select count(*) from pg_stat_replication where state = 'streaming'") == "1";
    };
    wait_until("the standby follows", follows);
    publish();
    wait_until("the event comes", [&] { return polled() == "1"; });
    const pid_t receiver =
        std::stoi(Connection(standby.server().url()).value("select pid from pg_stat_wal_receiver"));
    ASSERT_EQ(::kill(receiver, SIGSTOP), 0);
    publish();
    EXPECT_EQ(polled(), "0");
    ASSERT_EQ(::kill(receiver, SIGCONT), 0);
    wait_until("the event comes", [&] { return polled() == "1"; });
}

TEST_F(Replication, two_standbys_are_more_than_one) {
    Cluster standby = cluster.make_standby();
    wait_until("the standby follows", [&] {
        return admin.value("select count(*) from pg_stat_replication where state = 'streaming'") == "1";
    });
    admin.exec("select baton.set_setting('outbox_publish_after_standbys', '2')");
    publish();
    EXPECT_EQ(polled(), "0");
}
