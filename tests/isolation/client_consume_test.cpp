// GroupConsumer and InboxWorker: the handler's effect and the settling are one, whatever happens between
// them.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "baton/baton.hpp"
#include "support/cluster.hpp"

using namespace baton::test;
using namespace std::chrono_literals;
using baton::Delivery;
using baton::Incident;
using baton::WorkOptions;

namespace {

enum class Kind { group, inbox, ordered_inbox };

struct Scene {
    Form form;
    Kind kind;
};

// The same tests for groups and inboxes: things are n = 1, 2, ... with keys a, b.
class Consuming : public testing::TestWithParam<Scene> {
  protected:
    void SetUp() override {
        admin.exec("create table effects (place bigserial primary key, n int, by text)");
        if (is_group()) {
            admin.exec("select baton.create_outbox('source')");
            admin.exec(
                "select baton.create_consumer_group('work', 'source', 'earliest', max_attempts => 3, "
                "retry_base => '0', retry_limit => '0')");
        } else {
            admin.exec("select baton.create_inbox('work', max_retries => 3)");
            admin.exec("select baton.alter_inbox('work', backoff_base => '0', backoff_cap => '0')");
            if (ordered())
                admin.exec("select baton.enable_inbox_ordering('work', sequence_num_col => 'sequence_num')");
        }
    }

    bool is_group() const { return GetParam().kind == Kind::group; }
    bool ordered() const { return GetParam().kind != Kind::inbox; }

    // Bring in n, with a key of its own unless one is given.
    void bring(int n, const std::string& key = {}, int sequence = 1) {
        const std::string k = key.empty() ? "k" + std::to_string(n) : key;
        if (is_group())
            admin.query(
                "select baton.publish('source', 'thing', jsonb_build_object('n', $1::int), aggregate_id => "
                "$2)",
                {n, k});
        else
            admin.query(
                "select baton.receive('work', $1, 'thing', jsonb_build_object('n', $2::int), aggregate_id => "
                "$3, sequence_num => $4)",
                {"m" + std::to_string(n), n, k, sequence});
    }
    void bring_many(int count) {
        for (int n = 1; n <= count; ++n) bring(n);
    }

    WorkOptions options() {
        return {.conninfo = url, .on_incident = [this](const Incident& incident) {
                    const std::lock_guard lock(guard);
                    incidents.push_back(incident.kind);
                    words.push_back(incident.what);
                }};
    }

    std::unique_ptr<baton::Worker> worker(baton::Handler handler) {
        return worker(std::move(handler), options());
    }
    std::unique_ptr<baton::Worker> worker(baton::Handler handler, WorkOptions with) {
        if (is_group())
            return std::make_unique<baton::GroupConsumer>("work", std::move(with), std::move(handler));
        return std::make_unique<baton::InboxWorker>("work", std::move(with), std::move(handler));
    }

    static int number_of(const Delivery& delivery) {
        return std::stoi(delivery.payload.substr(delivery.payload.find(':') + 1));
    }
    static void take_effect(baton::Transaction& tx, const Delivery& delivery, const std::string& by = "one") {
        tx.query("insert into effects (n, by) values ($1, $2)", {number_of(delivery), by});
    }

    std::string effects() {
        return admin.value("select coalesce(string_agg(n::text, ' ' order by n), '') from effects");
    }
    std::string effects_in_order() {
        return admin.value("select coalesce(string_agg(n::text, ' ' order by place), '') from effects");
    }
    int dead() {
        return std::stoi(admin.value(is_group()
                                         ? "select count(*) from baton_internal.parked where state = 'dead'"
                                         : "select count(*) from dlq_work"));
    }
    // Nothing is waiting, parked or leased.
    bool settled() {
        return admin.value(
                   is_group()
                       ? "select not exists (select from baton_internal.pieces) and not exists (select from "
                         "baton_internal.parked where state <> 'dead') and "
                         "not exists (select from baton.group_lag where lag_rows > 0)"
                       : "select not exists (select from pending_work)") == "t";
    }
    // Let every lease run out now.
    void expire_leases() {
        Connection(url).exec(is_group()
                                 ? "update baton_internal.pieces set leased_until = now() - interval '1 s'"
                                 : "update work set leased_until = now() - interval '1 s' where "
                                   "leased_until is not null");
        if (GetParam().kind == Kind::ordered_inbox)
            Connection(url).exec(
                "update baton_internal.inbox_sequences set leased_until = now() - interval '1 s' "
                "where leased_until is not null");
    }
    // Handle it; number n takes the connection down.
    static void break_at(int n, baton::Transaction& tx, const Delivery& delivery) {
        take_effect(tx, delivery);
        if (number_of(delivery) == n) tx.query("select pg_terminate_backend(pg_backend_pid())");
    }
    void run_until_dead(baton::Worker& work) {
        std::jthread running([&](const std::stop_token& stop) { work.run(stop); });
        wait_until("one is dead and the others are handled", [&] { return dead() == 1 && settled(); });
    }
    int count(Incident::Kind kind) {
        const std::lock_guard lock(guard);
        return static_cast<int>(std::count(incidents.begin(), incidents.end(), kind));
    }

