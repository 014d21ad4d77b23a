// Every committed event reaches every group, none that was rolled back does, keys keep their order: under
// writers of every kind, with members that crash. And the proof that this test would notice: four wrong
// forms of finding the next window.

#include <gtest/gtest.h>

#include <thread>

#include "isolation/outbox_workload.hpp"

using namespace baton;
using namespace baton::test;

namespace {

constexpr auto run_time = std::chrono::seconds(6);

class OutboxProperty : public testing::TestWithParam<Form> {};

std::string database_with_outbox(Form form) {
    const auto url = shared_cluster(form).fresh_database();
    Connection(url).exec("select baton.create_outbox('events')");
    return url;
}

// Replace a piece of a function's source in the database.
void mutate(const std::string& url, const std::string& function, const std::string& from,
            const std::string& to) {
    Connection db(url);
    std::string source = db.value(
        "select pg_get_functiondef(p.oid) from pg_proc p where p.pronamespace in "
        "('baton'::regnamespace, 'baton_internal'::regnamespace) and proname = $1",
        {function});
    const auto at = source.find(from);
    ASSERT_NE(at, std::string::npos) << "the function no longer reads as this mutation expects";
    source.replace(at, from.size(), to);
    db.exec(source);
}

// Let readers raise the mark at every poll, not only now and then.
void raise_the_mark_always(const std::string& url) {
    mutate(url, "raise_mark", "+ 16", "+ 1");
}

// Looks, as long as it lives, whether what the groups know of ids is true.
class FloorWatch {
  public:
    explicit FloorWatch(const std::string& url)
        : watching_([this, url](const std::stop_token& stop) {
              Connection db(url);
              while (!stop.stop_requested() && untrue_.empty()) {
                  untrue_ = untrue_floors(db);
                  ++looks_;
                  std::this_thread::sleep_for(std::chrono::milliseconds(20));
              }
          }) {}
    // What was not true; empty when all was, and there was something to see.
    std::string verdict() {
        watching_.request_stop();
        watching_.join();
        return looks_ < 10 ? "nobody looked" : untrue_;
    }

  private:
    std::string untrue_;
    int looks_ = 0;
    std::jthread watching_;
};

std::size_t lost_by_one_member(const std::string& url) {
    Connection(url).exec("select baton.create_consumer_group('g', 'events', 'earliest')");
    Journal account;
    Workload workload(url, "events");
    workload.consume({.group = "g", .number = 1}, account);
    workload.write(run_time);
    workload.drain();
    return account.compare(workload.committed()).lost;
}

}  // namespace

TEST_P(OutboxProperty, every_committed_event_reaches_every_group_once_and_in_key_order) {
    const auto url = database_with_outbox(GetParam());
    Connection(url).exec(
        "select baton.create_consumer_group('alone', 'events', 'earliest'), "
        "baton.create_consumer_group('team', 'events', 'earliest'), "
        "baton.create_consumer_group('crowd', 'events', 'earliest', ordered => false)");
    Journal alone, team, crowd;
    Workload workload(url, "events");
    FloorWatch floors(url);
    workload.consume({.group = "alone", .number = 1}, alone);
    for (int i = 0; i < 4; ++i)
        workload.consume({.group = "team", .number = 10 + i, .partial_percent = 20}, team);
    for (int i = 0; i < 3; ++i)
        workload.consume({.group = "crowd", .number = 20 + i, .partial_percent = 20}, crowd);
    workload.write(run_time);
    workload.drain();
    EXPECT_EQ(floors.verdict(), "");
    const auto committed = workload.committed();
    EXPECT_GT(committed.size(), 1000u);
    for (const auto* account : {&alone, &team, &crowd}) {
        const auto verdict = account->compare(committed);
        EXPECT_EQ(verdict.lost, 0u) << verdict.examples;
        EXPECT_EQ(verdict.revived, 0u) << "settled events came again";
        EXPECT_EQ(verdict.revived, 0u);
        EXPECT_EQ(verdict.phantom, 0u) << verdict.examples;
        EXPECT_EQ(verdict.repeated, 0u) << verdict.examples;
        if (account != &crowd) {
            EXPECT_EQ(verdict.out_of_order, 0u) << verdict.examples;
        }
    }
}

TEST_P(OutboxProperty, nothing_is_lost_when_the_mark_is_raised_at_every_poll) {
    const auto url = database_with_outbox(GetParam());
    raise_the_mark_always(url);
    FloorWatch floors(url);
    EXPECT_EQ(lost_by_one_member(url), 0u);
    EXPECT_EQ(floors.verdict(), "");
    EXPECT_NE(Connection(url).value("select count(*) from baton_internal.stray_events"), "0");
}

TEST_P(OutboxProperty, nothing_is_lost_and_keys_keep_their_order_when_members_crash_and_fail) {
    const auto url = database_with_outbox(GetParam());
    Connection(url).exec(
        "select baton.create_consumer_group('team', 'events', 'earliest', max_attempts => 1000000, "
        "retry_base => '20 ms', retry_limit => '200 ms')");
    Journal team;
    Workload workload(url, "events");
    for (int i = 0; i < 4; ++i)
        workload.consume({.group = "team",
                          .number = i,
                          .visibility_seconds = 1,
                          .crash_percent = 5,
                          .fail_percent = 10,
                          .partial_percent = 20,
                          .stall_percent = 5},
                         team);
    workload.write(run_time);
    workload.drain();
    const auto verdict = team.compare(workload.committed());
    EXPECT_GT(verdict.repeated, 0u) << "no crash was worth its name";
    EXPECT_EQ(verdict.lost, 0u) << verdict.examples;
    EXPECT_EQ(verdict.revived, 0u) << "settled events came again";
    EXPECT_EQ(verdict.phantom, 0u) << verdict.examples;
    EXPECT_EQ(verdict.out_of_order, 0u) << verdict.examples;
}

