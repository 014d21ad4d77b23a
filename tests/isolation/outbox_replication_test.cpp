// An outbox is no target of logical replication: events would arrive with transaction ids that mean nothing
// here, without waking anybody, under ids that the log's own sequence has not given.

#include <gtest/gtest.h>

#include "isolation/outbox_workload.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class OutboxReplication : public testing::TestWithParam<Form> {};

// Let one database's events stream into another of the same server for as long as the object lives.
class Subscription {
  public:
    Subscription(Cluster& cluster, const std::string& from, const std::string& to, const std::string& tables)
        : publisher_(superuser(cluster, from)), subscriber_(superuser(cluster, to)) {
        publisher_.exec("create publication p for " + tables + " with (publish_via_partition_root)");
        publisher_.exec("select pg_create_logical_replication_slot('s', 'pgoutput')");
        subscriber_.exec("create subscription s connection '" + escaped(superuser(cluster, from)) +
                         "' publication p with (create_slot = false, copy_data = false)");
    }
    ~Subscription() {
        try {
            subscriber_.exec("alter subscription s disable");
            subscriber_.exec("alter subscription s set (slot_name = none)");
            subscriber_.exec("drop subscription s");
            wait_until("the slot is free", [this] {
                return publisher_.value("select active from pg_replication_slots where slot_name = 's'") ==
                       "f";
            });
            publisher_.exec("select pg_drop_replication_slot('s')");
        } catch (const std::exception& error) {
            ADD_FAILURE() << error.what();
        }
    }
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

    long errors() {
        return std::stol(subscriber_.value("select apply_error_count from pg_stat_subscription_stats"));
    }

  private:
    static std::string superuser(Cluster& cluster, const std::string& url) {
        return cluster.server().url(url.substr(url.find("dbname=") + 7));
    }
    static std::string escaped(std::string text) {
        for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 2)
            text.insert(at, "'");
        return text;
    }

    Connection publisher_, subscriber_;
};

}  // namespace

TEST_P(OutboxReplication, an_event_that_arrives_by_logical_replication_is_refused) {
    Cluster cluster(Cluster::Options{GetParam(), true, {"wal_level = logical", "max_wal_senders = 5"}});
    const auto from = cluster.fresh_database();
    const auto to = cluster.fresh_database();
    Connection source(from);
    Connection target(to);
    source.exec("select baton.create_outbox('events')");
    target.exec(
        "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
        "'earliest')");
    Subscription subscription(cluster, from, to, "table events");
    source.exec("insert into events (event_type) values ('e')");
    wait_until("the event is refused", [&] {
        return subscription.errors() > 0 || target.value("select count(*) from events") != "0";
    });
    EXPECT_EQ(target.value("select count(*) from events"), "0");
    EXPECT_NE(cluster.server().log_tail(100).find("takes no event of another transaction"),
              std::string::npos);
    target.exec("insert into events (event_type) values ('own')");
    EXPECT_EQ(GroupReader(target, "g").drain(), "1") << "the log goes on";
}

INSTANTIATE_TEST_SUITE_P(Forms, OutboxReplication, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
