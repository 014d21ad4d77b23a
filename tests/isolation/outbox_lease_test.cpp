// What a lease is worth while others are at work: who loses it loses all of it, at one moment.

#include <gtest/gtest.h>

#include <future>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class OutboxLease : public testing::TestWithParam<Form> {};

// Wait until a statement of that backend waits for a lock.
void wait_until_blocked(Connection& db, const Connection& other) {
    wait_until("the statement waits", [&] {
        return db.value("select count(*) from pg_locks where not granted and pid = $1",
                        {other.backend_pid()}) != "0";
    });
}

}  // namespace

TEST_P(OutboxLease, a_lease_that_another_is_taking_over_cannot_be_extended) {
    const auto url = shared_cluster(GetParam()).fresh_database();
    Connection db(url);
    Connection slow(url);
    Connection quick(url);
    db.exec(
        "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', 'earliest', "
        "retry_base => '1 ms', retry_limit => '1 ms'); insert into events (event_type) values ('e')");
    db.exec("select * from baton.poll_outbox('g', 'slow')");
    db.exec("select baton.fail_events('g', 'slow', '{1}', 'not now')");
    db.exec("update baton_internal.parked set due_at = now() - interval '1 second'");
    const auto token = slow.value("select lease_token from baton.poll_outbox('g', 'slow')");
    db.exec("update baton_internal.parked set leased_until = now() - interval '1 second'");

    quick.exec("begin");
    EXPECT_EQ(quick.value("select id from baton.poll_outbox('g', 'quick', 1, 30)"), "1");
    auto extended = std::async(std::launch::async, [&] {
        try {
            return slow.value("select baton.extend_lease('g', 'slow', 3600, $1::uuid)", {token});
        } catch (const SqlError& error) {
            return error.sqlstate();
        }
    });
    wait_until_blocked(db, slow);
    quick.exec("commit");
    EXPECT_EQ(extended.get(), "BT001");
    EXPECT_EQ(db.value("select consumer_id || ' ' || (leased_until < now() + interval '1 minute')::text from "
                       "baton_internal.parked"),
              "quick true");
}

TEST_P(OutboxLease, a_dead_letter_goes_while_a_poll_parks_behind_it_and_its_key_goes_on) {
    const auto url = shared_cluster(GetParam()).fresh_database();
    Connection db(url);
    Connection consumer(url);
    Connection operator_(url);
    db.exec(
        "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', 'earliest', "
        "on_poison => 'block_key'); insert into events (event_type, aggregate_id) values ('first', 'k')");
    db.exec("select * from baton.poll_outbox('g', 'c')");
    db.exec("select baton.fail_events('g', 'c', '{1}', 'never', true)");
    db.exec("insert into events (event_type, aggregate_id) values ('second', 'k')");

    consumer.exec("begin");
    EXPECT_EQ(consumer.value("select count(*) from baton.poll_outbox('g', 'c')"), "0");
    auto discarded = std::async(std::launch::async, [&] {
        return operator_.value(
            "select baton.discard_dead_letters(array(select id from baton.dead_letters), 'unwanted')");
    });
    wait_until("the letter is gone, or waits for the poll", [&] {
        return discarded.wait_for(std::chrono::seconds(0)) == std::future_status::ready ||
               db.value("select count(*) from pg_locks where not granted and pid = $1",
                        {operator_.backend_pid()}) != "0";
    });
    consumer.exec("commit");
    EXPECT_EQ(discarded.get(), "1");
    EXPECT_EQ(db.value("select event_type from baton.poll_outbox('g', 'c')"), "second");
}

// A group whose dead letters hold their keys is changed so that they do not, while a consumer waits for the
// change.
class PolicyChange : public OutboxLease {
  protected:
    void SetUp() override {
        db.exec(
            "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
            "'earliest', "
            "on_poison => 'block_key'); insert into events (event_type, aggregate_id) values ('first', 'k'), "
            "('second', 'k')");
    }

    // What a statement of the consumer gives that began before the change was committed and came after it.
    std::string after_the_change(const std::string& statement) {
        relay.exec("begin; select baton_internal.prepare_group('g', 'events', on_poison => 'park')");
        auto outcome = std::async(std::launch::async, [&] { return consumer.value(statement); });
        wait_until_blocked(db, consumer);
        relay.exec("commit");
        return outcome.get();
    }

    const std::string url = shared_cluster(GetParam()).quiet_database();
    Connection db{url};
    Connection consumer{url};
    Connection relay{url};
};

TEST_P(PolicyChange, an_event_that_fails_meanwhile_holds_back_no_other_for_ever) {
    db.exec("select * from baton.poll_outbox('g', 'c')");
    EXPECT_EQ(after_the_change(
                  "select string_agg(id || ' ' || state, ', ') from baton.fail_events('g', 'c', '{1}', "
                  "'never', permanent => true)"),
              "1 dead");
    EXPECT_EQ(db.value("select baton.commit_offset('g', 'c', 2)"), "t");
}

TEST_P(PolicyChange, an_event_that_is_read_meanwhile_is_not_parked_behind_a_dead_letter) {
    db.exec("select * from baton.poll_outbox('g', 'c', 1)");
    db.exec("select baton.fail_events('g', 'c', '{1}', 'never', permanent => true)");
    EXPECT_EQ(after_the_change("select string_agg(event_type, ', ') from baton.poll_outbox('g', 'c')"),
              "second");
}

INSTANTIATE_TEST_SUITE_P(Forms, OutboxLease, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
INSTANTIATE_TEST_SUITE_P(Forms, PolicyChange, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
