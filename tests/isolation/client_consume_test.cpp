// GroupConsumer and InboxWorker: the handler's effect and the settling are one, whatever happens between
// them.

#include "client_consuming.hpp"

using namespace baton::test;
using namespace std::chrono_literals;
using baton::Delivery;
using baton::Incident;
using baton::WorkOptions;

namespace {

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

TEST_P(Consuming, a_handler_hears_what_was_said_about_an_event) {
    admin.query(
        is_group()
            ? "select baton.publish('source', 'thing', '{}', correlation_id => 'c', causation_id => 'd', "
              "idempotency_key => 'k', schema_version => 3)"
            : "select baton.receive('work', 'm', 'thing', '{}', correlation_id => 'c', causation_id => 'd', "
              "idempotency_key => 'k', schema_version => 3)");
    Delivery heard;
    worker([&](baton::Transaction&, const Delivery& delivery) { heard = delivery; })->drain();
    EXPECT_EQ(heard.correlation_id, "c");
    EXPECT_EQ(heard.causation_id, "d");
    EXPECT_EQ(heard.idempotency_key, "k");
    EXPECT_EQ(heard.schema_version, 3);
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
