// Two sessions at one inbox, step by step: each race that could lose a message, repeat an effect or wait for
// ever.

#include <gtest/gtest.h>

#include <future>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

struct Kind {
    const char* name;
    const char* setup;
    const char* table;
    const char* id;
};

const Kind kinds[] = {
    {"managed", "select baton.create_inbox('work')", "work", "event_id"},
    {"adopted",
     "create table own (msg text primary key, kind text, at timestamptz default now(), done timestamptz, "
     "tries int default 0,"
     " problem text, aggregate_id text, sequence_num bigint);"
     "select baton.adopt_inbox('work', 'own', 'msg', 'done', 'tries', 'problem', 'at', 'kind')",
     "own", "msg"},
};

class InboxRaces : public testing::TestWithParam<Kind> {
  protected:
    void SetUp() override {
        url_ = shared_cluster(Form::plain).fresh_database();
        one_ = std::make_unique<Connection>(url_);
        other_ = std::make_unique<Connection>(url_);
        one_->exec(GetParam().setup);
    }

    static std::string receive(Connection& db, const std::string& id) {
        return db.value("select baton.receive('work', $1, 't', '{}')", {id});
    }

    struct Claim {
        std::vector<std::string> ids;
        std::string token;
    };

    static Claim claim(Connection& db, int batch = 100) {
        const auto result =
            db.query("select event_id, lease_token from baton.claim_inbox('work', 'w', $1)", {batch});
        Claim claim;
        for (int row = 0; row < result.rows(); ++row) {
            claim.ids.emplace_back(result.text(row, 0));
            claim.token = result.text(row, 1);
        }
        return claim;
    }

    void expire_leases() {
        one_->exec(
            "update baton_internal.inbox_work set leased_until = now() - interval '1 s'; update "
            "baton_internal.inbox_sequences "
            "set leased_until = now() - interval '1 s'");
        if (std::string(GetParam().name) == "managed")
            one_->exec("update work set leased_until = now() - interval '1 s'");
    }

    // Run a step on the other session, which must come to wait for a lock; `then` is what sets it free.
    template <class Step, class Then>
    auto blocked(Step step, Then then) {
        auto outcome = std::async(std::launch::async, step);
        Connection watcher(url_);
        wait_until("the other session waits", [&] {
            return watcher.value("select count(*) from pg_locks where pid = $1 and not granted",
                                 {other_->backend_pid()}) != "0";
        });
        then();
        return outcome.get();
    }

    static std::string state_of(const std::function<void()>& step) {
        try {
            step();
        } catch (const SqlError& error) {
            return error.sqlstate();
        }
        return "00000";
    }

    std::string drop_message(const std::string& id) {
        return std::string("delete from ") + GetParam().table + " where " + GetParam().id + " = '" + id + "'";
    }

    std::string url_;
    std::unique_ptr<Connection> one_, other_;
};

}  // namespace

TEST_P(InboxRaces, a_redelivery_during_the_drain_of_its_row_is_a_duplicate) {
    receive(*one_, "m");
    one_->exec("begin; " + drop_message("m"));
    if (std::string(GetParam().name) == "adopted") {  // its id is known from the start: nothing to wait for
        EXPECT_EQ(receive(*other_, "m"), "duplicate");
        return;
    }
    EXPECT_EQ(blocked([&] { return receive(*other_, "m"); }, [&] { one_->exec("commit"); }), "duplicate");
    EXPECT_EQ(one_->value("select count(*) from work"), "0");
}

TEST_P(InboxRaces, a_batch_during_the_drain_of_a_row_is_told_of_the_duplicate) {
    receive(*one_, "m");
    one_->exec("begin; " + drop_message("m"));
    auto batch = [&] {
        return other_->value(
            "select string_agg(outcome, ',' order by position) from baton.receive_many('work', "
            "'[{\"event_id\": \"m\"}, {\"event_id\": \"n\"}]')");
    };
    if (std::string(GetParam().name) == "adopted") {
        EXPECT_EQ(batch(), "duplicate,new");
        return;
    }
    EXPECT_EQ(blocked(batch, [&] { one_->exec("commit"); }), "duplicate,new");
    EXPECT_EQ(one_->value("select string_agg(event_id, ',') from work"), "n");
}

TEST_P(InboxRaces, a_fixed_snapshot_does_not_hide_a_drained_message) {
    receive(*one_, "m");
    other_->exec("begin isolation level repeatable read; select 1");
    one_->exec(drop_message("m"));
    const auto state = state_of([&] { EXPECT_EQ(receive(*other_, "m"), "duplicate"); });
    EXPECT_EQ(state, std::string(GetParam().name) == "adopted" ? "00000" : "40001");
}