TEST_P(OutboxProperty, events_that_kill_their_consumers_die_alone_and_all_others_arrive_in_order) {
    const auto outcome =
        work_with_deadly_events(database_with_outbox(GetParam()), {"0", "30", "31", "500"}, run_time);
    ASSERT_TRUE(outcome.committed.contains("0"));
    EXPECT_EQ(outcome.dead, outcome.committed);
    EXPECT_EQ(outcome.verdict.lost, outcome.committed.size()) << outcome.verdict.examples;
    EXPECT_EQ(outcome.verdict.revived, 0u) << "settled events came again";
    EXPECT_EQ(outcome.verdict.out_of_order, 0u) << outcome.verdict.examples;
}

INSTANTIATE_TEST_SUITE_P(Forms, OutboxProperty, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });

// Wrong form 1: fresh ids start above the sequence's value at the time of `seen`. A transaction that was
// running above xmax then may have drawn its ids before.
TEST(OutboxMutation, the_sequence_as_lower_bound_loses_events) {
    const auto url = database_with_outbox(Form::extension);
    Connection(url).exec("create table noted (sight text, value bigint)");
    mutate(url, "open_window", "        w.sight := baton_internal.current_sight();",
           "        declare value bigint; begin execute format('select last_value from %s', "
           "pg_get_serial_sequence(outbox.relation::text, 'id')) into value; "
           "w.sight := baton_internal.current_sight(); insert into public.noted values (w.sight::text, "
           "value); end;");
    mutate(url, "open_window", "    if w.first_id is null and w.late = '{}' then",
           "    w.first_id := greatest(w.first_id, (select max(value) + 1 from public.noted n where n.sight "
           "= at.seen::text));\n"
           "    if w.first_id is null and w.late = '{}' then");
    EXPECT_GT(lost_by_one_member(url), 0u);
}

// Wrong form 2: the same, corrected by the poller's own transaction id, which its row lock had assigned
// before.
TEST(OutboxMutation, the_pollers_own_transaction_id_as_bound_loses_events) {
    const auto url = database_with_outbox(Form::extension);
    Connection(url).exec("create table noted (sight text, value bigint, own xid8)");
    mutate(url, "open_window", "        w.sight := baton_internal.current_sight();",
           "        declare value bigint; begin if at.window_number > 0 then perform pg_sleep(0.02); execute "
           "format('select last_value from %s', pg_get_serial_sequence(outbox.relation::text, 'id')) into "
           "value; end if; "
           "w.sight := baton_internal.current_sight(); if at.window_number > 0 then insert into public.noted "
           "values "
           "(w.sight::text, value, pg_current_xact_id()); end if; end;");
    mutate(url, "open_window", "    if w.first_id is null and w.late = '{}' then",
           "    if w.first_id is not null then declare bound public.noted; below bigint; begin select * into "
           "bound from public.noted n where n.sight = at.seen::text; "
           "if found then execute format('select min(id) from %s where xid >= $1 and xid < $2 and "
           "pg_visible_in_snapshot(xid, $3)', outbox.relation) into below using pg_snapshot_xmax(at.seen), "
           "bound.own, w.sight; "
           "w.first_id := greatest(w.first_id, least(bound.value + 1, below)); end if; end; end if;\n"
           "    if w.first_id is null and w.late = '{}' then");
    EXPECT_GT(lost_by_one_member(url), 0u);
}

// Wrong form 3: a floor at the mark that the same transaction has raised, which drew its id before. A
// transaction that began between has a higher id, and has compared its events with the mark as it was.
TEST(OutboxMutation, a_floor_at_a_mark_that_was_raised_after_the_xid_was_drawn_loses_events) {
    const auto url = database_with_outbox(Form::extension);
    mutate(url, "take_floor",
           "        id := pg_sequence_last_value(baton_internal.floor_sequence(outbox_id));\n"
           "        xid := pg_current_xact_id();",
           "        xid := pg_current_xact_id(); perform pg_sleep(0.02);\n"
           "        id := setval(baton_internal.floor_sequence(outbox_id), (select "
           "baton_internal.next_id(o.relation) - 1 "
           "from baton.outboxes o where o.outbox_id = take_floor.outbox_id));");
    EXPECT_GT(lost_by_one_member(url), 0u);
}

// Wrong form 4: nobody writes down events that are not above the mark.
TEST(OutboxMutation, a_door_that_lists_no_strays_loses_events) {
    const auto url = database_with_outbox(Form::extension);
    raise_the_mark_always(url);
    mutate(url, "check_event_id", "elsif (id > pg_sequence_last_value(mark)) is not true then",
           "elsif false then");
    EXPECT_GT(lost_by_one_member(url), 0u);
}