    std::string url = shared_cluster(GetParam().form).fresh_database();
    Connection admin{url};
    std::mutex guard;
    std::vector<Incident::Kind> incidents;
    std::vector<std::string> words;
};

std::string scene_name(const testing::TestParamInfo<Scene>& test) {
    const char* kinds[] = {"group", "inbox", "ordered_inbox"};
    return std::string(kinds[static_cast<int>(test.param.kind)]) + "_" + name_of(test.param.form);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Scenes, Consuming,
                         testing::Values(Scene{Form::extension, Kind::group}, Scene{Form::plain, Kind::group},
                                         Scene{Form::plain, Kind::inbox},
                                         Scene{Form::extension, Kind::ordered_inbox}),
                         scene_name);

TEST_P(Consuming, everything_is_handled_once_and_settled) {
    bring_many(120);
    auto work = worker([](baton::Transaction& tx, const Delivery& delivery) {
        EXPECT_EQ(delivery.type, "thing");
        EXPECT_EQ(delivery.aggregate_id, "k" + std::to_string(number_of(delivery)));
        EXPECT_EQ(delivery.attempt, 1);
        take_effect(tx, delivery);
    });
    EXPECT_EQ(work->drain(), 120U);
    EXPECT_EQ(admin.value("select count(*) || ' ' || count(distinct n) from effects"), "120 120");
    EXPECT_TRUE(settled());
    EXPECT_EQ(work->drain(), 0U);
    EXPECT_EQ(work->counts().handled, 120U);
}

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

TEST_P(Consuming, a_lease_lost_while_the_handler_runs_undoes_its_work) {
    bring_many(3);
    auto other = worker([](baton::Transaction& tx, const Delivery& d) { take_effect(tx, d, "other"); });
    bool stolen = false;
    auto slow = worker([&](baton::Transaction& tx, const Delivery& delivery) {
        take_effect(tx, delivery, "slow");
        if (stolen || number_of(delivery) != 2) return;
        stolen = true;
        expire_leases();
        EXPECT_EQ(other->drain(), 3U);
    });
    slow->drain();
    EXPECT_TRUE(stolen);
    EXPECT_EQ(effects(), "1 2 3");
    EXPECT_EQ(admin.value("select count(*) from effects where by = 'other'"), "3");
    EXPECT_GE(count(Incident::Kind::lease_lost), 1);
    EXPECT_TRUE(settled());
}

TEST_P(Consuming, a_lease_that_is_lost_in_part_is_lost) {
    if (!is_group()) GTEST_SKIP() << "each message has a lease of its own";
    // Two stretches under one lease: one that somebody gave back, and what came since.
    bring_many(3);
    ASSERT_EQ(admin.query("select * from baton.poll_outbox('work', 'gone')").rows(), 3);
    admin.exec("select baton.release_lease('work', 'gone')");
    for (int n = 4; n <= 6; ++n) bring(n);
    auto with = options();
    with.batch = 3;
    auto other = worker([](baton::Transaction& tx, const Delivery& d) { take_effect(tx, d, "other"); }, with);
    bool stolen = false;
    auto slow = worker([&](baton::Transaction& tx, const Delivery& delivery) {
        take_effect(tx, delivery, "slow");
        if (std::exchange(stolen, true)) return;
        Connection(url).exec(
            "update baton_internal.pieces set leased_until = now() - interval '1 s' where piece_id = (select "
            "min(piece_id) from "
            "baton_internal.pieces)");
        EXPECT_EQ(other->drain(), 6U);
    });
    slow->drain();
    EXPECT_TRUE(stolen);
    EXPECT_EQ(effects(), "1 2 3 4 5 6");
    EXPECT_EQ(admin.value("select string_agg(n::text, ' ' order by n) from effects where by = 'other'"),
              "1 2 3 4 5 6");
    EXPECT_EQ(count(Incident::Kind::lease_lost), 1);
    EXPECT_TRUE(settled());
}

TEST_P(Consuming, a_lease_is_extended_while_the_handler_takes_long) {
    bring(1);
    auto with = options();
    with.lease = 2s;
    const std::string deadline = is_group() ? "select max(leased_until) from baton_internal.pieces"
                                            : "select max(leased_until) from work";
    auto work = worker(
        [&](baton::Transaction& tx, const Delivery& delivery) {
            take_effect(tx, delivery);
            const std::string first = admin.value(deadline);
            wait_until("the lease is longer than it was", [&] {
                return admin.value("select (" + deadline + ") > $1::timestamptz + interval '3 s'", {first}) ==
                       "t";
            });
            EXPECT_EQ(worker([](baton::Transaction&, const Delivery&) { FAIL() << "two at once"; })->drain(),
                      0U);
        },
        with);
    EXPECT_EQ(work->drain(), 1U);
    EXPECT_EQ(effects(), "1");
    EXPECT_EQ(count(Incident::Kind::lease_lost), 0);
}

TEST_P(Consuming, a_stop_finishes_what_runs_and_gives_back_the_rest) {
    bring_many(5);
    std::stop_source stop;
    auto work = worker([&](baton::Transaction& tx, const Delivery& delivery) {
        EXPECT_FALSE(tx.stopping().stop_requested());
        stop.request_stop();
        EXPECT_TRUE(tx.stopping().stop_requested());
        take_effect(tx, delivery);
    });
    work->run(stop.get_token());
    EXPECT_EQ(work->counts().handled, 1U);
    EXPECT_EQ(admin.value("select count(*) from effects"), "1");
    auto next = worker([](baton::Transaction& tx, const Delivery& d) {
        EXPECT_EQ(d.attempt, 1) << "what was given back was no attempt";
        take_effect(tx, d);
    });
    EXPECT_EQ(next->drain(), 4U);
    EXPECT_EQ(effects(), "1 2 3 4 5");
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

TEST_P(Consuming, an_idle_worker_is_woken) {
    auto with = options();
    if (is_group()) with.idle = 1h;  // the doorbell alone wakes it, or the polling where there is none
    auto work = worker([](baton::Transaction& tx, const Delivery& d) { take_effect(tx, d); }, with);
    std::jthread running([&](const std::stop_token& stop) { work->run(stop); });
    // A deaf one looks every five seconds all the same: then forty take longer than the deadline.
    int brought = 0;
    wait_until("forty are handled, each before the next comes", [&] {
        if (admin.value("select count(*) from effects") != std::to_string(brought)) return false;
        if (brought == 40) return true;
        bring(++brought);
        return false;
    });
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

TEST_P(Consuming, what_a_handler_publishes_leaves_with_its_work_or_not_at_all) {
    admin.exec("select baton.create_outbox('answers')");
    bring_many(2);
    const baton::Outbox answers("answers");
    auto work = worker([&](baton::Transaction& tx, const Delivery& delivery) {
        tx.publish(answers, caused_by(delivery, {.type = "answer", .payload = delivery.payload}));
        if (number_of(delivery) == 2) throw baton::Reject("no");
    });
    work->drain();
    EXPECT_EQ(admin.value("select string_agg(payload ->> 'n', ' ') from answers"), "1");
    EXPECT_EQ(admin.value("select causation_id = correlation_id and causation_id is not null from answers"),
              "t");
}

TEST_P(Consuming, what_is_missing_is_said_and_not_waited_for) {
    const auto with = WorkOptions{.conninfo = url};
    const auto nothing = [](baton::Transaction&, const Delivery&) {};
    std::unique_ptr<baton::Worker> work;
    if (is_group())
        work = std::make_unique<baton::GroupConsumer>("nowhere", with, nothing);
    else
        work = std::make_unique<baton::InboxWorker>("nowhere", with, nothing);
    try {
        work->run({});
        FAIL() << "nothing was said";
    } catch (const baton::SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "42704");
    }
    EXPECT_THROW(baton::GroupConsumer("", with, nothing), baton::UsageError);
    EXPECT_THROW(baton::InboxWorker("work", {.conninfo = url, .batch = 0}, nothing), baton::UsageError);
}

TEST_P(Consuming, a_consumer_needs_no_more_than_the_consumers_role) {
    bring_many(2);
    const std::string role = "consumer_of_" + admin.value("select current_database()");
    admin.exec("create role " + role + " login; grant baton_consumer to " + role +
               "; grant insert on effects to " + role + "; grant usage on sequence effects_place_seq to " +
               role);
    auto with = options();
    const auto user = with.conninfo.find("user=");
    with.conninfo.replace(user, with.conninfo.find(' ', user) - user, "user=" + role);
    auto work = worker([](baton::Transaction& tx, const Delivery& d) { take_effect(tx, d); }, with);
    EXPECT_EQ(work->drain(), 2U);
}

TEST(Tiers, a_worker_of_one_tier_leaves_the_others_alone) {
    const auto url = shared_cluster(Form::extension).fresh_database();
    Connection db(url);
    db.exec("select baton.create_inbox('work'); select baton.enable_inbox_priority('work')");
    db.exec(
        "select baton.receive('work', n::text, 'thing', '{}', priority => case when n % 2 = 0 then 1 else 9 "
        "end) "
        "from generate_series(1, 10) n");
    const auto tier = db.value(
        "select t ->> 'name' from baton.inboxes, jsonb_array_elements(priority_tiers) t where 1 between "
        "(t ->> 'min')::int and (t ->> 'max')::int");
    baton::InboxWorker worker("work", {.conninfo = url, .tier = tier},
                              [](baton::Transaction&, const Delivery& message) {
                                  if (std::stoi(message.id.str()) % 2 == 1) throw std::runtime_error("mine?");
                              });
    EXPECT_EQ(worker.drain(), 5U);
    EXPECT_EQ(worker.counts().handled, 5U);
    EXPECT_EQ(worker.counts().failed, 0U);
    EXPECT_EQ(db.value("select count(*) from pending_work"), "5");
    EXPECT_THROW(baton::GroupConsumer("g", {.conninfo = url, .tier = tier},
                                      [](baton::Transaction&, const Delivery&) {}),
                 baton::UsageError);
}