TEST_P(InboxRaces, a_plain_insert_during_the_drain_of_its_row_does_nothing) {
    if (std::string(GetParam().name) == "adopted") GTEST_SKIP() << "adopted tables have no triggers";
    receive(*one_, "m");
    one_->exec("begin; " + drop_message("m"));
    const auto inserted = blocked(
        [&] {
            return other_
                ->exec("insert into work (event_id, event_type) values ('m', 't') on conflict do nothing")
                .affected();
        },
        [&] { one_->exec("commit"); });
    EXPECT_EQ(inserted, 0);
    EXPECT_EQ(one_->value("select count(*) from work"), "0");
}

TEST_P(InboxRaces, a_message_taken_back_by_a_rollback_is_new_for_the_next_receiver) {
    one_->exec("begin");
    receive(*one_, "m");
    EXPECT_EQ(blocked([&] { return receive(*other_, "m"); }, [&] { one_->exec("rollback"); }), "new");
    EXPECT_EQ(receive(*one_, "m"), "duplicate");
}

TEST_P(InboxRaces, a_batch_takes_its_ids_in_order_so_that_receivers_do_not_wait_in_a_circle) {
    one_->exec("begin");
    receive(*one_, "a");
    const auto outcomes = blocked(
        [&] {
            return other_->value(
                "select string_agg(outcome, ',') from baton.receive_many('work', '[{\"event_id\": \"b\"}, "
                "{\"event_id\": \"a\"}]')");
        },
        [&] {
            EXPECT_EQ(receive(*one_, "b"), "new");
            one_->exec("commit");
        });
    EXPECT_EQ(outcomes, "duplicate,duplicate");
}

TEST_P(InboxRaces, a_claim_passes_over_what_another_transaction_holds) {
    for (const auto* id : {"a", "b", "c"}) receive(*one_, id);
    one_->exec("begin");
    EXPECT_EQ(claim(*one_, 2).ids.size(), 2U);
    other_->exec("set lock_timeout = '1ms'");
    EXPECT_EQ(claim(*other_).ids, std::vector<std::string>{"c"});
    one_->exec("rollback");
    EXPECT_EQ(claim(*other_).ids.size(), 2U);
}

TEST_P(InboxRaces, a_completion_loses_against_a_claim_of_its_expired_lease) {
    receive(*one_, "m");
    const auto lost = claim(*other_);
    expire_leases();
    one_->exec("begin");
    const auto won = claim(*one_);
    ASSERT_EQ(won.ids.size(), 1U);
    const auto state = blocked(
        [&] {
            return state_of([&] { other_->query("select baton.complete('work', 'm', $1)", {lost.token}); });
        },
        [&] { one_->exec("commit"); });
    EXPECT_EQ(state, "BT001");
    EXPECT_EQ(one_->value("select baton.complete('work', 'm', $1)", {won.token}), "1");
}

TEST_P(InboxRaces, a_claim_does_not_take_what_is_being_completed) {
    receive(*one_, "m");
    const auto mine = claim(*one_);
    expire_leases();
    one_->exec("begin");
    one_->query("select baton.complete('work', 'm', $1)", {mine.token});
    other_->exec("set lock_timeout = '1ms'");
    EXPECT_TRUE(claim(*other_).ids.empty());
    one_->exec("commit");
    EXPECT_TRUE(claim(*other_).ids.empty());
}

TEST_P(InboxRaces, two_completions_of_one_message_have_one_effect) {
    receive(*one_, "m");
    const auto mine = claim(*one_);
    one_->exec("begin");
    one_->query("select baton.complete('work', 'm', $1)", {mine.token});
    const auto state = blocked(
        [&] {
            return state_of([&] { other_->query("select baton.complete('work', 'm', $1)", {mine.token}); });
        },
        [&] { one_->exec("commit"); });
    EXPECT_EQ(state, "BT001");
}

TEST_P(InboxRaces, an_aggregate_in_work_is_passed_over_even_for_a_message_with_the_same_sequence) {
    one_->exec("select baton.enable_inbox_ordering('work', sequence_num_col => 'sequence_num')");
    one_->exec("select baton.receive('work', 'x', 't', '{}', aggregate_id => 'a', sequence_num => 1)");
    one_->exec("begin");
    ASSERT_EQ(claim(*one_).ids, std::vector<std::string>{"x"});
    other_->exec("select baton.receive('work', 'twin', 't', '{}', aggregate_id => 'a', sequence_num => 1)");
    const auto twin = blocked([&] { return claim(*other_).ids; }, [&] { one_->exec("commit"); });
    EXPECT_TRUE(twin.empty());
    EXPECT_TRUE(claim(*other_).ids.empty());
}

