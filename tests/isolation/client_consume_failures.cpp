// GroupConsumer and InboxWorker with handlers that fail: whose fault it is, and what becomes of the others.

#include "client_consuming.hpp"

using namespace baton::test;
using namespace std::chrono_literals;
using baton::Delivery;
using baton::Incident;
using baton::WorkOptions;

TEST_P(Consuming, a_failure_undoes_its_own_writes_and_nobody_elses) {
    bring_many(6);
    int failures = 0;
    auto work = worker([&](baton::Transaction& tx, const Delivery& delivery) {
        take_effect(tx, delivery);
        if (number_of(delivery) == 3 && delivery.attempt < 3) {
            ++failures;
            throw std::runtime_error("not yet");
        }
    });
    wait_until("all are handled", [&] {
        work->drain();
        return effects() == "1 2 3 4 5 6";
    });
    EXPECT_EQ(failures, 2);
    EXPECT_EQ(count(Incident::Kind::failed), 2);
    EXPECT_EQ(work->counts().failed, 2U);
    EXPECT_TRUE(settled());
}

TEST_P(Consuming, a_rejected_delivery_is_a_dead_letter_at_once) {
    bring_many(4);
    auto work = worker([](baton::Transaction& tx, const Delivery& delivery) {
        take_effect(tx, delivery);
        if (number_of(delivery) == 2) throw baton::Reject("cannot be");
    });
    EXPECT_EQ(work->drain(), 3U);
    EXPECT_EQ(effects(), "1 3 4");
    EXPECT_EQ(dead(), 1);
    EXPECT_EQ(work->counts().rejected, 1U);
    EXPECT_EQ(
        admin.value(is_group() ? "select error from baton_internal.parked" : "select error from dlq_work"),
        "cannot be");
}

TEST_P(Consuming, one_that_always_fails_is_dead_when_its_attempts_are_used_up) {
    bring_many(2);
    int tries = 0;
    auto work = worker([&](baton::Transaction& tx, const Delivery& delivery) {
        if (number_of(delivery) == 1) {
            ++tries;
            throw 42;  // not even an exception
        }
        take_effect(tx, delivery);
    });
    wait_until("it is dead", [&] {
        work->drain();
        return dead() == 1;
    });
    EXPECT_EQ(tries, 3);
    EXPECT_EQ(effects(), "2");
}

TEST_P(Consuming, a_retry_comes_not_before_the_time_it_asked_for) {
    bring(1);
    auto work =
        worker([](baton::Transaction&, const Delivery&) { throw baton::Retry("the shop is closed", 3600s); });
    EXPECT_EQ(work->drain(), 0U);
    EXPECT_EQ(admin.value(is_group() ? "select due_at > now() + interval '50 min' from baton_internal.parked"
                                     : "select available_at > now() + interval '50 min' from pending_work"),
              "t");
}

TEST_P(Consuming, the_later_ones_of_a_key_wait_for_one_that_failed) {
    if (!ordered()) GTEST_SKIP() << "keeps no order";
    for (int n = 1; n <= 9; ++n) bring(n, n % 3 == 0 ? "a" : "b" + std::to_string(n), n % 3 == 0 ? n / 3 : 1);
    int calls = 0;
    auto work = worker([&](baton::Transaction& tx, const Delivery& delivery) {
        ++calls;
        if (number_of(delivery) == 3 && delivery.attempt == 1) throw baton::Retry("wait");
        take_effect(tx, delivery);
    });
    wait_until("all are handled", [&] {
        work->drain();
        return effects() == "1 2 3 4 5 6 7 8 9";
    });
    EXPECT_EQ(admin.value("select string_agg(n::text, ' ' order by place) from effects where n % 3 = 0"),
              "3 6 9");
    EXPECT_EQ(calls, 10) << "one was handled before its turn, in vain";
}

