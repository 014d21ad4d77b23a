// Commands that show something, each asked for something that is there; and the ways in which a text, a place
// or an event can be given.

#include "base/file.hpp"
#include "operating.hpp"

using namespace baton;
using namespace baton::test;

namespace {

// The line of a table that begins with this word.
std::string line_of(const std::string& table, const std::string& word) {
    for (std::istringstream lines(table); !lines.eof();) {
        std::string line;
        std::getline(lines, line);
        if (line.starts_with(word + " ")) return line;
    }
    return {};
}

std::vector<std::string> all_of(const Json& items, const std::string& key) {
    std::vector<std::string> values;
    for (const auto& item : items) values.push_back(item[key]);
    return values;
}

TEST_P(Operating, lag_tells_how_far_behind_each_group_is) {
    const Json groups = json({"lag"})["items"];
    EXPECT_EQ(all_of(groups, "group"), (std::vector<std::string>{"billing", "search"}));
    EXPECT_EQ(groups[1]["lag_events"], 9);
    const auto table = run({"lag"}).output;
    EXPECT_TRUE(table.starts_with("GROUP ")) << table;
    EXPECT_TRUE(contains(line_of(table, "search"), " 9 ")) << table;
    run({"seek", "search", "--to", "end", "--yes"});
    EXPECT_TRUE(contains(line_of(run({"lag"}).output, "search"), " 0 ")) << run({"lag"}).output;
}

TEST_P(Operating, outboxes_are_listed_and_one_shows_its_partitions) {
    EXPECT_EQ(all_of(json({"outboxes"})["items"], "outbox"),
              (std::vector<std::string>{"public.orders", "public.raw"}));
    EXPECT_EQ(json({"outboxes", "raw"})["payload_type"], "bytea");
    const auto record = run({"outboxes", "orders"}).output;
    EXPECT_TRUE(contains(record, "retention")) << record;
    EXPECT_FALSE(contains(record, "public.raw")) << record;
    EXPECT_EQ(run({"outboxes", "nosuch"}).exit_code, 1);

    const Json partitions = json({"outboxes", "orders", "--partitions"})["items"];
    const Json* open = nullptr;
    for (const auto& partition : partitions)
        if (partition["state"] == "open") open = &partition;
    ASSERT_NE(open, nullptr) << partitions;
    EXPECT_LE((*open)["first_offset"], 1);
    EXPECT_GT((*open)["end_offset"], 9);
    EXPECT_GT((*open)["bytes"], 0);
    const auto table = run({"outboxes", "orders", "--partitions"}).output;
    EXPECT_TRUE(contains(line_of(table, (*open)["partition"]), "open")) << table;
    ASSERT_GE(partitions.size(), 2) << partitions;
    const Json first = json({"outboxes", "orders", "--partitions", "--limit", "1"});
    EXPECT_EQ(first["items"].size(), 1);
    EXPECT_EQ(first["next"], std::to_string(partitions[0]["first_offset"].get<long long>()));
    const Json rest = json({"outboxes", "orders", "--partitions", "--after", first["next"]});
    EXPECT_EQ(rest["items"].size(), partitions.size() - 1);
    EXPECT_EQ(rest["items"][0], partitions[1]);
    EXPECT_TRUE(rest["next"].is_null());
    const auto nameless = run({"outboxes", "--partitions"});
    EXPECT_EQ(nameless.exit_code, 1);
    EXPECT_TRUE(contains(nameless.errors, "--partitions needs a name")) << nameless.errors;
    EXPECT_EQ(run({"outboxes", "nosuch", "--partitions"}).exit_code, 1);
}

TEST_P(Operating, a_group_shows_who_works_for_it_and_who_holds_what) {
    const Json consumers = json({"groups", "billing", "--consumers"})["items"];
    ASSERT_EQ(consumers.size(), 1) << consumers;
    EXPECT_EQ(consumers[0]["consumer"], "c1");
    EXPECT_EQ(consumers[0]["healthy"], true);
    EXPECT_EQ(consumers[0]["leases"], 0);
    const auto table = run({"groups", "billing", "--consumers"}).output;
    EXPECT_TRUE(contains(line_of(table, "c1"), "yes")) << table;

    EXPECT_EQ(json({"groups", "search", "--leases"})["items"].size(), 0);
    EXPECT_EQ(value("select count(*) from baton.poll_outbox('search', 'worker', 4)"), "4");
    const Json leases = json({"groups", "search", "--leases"})["items"];
    ASSERT_EQ(leases.size(), 1) << leases;
    EXPECT_EQ(leases[0]["consumer"], "worker");
    EXPECT_EQ(leases[0]["first_offset"], 1);
    EXPECT_EQ(leases[0]["last_offset"], 4);
    EXPECT_FALSE(leases[0]["leased_until"].is_null());
    EXPECT_EQ(json({"groups", "billing", "--leases"})["items"].size(), 0) << "those of another group";
    const auto held = run({"groups", "search", "--leases"}).output;
    EXPECT_TRUE(contains(line_of(held, "search"), "worker")) << held;
    EXPECT_EQ(json({"groups", "search", "--consumers"})["items"][0]["leases"], 1);
}

TEST_P(Operating, an_inbox_shows_its_gaps) {
    const Json gaps = json({"inboxes", "payments", "--gaps"})["items"];
    ASSERT_EQ(gaps.size(), 1) << gaps;
    EXPECT_EQ(gaps[0]["aggregate"], "a");
    EXPECT_EQ(gaps[0]["expected"], 3);
    EXPECT_EQ(gaps[0]["found"], 4);
    const auto table = run({"inboxes", "payments", "--gaps"}).output;
    EXPECT_TRUE(contains(line_of(table, "a"), "3")) << table;
    EXPECT_EQ(json({"inboxes", "payments"})["ordered"], true);
    EXPECT_EQ(all_of(json({"inboxes"})["items"], "inbox"), (std::vector<std::string>{"public.payments"}));
}

TEST_P(Operating, stream_tables_are_listed_and_one_shows_its_refreshes) {
    EXPECT_EQ(all_of(json({"streams"})["items"], "stream_table"),
              (std::vector<std::string>{"public.totals"}));
    EXPECT_EQ(json({"streams", "totals"})["mode"], "FULL");
    EXPECT_TRUE(contains(line_of(run({"streams"}).output, "public.totals"), "FULL"))
        << run({"streams"}).output;
    const auto before = json({"streams", "totals", "--refreshes"})["items"].size();
    postgres::Connection(url).exec(
        "insert into sales values (1, 5), (2, 7); select * from baton.refresh_stream_table('totals')");
    const Json refreshes = json({"streams", "totals", "--refreshes"})["items"];
    ASSERT_EQ(refreshes.size(), before + 1);
    EXPECT_EQ(refreshes[0]["inserted"], 2) << "the latest first";
    EXPECT_TRUE(refreshes[0]["error"].is_null());
    const auto table = run({"streams", "totals", "--refreshes"}).output;
    EXPECT_TRUE(contains(table, "FULL")) << table;
    EXPECT_EQ(run({"streams", "nosuch"}).exit_code, 1);
}

// The red ones have the last names.
TEST_P(Operating, a_screen_shows_the_worst_of_many_and_lists_come_in_pages) {
    postgres::Connection db(url);
    db.exec(
        "select baton.create_consumer_group('crowd' || to_char(n, 'FM0000'), 'orders', case when n = 700 "
        "then "
        "'earliest' else 'latest' end, max_attempts => 1) from generate_series(1, 1100) n");
    db.exec("select baton.publish('orders', 'more', '{}')");
    for (const char* group : {"crowd1099", "crowd1100"})
        db.query(
            "select baton.fail_events($1, 'c', array_agg(id), 'no', true, (array_agg(lease_token))[1]) from "
            "baton.poll_outbox($1, 'c', 1)",
            {group});
    const auto screen = run({"status"}).output;
    for (const char* group : {"billing", "crowd1099", "crowd1100", "crowd0700"})
        EXPECT_FALSE(line_of(screen, group).empty()) << group << "\n" << screen;
    EXPECT_TRUE(contains(screen, "and 1,082 more: baton groups\n")) << screen;
    EXPECT_LT(std::count(screen.begin(), screen.end(), '\n'), 120) << screen;
    EXPECT_EQ(json({"status"})["groups"].size(), 1102) << "a program gets them all";

    const Json first = json({"groups"});
    EXPECT_EQ(first["items"].size(), 1000);
    EXPECT_EQ(first["next"], first["items"].back()["group"]);
    const Json second = json({"groups", "--after", first["next"]});
    EXPECT_EQ(second["items"].size(), 102);
    EXPECT_TRUE(second["next"].is_null());
    EXPECT_EQ(second["items"].back()["group"], "search");
    EXPECT_TRUE(
        contains(run({"lag", "--limit", "3"}).output, "there are more: --after crowd0002 shows the next"));
    EXPECT_EQ(json({"outboxes", "--limit", "1"})["next"], "public.orders");
    EXPECT_EQ(all_of(json({"outboxes", "--after", "public.orders"})["items"], "outbox"),
              (std::vector<std::string>{"public.raw"}));
    for (const char* list : {"inboxes", "streams"})
        EXPECT_TRUE(json({list, "--limit", "1"})["next"].is_null()) << list;
    EXPECT_TRUE(json({"pipelines", "list", "--limit", "1"})["next"].is_null());
    EXPECT_EQ(json({"groups", "billing", "--consumers", "--limit", "1"})["items"].size(), 1);
}

TEST_P(Operating, jobs_and_settings_are_listed) {
    const std::string job = value("select name from baton.jobs order by name limit 1");
    const Json jobs = json({"jobs"})["items"];
    EXPECT_EQ(std::to_string(jobs.size()), value("select count(*) from baton.jobs"));
    EXPECT_EQ(jobs[0]["job"], job);
    EXPECT_FALSE(line_of(run({"jobs"}).output, job).empty()) << run({"jobs"}).output;

    const Json settings = json({"settings"})["items"];
    EXPECT_EQ(std::to_string(settings.size()), value("select count(*) from baton.setting_defaults"));
    EXPECT_EQ(run({"set", "outbox_enabled", "off"}).exit_code, 0);
    for (const auto& setting : json({"settings"})["items"])
        if (setting["setting"] == "outbox_enabled") {
            EXPECT_EQ(setting["value"], "off");
            EXPECT_EQ(setting["default"], "on");
            EXPECT_FALSE(setting["updated_by"].is_null());
        }
    EXPECT_TRUE(contains(line_of(run({"settings"}).output, "outbox_enabled"), "off"))
        << run({"settings"}).output;
}

TEST_P(Operating, a_group_is_moved_to_an_offset_and_to_a_time) {
    postgres::Connection(url).exec(
        "select baton.publish('orders', 'later', '{}', occurred_at => '2031-05-01 12:00+00')");
    EXPECT_EQ(json({"seek", "search", "--offset", "4", "--yes"})["lag_events"], 6);
    EXPECT_TRUE(contains(run({"seek", "search", "--time", "2031-05-01 12:00+00", "--yes"}).output,
                         "group search has 1 events to read"));
    EXPECT_EQ(json({"seek", "search", "--time", "2031-05-01T12:00:01Z", "--yes"})["lag_events"], 0);
    EXPECT_EQ(json({"seek", "search", "--to", "beginning", "--yes"})["lag_events"], 10);
    const auto both = run({"seek", "search", "--offset", "1", "--time", "2031-05-01", "--yes"});
    EXPECT_EQ(both.exit_code, 1);
    EXPECT_TRUE(contains(both.errors, "seek to one place")) << both.errors;
    for (const auto& [option, wrong] :
         {std::pair{"--offset", "first"}, {"--offset", "-1"}, {"--time", "someday"}})
        EXPECT_EQ(run({"seek", "search", option, wrong, "--yes"}).exit_code, 1) << option << " " << wrong;
    EXPECT_EQ(run({"seek", "search", "--to", "somewhere", "--yes"}).exit_code, 2);
    EXPECT_EQ(run({"seek", "nosuch", "--offset", "1", "--yes"}).exit_code, 1);
    EXPECT_EQ(value("select lag_rows from baton.group_lag where group_name = 'search'"), "10");
}

TEST_P(Operating, a_group_is_moved_by_how_long_ago_it_was) {
    postgres::Connection(url).exec(R"sql(
        select baton.create_outbox('history'), baton.create_consumer_group('reader', 'history', 'earliest');
        select baton.publish('history', 'happened', '{}', occurred_at => clock_timestamp() - ago) from unnest('{3 h,90 min,10 min}'::interval[]) ago)sql");
    for (const auto& [ago, events] :
         {std::pair{"-2h", 2}, {"-30m", 1}, {"-1d", 3}, {"-60s", 0}, {"-1.5d", 3}})
        EXPECT_EQ(json({"seek", "reader", "--time", ago, "--yes"})["lag_events"], events) << ago;
    for (const char* wrong : {"-2x", "-h", "--2h"})
        EXPECT_NE(run({"seek", "reader", "--time", wrong, "--yes"}).exit_code, 0) << wrong;
}

TEST_P(Operating, a_dead_letter_is_corrected_from_a_file_and_from_stdin) {
    const TemporaryFolder folder;
    write_text(folder / "corrected.json", "{\"from\": \"a file\"}\n");
    EXPECT_EQ(run({"dead", "edit", "1", "--payload", "@" + (folder / "corrected.json").string()}).exit_code,
              0);
    EXPECT_EQ(json({"dead", "show", "1"})["payload"], (Json{{"from", "a file"}}));
    EXPECT_EQ(run_with_input("{\"from\": \"stdin\"}", {"dead", "edit", "1", "--payload", "-"}).exit_code, 0);
    EXPECT_EQ(json({"dead", "show", "1"})["payload"], (Json{{"from", "stdin"}}));
    EXPECT_EQ(run({"dead", "edit", "1", "--headers", "{\"tenant\": \"blue\"}"}).exit_code, 0);
    const Json letter = json({"dead", "show", "1"});
    EXPECT_EQ(letter["headers"], (Json{{"tenant", "blue"}}));
    EXPECT_EQ(letter["payload"], (Json{{"from", "stdin"}})) << "it stays as it was";
    const auto missing = run({"dead", "edit", "1", "--payload", "@" + (folder / "nosuch").string()});
    EXPECT_EQ(missing.exit_code, 1);
    EXPECT_TRUE(contains(missing.errors, "cannot read the file")) << missing.errors;
    const auto nothing = run({"dead", "edit", "1"});
    EXPECT_EQ(nothing.exit_code, 1);
    EXPECT_TRUE(contains(nothing.errors, "there is nothing to correct")) << nothing.errors;
    EXPECT_EQ(run({"dead", "edit", "1", "--headers", "[1"}).exit_code, 1);
}

TEST_P(Operating, an_event_is_published_with_everything_that_it_can_have) {
    const TemporaryFolder folder;
    write_text(folder / "event.json", "{\"n\": 1}");
    const std::vector<std::string> words{"publish",
                                         "orders",
                                         "order.made",
                                         "@" + (folder / "event.json").string(),
                                         "--aggregate-type",
                                         "order",
                                         "--aggregate-id",
                                         "o1",
                                         "--key",
                                         "k1",
                                         "--topic",
                                         "elsewhere",
                                         "--headers",
                                         "{\"source\": \"x\"}",
                                         "--tenant",
                                         "blue",
                                         "--trace",
                                         "trace1",
                                         "--idempotency-key",
                                         "once"};
    EXPECT_EQ(json(words)["offset"], 10);
    EXPECT_EQ(json(words)["offset"], 10) << "the key was used";
    EXPECT_EQ(value("select concat_ws('|', event_type, payload, aggregate_type, aggregate_id, partition_key, "
                    "topic, headers, tenant_id, trace_id, idempotency_key) from orders where id = 10"),
              R"(order.made|{"n": 1}|order|o1|k1|elsewhere|{"source": "x"}|blue|trace1|once)");
    EXPECT_EQ(value("select count(*) from orders"), "10");
    const auto fed = run_with_input("{\"n\": 2}", {"publish", "orders", "order.made", "-"});
    EXPECT_TRUE(contains(fed.output, "published at offset 1")) << fed.output << fed.errors;
    EXPECT_EQ(value("select payload from orders order by id desc limit 1"), "{\"n\": 2}");
    EXPECT_EQ(run({"publish", "orders", "x", "{}", "--headers", "none"}).exit_code, 1);
}

TEST_P(Operating, a_pipeline_of_a_file_is_rendered) {
    const TemporaryFolder folder;
    write_text(folder / "relay.toml",
               "[[pipeline]]\nname = \"here\"\n[pipeline.source]\noutbox = \"orders\"\n[pipeline.filter]\n"
               "event_types = [\"order.*\"]\n[pipeline.sink]\ntype = \"file\"\npath = \"/nowhere/x\"\n");
    const std::string file = folder / "relay.toml";
    run({"publish", "orders", "noise", "{}"});
    const Json rendered = json({"render", "here", "--config", file, "-n", "20"});
    EXPECT_EQ(keys_of(rendered), (std::vector<std::string>{"waiting", "items", "left_out"}));
    EXPECT_EQ(rendered["waiting"], false) << "there is no such group yet";
    ASSERT_EQ(rendered["items"].size(), 9);
    EXPECT_EQ(keys_of(rendered["items"][0]),
              (std::vector<std::string>{"offset", "event_id", "destination", "message_id", "key",
                                        "content_type", "headers", "body"}));
    ASSERT_EQ(rendered["left_out"].size(), 1);
    EXPECT_EQ(rendered["left_out"][0], (Json{{"offset", 10}, {"why", "is filtered out"}}));
    const auto told = run({"render", "here", "--config", file, "-n", "20"});
    EXPECT_TRUE(contains(told.errors, "offset 10 is filtered out")) << told.errors;
    EXPECT_TRUE(contains(told.output, "12345678901234567890123")) << told.output;
    const auto other = run({"render", "to-file", "--config", file});
    EXPECT_EQ(other.exit_code, 1) << "it is in the catalog, not in the file";
    EXPECT_TRUE(contains(other.errors, "there is no pipeline \"to-file\" in")) << other.errors;
    EXPECT_EQ(run({"render", "here"}).exit_code, 1);
    EXPECT_EQ(run({"render", "here", "--config", folder / "nosuch.toml"}).exit_code, 1);
}

}  // namespace
