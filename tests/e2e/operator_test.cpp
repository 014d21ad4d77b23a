// What an operator does with commands, against a server with a bit of everything: every answer has the shape
// that is declared, in both forms of installation, and every change does what it says.

#include <fstream>

#include "base/file.hpp"
#include "operating.hpp"

using namespace baton;
using namespace baton::test;

namespace {

// Arguments that name what furnish() made.
Json arguments_for(const operations::Operation& operation) {
    const std::map<std::string, std::string> known{
        {"outbox", "orders"},    {"group", "billing"}, {"inbox", "payments"}, {"stream_table", "totals"},
        {"pipeline", "to-file"}, {"letter", "1"},      {"event", "3"}};
    Json arguments = Json::object();
    for (const auto& parameter : operation.parameters)
        if (parameter.required || (operation.name == "show_event" && parameter.name == "outbox"))
            arguments[parameter.name] = known.at(parameter.name);
    return arguments;
}

INSTANTIATE_TEST_SUITE_P(Forms, Operating, ::testing::Values(Form::extension, Form::plain),
                         [](const auto& chosen) {
                             return chosen.param == Form::plain ? "plain" : "extension";
                         });

TEST_P(Operating, every_answer_has_the_shape_that_is_declared) {
    postgres::Connection db(url);
    std::vector<std::string> empty;
    for (const auto& operation : operations::catalog()) {
        if (operation.right != operations::Right::view) continue;
        const Json answer = Json::parse(operations::run(operation, db, arguments_for(operation), "somebody"));
        std::vector<std::string> declared;
        for (const auto& field : operation.shape) declared.push_back(field.name);
        if (operation.answer == operations::Answer::one) {
            EXPECT_EQ(keys_of(answer), declared) << operation.name;
            continue;
        }
        EXPECT_EQ(keys_of(answer), operation.answer == operations::Answer::page
                                       ? std::vector<std::string>({"items", "next"})
                                       : std::vector<std::string>{"items"})
            << operation.name;
        if (answer["items"].empty()) empty.push_back(operation.name);
        for (const auto& item : answer["items"]) EXPECT_EQ(keys_of(item), declared) << operation.name;
    }
    EXPECT_EQ(empty, (std::vector<std::string>{"list_leases", "list_blocked_keys", "list_publishers"}));
}

TEST_P(Operating, status_says_what_is_wrong_and_what_to_do) {
    const auto ran = run({"status"});
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    for (const char* words : {"public.orders", "billing", "to-file", "public.payments", "public.totals",
                              "3 dead letters", "baton dead list --in billing"})
        EXPECT_TRUE(contains(ran.output, words)) << words << "\n" << ran.output;
    EXPECT_FALSE(contains(ran.output, "\033")) << "no colour where nobody looks";
    const Json all = json({"status"});
    EXPECT_EQ(all["groups"].size(), 2);
    EXPECT_EQ(all["totals"]["dead_letters"], 3);
}

TEST_P(Operating, doctor_fails_when_it_finds_an_error) {
    const auto ran = run({"doctor"});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_TRUE(contains(ran.output, "ok  long transactions")) << ran.output;
    EXPECT_FALSE(contains(ran.output, "could not look")) << ran.output;
    run({"dead", "discard", "--all", "--yes", "--reason", "test"});
    run({"pipelines", "disable", "to-file"});
    const auto mended = run({"doctor", "--json"});
    for (const auto& finding : Json::parse(mended.output)["findings"])
        EXPECT_TRUE(finding["object"] == "fsync" || finding["object"] == "installer")
            << "the tests' server has no fsync, and a role that sees its own sessions only" << finding;
}

TEST_P(Operating, a_dead_letter_is_shown_corrected_and_sent_again) {
    const Json letters = json({"dead", "list"});
    EXPECT_EQ(letters["items"].size(), 4) << "of the group and of the inbox";
    const auto list = run({"dead", "list"});
    EXPECT_TRUE(contains(list.output, "\\x1b[31mdeclined")) << "an error cannot paint the terminal\n"
                                                            << list.output;
    EXPECT_FALSE(contains(list.output, "\033")) << list.output;
    EXPECT_TRUE(contains(run({"dead", "show", "1"}).output, "12345678901234567890123")) << "digits stay";

    EXPECT_EQ(run({"dead", "edit", "1", "--payload", "{\"n\": 98765432109876543210987}"}).exit_code, 0);
    EXPECT_EQ(value("select payload::text from baton.dead_letters where id = 1"),
              "{\"n\": 98765432109876543210987}");
    const auto wrong = run({"dead", "edit", "1", "--payload", "{"});
    EXPECT_EQ(wrong.exit_code, 1);
    EXPECT_TRUE(contains(wrong.errors, "payload is not JSON")) << wrong.errors;

    EXPECT_EQ(json({"dead", "replay", "1"})["replayed"], 1);
    EXPECT_EQ(value("select count(*) from baton.dead_letters"), "2");
    EXPECT_EQ(run({"dead", "replay", "1"}).exit_code, 1) << "it is no dead letter any more";
    EXPECT_EQ(value("select string_agg(action, ' ' order by entry_id) from baton.audit_trail where action "
                    "like '%dead_letter' and details ->> 'acting_for' like '% by command'"),
              "edit_dead_letter replay_dead_letter");
}

TEST_P(Operating, dead_letters_of_inboxes_are_treated_alike) {
    const std::string letter = json({"dead", "list", "--kind", "inbox"})["items"][0]["letter"];
    EXPECT_EQ(run({"dead", "edit", letter, "--payload", "{\"n\": 2}"}).exit_code, 0);
    EXPECT_EQ(json({"dead", "show", letter})["payload"]["n"], 2);
    EXPECT_EQ(json({"dead", "replay", letter})["replayed"], 1);
    EXPECT_EQ(value("select count(*) from dlq_payments"), "0");
}

TEST_P(Operating, many_are_changed_only_after_a_yes) {
    const auto asked = run({"dead", "replay", "--in", "billing"});
    EXPECT_EQ(asked.exit_code, 1);
    EXPECT_TRUE(contains(asked.errors, "3 dead letters would be replayed")) << asked.errors;
    EXPECT_EQ(value("select count(*) from baton.dead_letters"), "3");
    EXPECT_EQ(run({"dead", "replay"}).exit_code, 1) << "nothing is chosen";
    EXPECT_EQ(run({"dead", "replay", "1", "--all", "--yes"}).exit_code, 1) << "letters or a choice";
    EXPECT_EQ(run({"dead", "discard", "--all", "--yes"}).exit_code, 2) << "a reason is needed";
    EXPECT_EQ(json({"dead", "discard", "--in", "billing", "--yes", "--reason", "test"})["discarded"], 3);
    EXPECT_EQ(value("select count(*) from baton.dead_letters"), "0");
    EXPECT_EQ(run({"seek", "search", "--to", "end"}).exit_code, 1);
    EXPECT_EQ(value("select lag_rows from baton.group_lag where group_name = 'search'"), "9");
    EXPECT_EQ(json({"seek", "search", "--to", "end", "--yes"})["lag_events"], 0);
}

TEST_P(Operating, more_letters_than_one_answer_holds_are_all_replayed) {
    postgres::Connection db(url);
    db.exec(
        "select baton.publish('orders', 'many', '{}', aggregate_id => n) from generate_series(1, 1205) n");
    db.exec(
        R"sql(select baton.create_consumer_group('hopeless', 'orders', 'earliest', max_attempts => 1);)sql");
    for (int i = 0; i < 2; ++i)
        db.exec(
            "select baton.fail_events('hopeless', 'c', array_agg(id), 'no', true, "
            "(array_agg(lease_token))[1]) from baton.poll_outbox('hopeless', 'c', 1000)");
    EXPECT_EQ(value("select count(*) from baton.dead_letters where group_name = 'hopeless'"), "1214");
    const auto ran = run({"dead", "replay", "--in", "hopeless", "--yes"});
    EXPECT_TRUE(contains(ran.output, "1214 dead letters were replayed")) << ran.output << ran.errors;
    EXPECT_TRUE(contains(ran.errors, "1000 of 1214")) << "long work says how far it is\n" << ran.errors;
}

TEST_P(Operating, a_letter_far_behind_others_is_found_shown_and_corrected) {
    postgres::Connection(url).exec(
        "insert into payments (event_id, event_type, payload, retry_count, received_at, available_at) "
        "select 'm' || n, case n when 1 then 'rare' else 'often' end, '{}', 99, timestamptz '2026-01-01' + n "
        "* interval '1 s', 'infinity' from generate_series(1, 10050) n");
    const Json rare = json({"dead", "list", "--type", "rare"})["items"];
    ASSERT_EQ(rare.size(), 1);
    const std::string letter = rare[0]["letter"];
    EXPECT_EQ(json({"dead", "show", letter})["event_type"], "rare");
    EXPECT_EQ(json({"dead", "edit", letter, "--payload", "{\"n\": 7}"})["payload"]["n"], 7);
    EXPECT_EQ(json({"dead", "replay", "--type", "rare", "--yes"})["replayed"], 1);
}

TEST_P(Operating, discarding_all_leaves_adopted_letters_to_their_application_and_says_so) {
    postgres::Connection(url).exec(R"sql(
        create table mails (id int primary key, payload jsonb, done_at timestamptz, tries int not null default 0);
        select baton.adopt_outbox('mails', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at", "attempts": "tries"},
            "attempts": {"limit": 2}, "backoff": {"kind": "none"}}');
        insert into mails select n, '{}', null, 2 from generate_series(1, 3) n)sql");
    const std::string adopted = json({"dead", "list", "--kind", "outbox"})["items"][0]["letter"];
    const auto named = run({"dead", "discard", "1", adopted, "--reason", "test"});
    EXPECT_EQ(named.exit_code, 1);
    EXPECT_TRUE(contains(named.errors, "cannot be discarded")) << named.errors;
    EXPECT_EQ(value("select count(*) from baton.dead_letters"), "3") << "nothing is done by halves";

    const auto all = run({"dead", "discard", "--all", "--yes", "--reason", "test"});
    EXPECT_EQ(all.exit_code, 1) << "not all are gone";
    EXPECT_TRUE(contains(all.output, "4 dead letters were discarded")) << all.output;
    EXPECT_TRUE(contains(all.errors, "3 dead letters of adopted tables were left out")) << all.errors;
    EXPECT_EQ(json({"dead", "list"})["items"].size(), 3);
    EXPECT_EQ(json({"dead", "replay", "--all", "--yes"})["replayed"], 3) << "they can be replayed";
}

TEST_P(Operating, dead_letters_are_chosen_by_time_error_key_and_tenant) {
    EXPECT_EQ(json({"dead", "list", "--error", "DECLINED"})["items"].size(), 3);
    EXPECT_EQ(json({"dead", "list", "--error", "declined", "--key", "1"})["items"].size(), 1);
    EXPECT_EQ(json({"dead", "list", "--since", "2026-01-01"})["items"].size(), 4);
    EXPECT_EQ(json({"dead", "list", "--until", "2026-01-01"})["items"].size(), 0);
    EXPECT_EQ(json({"dead", "list", "--tenant", "acme"})["items"].size(), 0);
    const auto wrong = run({"dead", "list", "--since", "whenever"});
    EXPECT_EQ(wrong.exit_code, 1);
    EXPECT_TRUE(contains(wrong.errors, "whenever")) << wrong.errors;
    EXPECT_EQ(json({"dead", "replay", "--error", "no account", "--yes"})["replayed"], 1);
    EXPECT_EQ(json({"dead", "discard", "--key", "2", "--yes", "--reason", "test"})["discarded"], 1);
    EXPECT_EQ(value("select count(*) from baton.dead_letters"), "2");
}

TEST_P(Operating, what_went_wrong_each_time_is_told) {
    postgres::Connection db(url);
    db.exec("update baton.consumer_groups set max_attempts = 3 where group_name = 'billing'");
    const std::string offset = value("select event_offset from baton.dead_letters where id = 1");
    db.exec("select baton.replay_dead_letters(array[1])");
    db.exec(
        "select baton.fail_events('billing', 'c1', array[id], 'no answer', lease_token => lease_token) from "
        "baton.poll_outbox('billing', 'c1', 1)");
    const Json failures = json({"event", offset, "--outbox", "orders"})["groups"][0]["failures"];
    ASSERT_EQ(failures.size(), 2);
    EXPECT_EQ(failures[1]["error"], "no answer");
    EXPECT_TRUE(contains(run({"event", offset, "--outbox", "orders"}).output, "failed attempts of billing"));
    const auto letter = run({"dead", "show", "2"}).output;
    EXPECT_TRUE(contains(letter, "failed attempts")) << letter;
    EXPECT_TRUE(contains(letter, "declined")) << letter;
    EXPECT_FALSE(contains(letter, "\x1b")) << "what could control a terminal is escaped";
}

// Whoever changes many is not stopped half-way by another who was quicker; whoever names letters is told.
TEST_P(Operating, letters_that_are_gone_are_refused_or_passed_over) {
    postgres::Connection db(url);
    const auto change = [&](const char* operation, Json arguments) {
        return Json::parse(operations::run(operations::find(operation), db, arguments, "somebody"));
    };
    std::vector<std::string> letters{"1", "2", "3"};
    letters.push_back(json({"dead", "list", "--kind", "inbox"})["items"][0]["letter"]);
    db.exec("select baton.replay_dead_letters(array[2])");
    EXPECT_ANY_THROW(change("replay_dead_letters", {{"letters", letters}}));
    EXPECT_EQ(value("select count(*) from baton.dead_letters"), "2") << "nothing is done by halves";
    EXPECT_EQ(change("replay_dead_letters", {{"letters", letters}, {"missing_ok", true}})["replayed"], 3);
    const Json message{{"letters", {letters[3]}}};
    EXPECT_THROW(change("replay_dead_letters", message), operations::NotFound);
    db.exec("select baton.complete_inbox('payments', '{p1}'::text[])");
    EXPECT_EQ(change("replay_dead_letters", {{"letters", letters}, {"missing_ok", true}})["replayed"], 0)
        << "a message that was handled meanwhile is not handled again";
    EXPECT_EQ(change("discard_dead_letters",
                     {{"letters", letters}, {"missing_ok", true}, {"reason", "test"}})["discarded"],
              0);
}

// An application that changes its table at length does not keep operators from everything else.
TEST_P(Operating, a_table_that_somebody_has_locked_hides_no_other) {
    postgres::Connection db(url);
    db.exec(R"sql(
        create table mails (id int primary key, payload jsonb, done_at timestamptz, tries int not null default 0);
        select baton.adopt_outbox('mails', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at", "attempts": "tries"},
            "attempts": {"limit": 2}, "backoff": {"kind": "none"}}');
        insert into mails select n, '{}', null, 2 from generate_series(1, 3) n)sql");
    EXPECT_EQ(json({"dead", "list"})["items"].size(), 7);
    db.exec("begin; lock table mails in access exclusive mode");
    EXPECT_EQ(json({"dead", "list"})["items"].size(), 4);
    postgres::Connection other(url);
    const auto found = Json::parse(
        operations::run(operations::find("search_events"), other, Json::object(), "somebody"))["items"];
    EXPECT_FALSE(found.empty());
    EXPECT_NE(run({"dead", "list", "--in", "mails"}).exit_code, 0) << "who asks for it is told";
    db.exec("rollback");
    EXPECT_EQ(json({"dead", "list"})["items"].size(), 7);
}

TEST_P(Operating, an_event_tells_its_way) {
    const std::string id = value("select event_id from orders where id = 1");
    const Json way = json({"event", id});
    EXPECT_EQ(way["event"]["offset"], 1);
    EXPECT_EQ(way["groups"].size(), 2);
    EXPECT_EQ(way["groups"][0]["state"], "dead");
    EXPECT_EQ(way["groups"][1]["state"], "waiting");
    EXPECT_TRUE(contains(run({"event", "1", "--outbox", "orders"}).output, "12345678901234567890123"));
    EXPECT_EQ(run({"event", "1"}).exit_code, 1) << "an offset needs its outbox";
    const auto none = run({"event", "00000000-0000-0000-0000-000000000000"});
    EXPECT_TRUE(contains(none.errors, "there is no event")) << none.errors;
}

// From the outbox through a relay into an inbox of the same database, and out of it.
TEST(Event, tells_its_whole_way_from_commit_to_handler) {
    Cluster cluster({Form::plain, true, {"track_commit_timestamp=on"}});
    const std::string url = cluster.quiet_database();
    const TemporaryFolder folder;
    postgres::Connection db(url);
    db.exec("select baton.create_outbox('orders'), baton.create_inbox('payments')");
    db.query("select baton.publish('orders', 'order.created', '{}')");
    const std::string id = db.value("select event_id from orders");
    std::ofstream(folder / "relay.toml") << "[[pipeline]]\nname = \"across\"\n[pipeline.source]\noutbox = "
                                            "\"orders\"\n[pipeline.sink]\ntype = \"postgres\"\nurl = "
                                            "\"${env:DATABASE_URL}\"\ninbox = \"payments\"\n";
    const auto way = [&] {
        return Json::parse(run_baton({"event", id, "--json"}, {{"BATON_DB", url}}).output);
    };
    EXPECT_EQ(way()["inboxes"].size(), 0);
    EXPECT_FALSE(way()["committed_at"].is_null());
    {
        Process relay({.argv = {program_file().string(), "relay", "--db", url, "--config",
                                (folder / "relay.toml").string()},
                       .output = folder / "relay.log",
                       .environment = {{"DATABASE_URL", url}},
                       .dies_with_us = true});
        wait_until("the group has settled the event",
                   [&] { return way()["groups"][0]["state"] == "settled"; });
    }
    ASSERT_EQ(way()["inboxes"].size(), 1);
    EXPECT_EQ(way()["inboxes"][0]["inbox"], "public.payments");
    EXPECT_FALSE(way()["inboxes"][0]["received_at"].is_null());
    EXPECT_TRUE(way()["inboxes"][0]["processed_at"].is_null());
    db.query(
        "select baton.complete_inbox('payments', array_agg(event_id), lease_token => "
        "(array_agg(lease_token))[1]) from baton.claim_inbox('payments', 'w')");
    EXPECT_EQ(way()["inboxes"][0]["state"], "processed");
    EXPECT_FALSE(way()["inboxes"][0]["processed_at"].is_null());
    const auto told = run_baton({"event", id}, {{"BATON_DB", url}});
    for (const char* words : {"committed", "settled", "public.payments", "processed"})
        EXPECT_TRUE(contains(told.output, words)) << words << "\n" << told.output;
}

TEST_P(Operating, an_inbox_tells_what_blocks_its_aggregates_and_shows_messages_by_state) {
    postgres::Connection(url).exec(R"sql(
        select baton.receive('payments', 'q' || n, 'paid', '{}', aggregate_id => 'b', sequence_num => n) from generate_series(1, 2) n;
        select baton.fail_inbox('payments', '{q1}'::text[], 'no account b', permanent => true))sql");
    const Json blocked = json({"inboxes", "payments", "--blocked"})["items"];
    ASSERT_EQ(blocked.size(), 2) << blocked;
    EXPECT_EQ(blocked[0]["aggregate"], "a") << "behind the dead p1";
    EXPECT_EQ(blocked[1]["reason"], "dead");
    EXPECT_EQ(blocked[1]["event_id"], "q1");
    EXPECT_EQ(blocked[1]["error"], "no account b");
    EXPECT_TRUE(contains(run({"inboxes", "payments", "--blocked"}).output, "no account b"));
    EXPECT_EQ(json({"dead", "replay", blocked[1]["letter"]})["replayed"], 1);
    EXPECT_EQ(json({"inboxes", "payments", "--blocked"})["items"].size(), 1);

    EXPECT_EQ(json({"inboxes", "payments", "--messages"})["items"].size(), 4);
    const Json dead = json({"inboxes", "payments", "--messages", "--state", "dead"})["items"];
    ASSERT_EQ(dead.size(), 1);
    EXPECT_EQ(dead[0]["event_id"], "p1");
    EXPECT_TRUE(
        contains(run({"inboxes", "payments", "--messages", "--limit", "1"}).output, "there are more"));
    EXPECT_EQ(run({"inboxes", "payments", "--messages", "--state", "asleep"}).exit_code, 1);
    EXPECT_EQ(run({"inboxes", "payments", "--gaps", "--state", "dead"}).exit_code, 1);
    EXPECT_EQ(run({"inboxes", "payments", "--state", "dead"}).exit_code, 1);
}

TEST_P(Operating, an_event_of_an_adopted_outbox_tells_its_way) {
    postgres::Connection(url).exec(R"sql(
        create table mails (id int primary key, event uuid, payload jsonb, done_at timestamptz, tries int not null default 0);
        select baton.adopt_outbox('mails', mapping => '{"columns": {"id": "id", "event_id": "event", "payload": "payload", "processed_at": "done_at", "attempts": "tries"},
            "attempts": {"limit": 2}, "backoff": {"kind": "none"}}');
        insert into mails values (7, '0190a0a0-0000-7000-8000-000000000002', '{"n": 1}', null, 2))sql");
    const Json way = json({"event", "0190a0a0-0000-7000-8000-000000000002"});
    EXPECT_EQ(way["outbox"], "public.mails");
    EXPECT_EQ(way["row"], "7");
    EXPECT_EQ(way["groups"][0]["state"], "dead");
    EXPECT_EQ(json({"event", "7", "--outbox", "mails"}), way);
    EXPECT_EQ(json({"dead", "replay", way["groups"][0]["dead_letter"]})["replayed"], 1);
    const Json after = json({"event", "7", "--outbox", "mails"});
    EXPECT_EQ(after["groups"][0]["state"], "waiting");
    EXPECT_EQ(after["actions"][0]["action"], "replay_adopted");
    EXPECT_EQ(run({"event", "8", "--outbox", "mails"}).exit_code, 1);
}

TEST_P(Operating, pipelines_are_switched_and_rendered) {
    EXPECT_EQ(run({"pipelines", "disable", "to-file"}).exit_code, 0);
    EXPECT_EQ(json({"pipelines", "show", "to-file"})["enabled"], false);
    EXPECT_EQ(run({"pipelines", "enable", "to-file"}).exit_code, 0);
    const auto rendered = run({"render", "to-file", "-n", "1", "--json"});
    EXPECT_EQ(rendered.exit_code, 0) << rendered.errors;
    const Json message = Json::parse(rendered.output)["items"][0];
    EXPECT_TRUE(contains(message["body"], "12345678901234567890123")) << rendered.output;
    EXPECT_EQ(run({"pipelines", "delete", "to-file"}).exit_code, 0);
    EXPECT_EQ(run({"pipelines", "show", "to-file"}).exit_code, 1);
}

TEST_P(Operating, pipelines_of_a_file_are_applied_to_the_catalog) {
    const TemporaryFolder folder;
    const std::string file = folder / "relay.toml";
    const auto pipeline = [](const std::string& name, const std::string& more) {
        return "[[pipeline]]\nname = \"" + name + "\"\n" + more +
               "[pipeline.source]\noutbox = \"orders\"\n[pipeline.filter]\nevent_types = [\"a\", "
               "\"b\"]\n[pipeline.sink]\ntype = \"http\"\nurl = \"${env:URL}\"\n";
    };
    write_text(file, pipeline("one", "") + pipeline("two", "enabled = false\n"));
    EXPECT_EQ(run({"pipelines", "apply", file}).output, "one: made\ntwo: made\n");
    EXPECT_EQ(nlohmann::json::parse(json({"pipelines", "show", "one"})["settings"].dump()),
              nlohmann::json::parse(R"({"source": {"outbox": "orders"}, "filter": {"event_types": ["a", "b"]},
                              "sink": {"type": "http", "url": "${env:URL}"}})"));
    EXPECT_EQ(json({"pipelines", "show", "two"})["enabled"], false);
    EXPECT_EQ(run({"pipelines", "disable", "one"}).exit_code, 0);
    write_text(file, pipeline("one", "") + pipeline("two", "enabled = true\n[pipeline.limits]\nrate = 5\n"));
    EXPECT_EQ(
        json({"pipelines", "apply", file}),
        Json::parse(
            R"({"items": [{"pipeline": "one", "done": "unchanged"}, {"pipeline": "two", "done": "changed"}]})"));
    EXPECT_EQ(json({"pipelines", "show", "one"})["enabled"], false) << "the file does not say";
    EXPECT_EQ(json({"pipelines", "show", "one"})["revision"], 2) << "made and disabled, not applied again";
    EXPECT_EQ(json({"pipelines", "show", "two"})["enabled"], true);

    write_text(file, pipeline("one", "[pipeline.limits]\nrate = 7\n") +
                         pipeline("three", "[pipeline.failure]\nattempts = 0\nbackoff = \"later\"\n"));
    const auto refused = run({"pipelines", "apply", file});
    EXPECT_EQ(refused.exit_code, 1);
    for (const char* words :
         {"relay.toml:", "attempts must be", "backoff is no duration", "nothing was changed"})
        EXPECT_TRUE(contains(refused.errors, words)) << words << "\n" << refused.errors;
    EXPECT_EQ(json({"pipelines", "show", "one"})["revision"], 2);
    EXPECT_EQ(json({"pipelines", "list"})["items"].size(), 3) << "and to-file is as it was";
}

TEST_P(Operating, publishing_skipping_and_setting) {
    EXPECT_EQ(
        json({"publish", "orders", "order.made", "{\"n\": 12345678901234567890123}", "--key", "k"})["offset"],
        10);
    EXPECT_EQ(value("select payload::text || partition_key from orders where id = 10"),
              "{\"n\": 12345678901234567890123}k");
    EXPECT_EQ(run({"publish", "orders", "x", "{"}).exit_code, 1);
    EXPECT_EQ(run({"publish", "nosuch", "x", "{}"}).exit_code, 1);
    EXPECT_EQ(json({"skip", "payments", "a", "--to", "3"})["sequence"], 3);
    EXPECT_EQ(run({"set", "outbox_enabled", "off"}).exit_code, 0);
    EXPECT_TRUE(contains(run({"status"}).output, "publish() refuses events"));
    EXPECT_EQ(run({"set", "nosuch", "off"}).exit_code, 1);
    EXPECT_EQ(json({"actions"})["items"][0]["object"], "outbox_enabled");
}

TEST_P(Operating, names_that_a_shell_would_take_apart_are_quoted_in_a_fix) {
    postgres::Connection db(url);
    db.exec(
        R"sql(select baton.create_consumer_group('it''s; rm -rf $HOME', 'orders', 'earliest', max_attempts => 1))sql");
    db.exec(
        R"sql(select baton.fail_events('it''s; rm -rf $HOME', 'c', array_agg(id), 'no', true, (array_agg(lease_token))[1]) from baton.poll_outbox('it''s; rm -rf $HOME', 'c', 1))sql");
    EXPECT_TRUE(contains(run({"status"}).output, "--in 'it'\\''s; rm -rf $HOME'")) << run({"status"}).output;
    EXPECT_EQ(json({"dead", "list", "--in", "it's; rm -rf $HOME"})["items"].size(), 1);
}

}  // namespace