TEST_P(Consuming, a_batch_that_fails_is_charged_to_the_one_that_caused_it) {
    bring_many(5);
    std::vector<std::size_t> sizes;
    auto work = worker([&](baton::Transaction& tx, std::span<const Delivery> batch) {
        sizes.push_back(batch.size());
        for (const auto& delivery : batch) {
            take_effect(tx, delivery);
            if (number_of(delivery) == 4) throw baton::Reject("bad");
        }
    });
    EXPECT_EQ(work->drain(), 4U);
    EXPECT_EQ(effects(), "1 2 3 5");
    EXPECT_EQ(dead(), 1);
    EXPECT_EQ(sizes, (std::vector<std::size_t>{5, 1, 1, 1, 1, 1}));
}

TEST_P(Consuming, what_cannot_be_committed_is_charged_to_the_one_that_caused_it) {
    admin.exec("create table once (n int unique deferrable initially deferred); insert into once values (2)");
    bring_many(3);
    auto work = worker([&](baton::Transaction& tx, const Delivery& delivery) {
        tx.query("insert into once values ($1)", {number_of(delivery)});
        take_effect(tx, delivery);
    });
    wait_until("the attempts of one are used up", [&] {
        work->drain();
        return dead() == 1;
    });
    EXPECT_EQ(effects(), "1 3");
}

TEST_P(Consuming, a_collision_is_tried_again_and_does_not_count) {
    bring_many(3);
    int collisions = 0;
    auto work = worker([&](baton::Transaction& tx, const Delivery& delivery) {
        take_effect(tx, delivery);
        if (number_of(delivery) == 2 && collisions++ < 2)
            tx.query("do $$ begin raise exception 'met somebody' using errcode = '40001'; end $$");
    });
    EXPECT_EQ(work->drain(), 3U);
    EXPECT_EQ(effects(), "1 2 3");
    EXPECT_EQ(work->counts().failed, 0U);
}

TEST_P(Consuming, a_broken_connection_is_made_again_and_the_effect_happens_once) {
    bring_many(4);
    std::atomic<int> breaks{0};
    auto work = worker([&](baton::Transaction& tx, const Delivery& delivery) {
        take_effect(tx, delivery);
        if (number_of(delivery) == 2 && breaks++ < 2)
            Connection(url).query("select pg_terminate_backend($1)", {PQbackendPID(tx.native())});
    });
    std::jthread running([&](const std::stop_token& stop) { work->run(stop); });
    wait_until("all are handled", [&] { return effects() == "1 2 3 4"; });
    running.request_stop();
    running.join();
    EXPECT_EQ(breaks, 3);
    EXPECT_GE(count(Incident::Kind::connection_lost), 2);
    EXPECT_TRUE(settled());
}

TEST_P(Consuming, one_that_always_breaks_the_connection_is_dead_when_its_attempts_are_used_up) {
    bring_many(4);
    auto work = worker([&](baton::Transaction& tx, const Delivery& delivery) { break_at(3, tx, delivery); });
    run_until_dead(*work);
    EXPECT_EQ(effects(), "1 2 4");
}

TEST_P(Consuming, one_of_a_batch_that_always_breaks_the_connection_is_dead_and_none_of_the_others_is) {
    bring_many(4);
    auto work = worker([&](baton::Transaction& tx, std::span<const Delivery> batch) {
        for (const auto& delivery : batch) break_at(3, tx, delivery);
    });
    run_until_dead(*work);
    EXPECT_EQ(effects(), "1 2 4");
}

TEST_P(Consuming, a_handler_that_ends_the_transaction_is_told_so) {
    for (const char* end : {"commit", "rollback", "commit; begin", "rollback; begin"}) {
        bring(1 + std::rand());
        auto work =
            worker([&](baton::Transaction& tx, const Delivery&) { PQclear(PQexec(tx.native(), end)); });
        EXPECT_THROW(work->drain(), baton::UsageError) << end;
    }
}

TEST_P(Consuming, a_handler_that_hides_a_failed_statement_has_failed) {
    bring(1);
    auto work = worker([&](baton::Transaction& tx, const Delivery& delivery) {
        if (delivery.attempt > 1) return take_effect(tx, delivery);
        try {
            tx.query("select 1 / 0");
        } catch (const baton::SqlError& error) {
            EXPECT_EQ(error.sqlstate(), "22012");
        }
    });
    wait_until("it is handled", [&] {
        work->drain();
        return effects() == "1";
    });
    EXPECT_EQ(work->counts().failed, 1U);
}