TEST_P(InboxRaces, in_order_of_arrival_nobody_takes_the_second_message_while_the_first_is_being_claimed) {
    one_->exec("select baton.enable_inbox_ordering('work')");
    for (const auto* id : {"z", "a"})
        one_->query("select baton.receive('work', $1, 't', '{}', aggregate_id => 'k')", {id});
    one_->exec("begin");
    ASSERT_EQ(claim(*one_).ids, std::vector<std::string>{"z"});
    other_->exec("set lock_timeout = '1ms'");
    EXPECT_TRUE(claim(*other_).ids.empty());
    one_->exec("commit");
    EXPECT_TRUE(claim(*other_).ids.empty());
}

TEST_P(InboxRaces, in_order_of_arrival_the_next_message_waits_for_the_commit_of_the_one_before) {
    one_->exec("select baton.enable_inbox_ordering('work')");
    for (const auto* id : {"z", "a"})
        one_->query("select baton.receive('work', $1, 't', '{}', aggregate_id => 'k')", {id});
    const auto first = claim(*one_);
    one_->exec("begin");
    one_->query("select baton.complete('work', 'z', $1)", {first.token});
    other_->exec("set lock_timeout = '1ms'");
    EXPECT_TRUE(claim(*other_).ids.empty());
    one_->exec("commit");
    EXPECT_EQ(claim(*other_).ids, std::vector<std::string>{"a"});
}

TEST_P(InboxRaces, a_stretch_that_two_receivers_bring_at_once_stays_in_order) {
    if (std::string(GetParam().name) == "adopted") GTEST_SKIP() << "adopted tables go by their own clock";
    one_->exec("select baton.enable_inbox_ordering('work')");
    one_->exec("begin");
    one_->exec("select baton.receive('work', 'm1', 't', '{}', aggregate_id => 'k')");
    // Rows go in by id: the third message has drawn its place when the batch comes to wait for the first.
    blocked(
        [&] {
            return other_->value(
                "select string_agg(outcome, ',' order by position) from baton.receive_many('work', "
                "'[{\"event_id\": \"m1\", \"aggregate_id\": \"k\"}, {\"event_id\": \"m2\", "
                "\"aggregate_id\": \"k\"}, {\"event_id\": \"a3\", \"aggregate_id\": \"k\"}]')");
        },
        [&] {
            one_->exec("select baton.receive('work', 'm2', 't', '{}', aggregate_id => 'k')");
            one_->exec("commit");
        });
    EXPECT_EQ(one_->value("select string_agg(event_id, ',' order by arrival) from work"), "m1,m2,a3");
    EXPECT_EQ(claim(*one_).ids, std::vector<std::string>{"m1"});
}

TEST_P(InboxRaces, a_worker_that_lost_its_aggregate_cannot_finish_beside_the_one_who_has_it) {
    one_->exec("select baton.enable_inbox_ordering('work')");
    for (const auto* id : {"z", "a"})
        one_->query("select baton.receive('work', $1, 't', '{}', aggregate_id => 'k')", {id});
    const auto first = claim(*one_);
    one_->query("select baton.complete('work', 'z', $1)", {first.token});
    const auto lost = claim(*other_);
    ASSERT_EQ(lost.ids, std::vector<std::string>{"a"});
    one_->exec("select baton.replay_inbox_messages('work', '{z}')");
    expire_leases();
    one_->exec("begin");
    ASSERT_EQ(claim(*one_).ids, std::vector<std::string>{"z"});
    const auto state = blocked(
        [&] {
            return state_of([&] { other_->query("select baton.complete('work', 'a', $1)", {lost.token}); });
        },
        [&] { one_->exec("commit"); });
    EXPECT_EQ(state, "BT001");
}

TEST_P(InboxRaces, a_busy_table_is_not_queued_for_when_order_is_switched) {
    one_->exec("begin");
    receive(*one_, "m");
    EXPECT_EQ(state_of([&] { other_->exec("select baton.enable_inbox_ordering('work')"); }), "55P03");
    one_->exec("commit");
    EXPECT_EQ(state_of([&] { other_->exec("select baton.enable_inbox_ordering('work')"); }), "00000");
}

INSTANTIATE_TEST_SUITE_P(, InboxRaces, testing::ValuesIn(kinds),
                         [](const auto& kind) { return std::string(kind.param.name); });
