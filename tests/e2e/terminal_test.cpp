// Commands in a terminal, as a person has them: keys, colours, a question that is answered.

#include <gtest/gtest.h>

#include <sstream>

#include "base/file.hpp"
#include "support/cluster.hpp"
#include "support/picture.hpp"
#include "support/terminal.hpp"

using namespace baton;
using namespace baton::test;

namespace {

struct InATerminal : ::testing::Test {
    InATerminal() : url(shared_cluster(Form::extension).quiet_database()), db(url) {
        db.exec(R"sql(
            select baton.create_outbox('orders'), baton.create_outbox('parcels');
            select baton.create_consumer_group('billing', 'orders', 'earliest', max_attempts => 1);
            select baton.publish('orders', 'order.created', '{}') from generate_series(1, 3))sql");
    }

    void bury_one() {
        db.exec(
            "select baton.fail_events('billing', 'c', array_agg(id), 'declined', true, "
            "(array_agg(lease_token))[1]) "
            "from baton.poll_outbox('billing', 'c', 1)");
    }

    const std::string url;
    postgres::Connection db;
    std::string line_;
};

bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

// The line on which these words are.
std::string line_with(const std::string& screen, const std::string& words) {
    const auto at = screen.find(words);
    if (at == std::string::npos) return {};
    const auto from = screen.rfind('\n', at) + 1;
    return screen.substr(from, screen.find('\n', at) - from);
}

void wait_until_chosen(const Terminal& terminal, const std::string& words) {
    try {
        wait_until(words + " is chosen",
                   [&] { return contains(line_with(terminal.coloured(), "7m"), words); });
    } catch (const Error& error) {
        throw Error(error.what() + std::string("\n") + terminal.coloured());
    }
}

TEST_F(InATerminal, top_shows_rates_and_goes_by_keys) {
    const Terminal terminal({{"BATON_DB", url}});
    terminal.enter("echo marker; stty -a | grep -o ' icanon'");
    terminal.wait_for("\n icanon");
    terminal.enter("baton top --every 0.2");
    terminal.wait_for("[groups]");
    terminal.press({"Tab"});
    terminal.wait_for("[outboxes]");
    wait_until("the rate of the outbox has a line", [&] {
        db.exec("select baton.publish('orders', 'order.created', '{}') from generate_series(1, 50)");
        return contains(line_with(terminal.screen(), "public.orders"), "█");
    });
    EXPECT_FALSE(contains(terminal.screen(), "marker")) << "it has a screen of its own";
    wait_until("the line tells of the rest that came then", [&] {
        const auto line = line_with(terminal.screen(), "public.orders");
        return contains(line, "█") && contains(line, "▁");
    });
    wait_until_chosen(terminal, "public.orders");
    terminal.press({"Down"});
    wait_until_chosen(terminal, "public.parcels");
    terminal.press({"Down", "Down", "Up", "Down"});
    wait_until_chosen(terminal, "public.parcels");  // there is no third one
    terminal.press({"Enter"});
    terminal.wait_for("retention");
    EXPECT_FALSE(contains(terminal.screen(), "public.orders")) << terminal.screen();
    terminal.press({"Escape"});
    terminal.wait_for("public.orders");
    terminal.press({"Left"});
    terminal.wait_for("[groups]");
    terminal.press({"Enter"});
    terminal.wait_for("on_poison");
    terminal.press({"Right"});
    terminal.wait_for("[outboxes]");
    terminal.press({"q"});
    terminal.wait_for("marker");
    terminal.enter("stty -a | grep -o ' icanon'; stty -a | grep -o ' echo '");
    wait_until("lines and echo are back", [&] {
        const auto screen = terminal.screen();
        return contains(screen, "\n echo\n") &&
               contains(screen.substr(screen.rfind("baton top")), "\n icanon\n");
    });
    EXPECT_FALSE(contains(terminal.screen(), "[outboxes]"));
}

TEST_F(InATerminal, top_scrolls_so_that_the_chosen_line_is_seen) {
    db.exec(
        "select baton.create_consumer_group(format('group%s', to_char(n, 'FM00')), 'orders') from "
        "generate_series(1, 40) n");
    bury_one();
    const Terminal terminal({{"BATON_DB", url}}, 80, 20);
    terminal.enter("baton top");
    terminal.wait_for("group01");
    EXPECT_TRUE(contains(terminal.screen(), " of 41\n")) << terminal.screen();
    EXPECT_TRUE(contains(terminal.screen(), "error  billing: 1 dead letter")) << terminal.screen();
    EXPECT_FALSE(contains(terminal.screen(), "group40"));
    for (int i = 0; i < 4; ++i) terminal.press(std::vector<std::string>(10, "Down"));
    terminal.wait_for("group40");
    EXPECT_TRUE(contains(line_with(terminal.coloured(), "7m"), "group40")) << terminal.coloured();
    EXPECT_FALSE(contains(terminal.screen(), "group01"));
    EXPECT_TRUE(contains(terminal.screen(), "baton top")) << "the head stays\n" << terminal.screen();
    EXPECT_TRUE(contains(terminal.screen(), "error  billing: 1 dead letter")) << "and so does what is red";
    for (int i = 0; i < 3; ++i) terminal.press(std::vector<std::string>(10, "Up"));
    wait_until_chosen(terminal, "group10");
}

TEST_F(InATerminal, top_goes_into_an_item_and_shows_what_belongs_to_it) {
    bury_one();
    db.query("select baton.poll_outbox('billing', 'worker7', 1)");
    db.exec(
        "select baton.create_inbox('payments'); select baton.receive('payments', 'p1', 'paid', '{}'); "
        "select baton.set_pipeline('out', '{\"source\": {\"outbox\": \"orders\", \"group\": \"billing\"}, "
        "\"sink\": {\"type\": \"null\"}}', false)");
    const Terminal terminal({{"BATON_DB", url}}, 120, 45);
    terminal.enter("baton top --every 0.2");
    wait_until_chosen(terminal, "billing");
    terminal.press({"Enter"});
    terminal.wait_for("consumers: ");
    for (const char* words :
         {"on_poison", "worker7", "leases: 1", "blocked keys: none", "dead letters: 1", "declined"})
        terminal.wait_for(words);
    EXPECT_FALSE(contains(terminal.screen(), "SETTLED/s")) << "the list is away";
    bury_one();  // the page lives
    terminal.wait_for("dead letters: 2");
    terminal.press({"Escape"});
    terminal.wait_for("SETTLED/s");
    wait_until_chosen(terminal, "billing");
    terminal.press({"Tab"});
    wait_until_chosen(terminal, "public.orders");
    terminal.press({"Enter"});
    terminal.wait_for("partitions: ");
    terminal.wait_for("open");
    terminal.press({"Tab"});
    wait_until_chosen(terminal, "out");
    terminal.press({"Enter"});
    terminal.wait_for("dead letters: 2");
    terminal.press({"Tab"});
    wait_until_chosen(terminal, "public.payments");
    terminal.press({"Enter"});
    terminal.wait_for("messages that wait: 1");
    terminal.wait_for("blocked aggregates: none");
    terminal.press({"q"});
    terminal.wait_for("$ baton top --every 0.2\n$");
}

TEST_F(InATerminal, top_scrolls_through_an_item_that_is_longer_than_the_screen) {
    bury_one();
    const Terminal terminal({{"BATON_DB", url}}, 80, 14);
    terminal.enter("baton top --every 0.2");
    wait_until_chosen(terminal, "billing");
    terminal.press({"Enter"});
    terminal.wait_for("lines 1-");
    EXPECT_FALSE(contains(terminal.screen(), "declined")) << terminal.screen();
    for (int i = 0; i < 3; ++i) terminal.press(std::vector<std::string>(10, "Down"));
    terminal.wait_for("declined");
    EXPECT_FALSE(contains(terminal.screen(), "lines 1-"));
    EXPECT_TRUE(contains(terminal.screen(), "baton top")) << "the head stays\n" << terminal.screen();
    for (int i = 0; i < 3; ++i) terminal.press(std::vector<std::string>(10, "Up"));
    terminal.wait_for("lines 1-");
    terminal.press({"Escape"});
    wait_until_chosen(terminal, "billing");
}

TEST_F(InATerminal, top_outlives_its_database) {
    Cluster own;
    const auto there = own.quiet_database();
    postgres::Connection(there).exec(
        "select baton.create_outbox('orders'); select baton.create_consumer_group('billing', 'orders')");
    const Terminal terminal({{"BATON_DB", there}});
    terminal.enter("baton top --every 0.2");
    terminal.wait_for("billing");
    own.server().stop();
    terminal.wait_for("the database does not answer");
    EXPECT_TRUE(contains(terminal.screen(), "billing")) << "what was seen stays\n" << terminal.screen();
    own.server().start();
    terminal.wait_until_gone("the database does not answer");
    own.pause();
    terminal.wait_for("the database does not answer");
    terminal.press({"Tab"});
    terminal.wait_for("[outboxes]");
    own.resume();
    terminal.wait_until_gone("the database does not answer");
    own.pause();
    terminal.wait_for("the database does not answer");
    terminal.press({"q"});
    terminal.wait_for("$ baton top --every 0.2\n$");
    own.resume();
}

TEST_F(InATerminal, many_are_discarded_after_a_yes_that_is_typed) {
    bury_one();
    bury_one();
    const Terminal terminal({{"BATON_DB", url}});
    terminal.enter("baton dead discard --all --reason test");
    terminal.wait_for("discard 2 dead letters? [y/N]");
    terminal.enter("no");
    terminal.wait_for("nobody said yes");
    EXPECT_EQ(db.value("select count(*) from baton.dead_letters"), "2");
    terminal.enter("clear; baton dead discard --all --reason test");
    terminal.wait_for("discard 2 dead letters? [y/N]");
    terminal.enter("y");
    terminal.wait_for("2 dead letters were discarded");
    EXPECT_EQ(db.value("select count(*) from baton.dead_letters"), "0");
}

TEST_F(InATerminal, a_dead_letter_is_corrected_in_the_editor_and_no_work_is_lost) {
    bury_one();
    const TemporaryFolder folder;
    const auto editor = folder / "editor";
    write_text(editor, "#!/bin/sh\nprintf '%s' \"$TEXT\" > \"$1\"\n");
    std::filesystem::permissions(editor, std::filesystem::perms(0755));
    const Terminal terminal({{"BATON_DB", url}, {"VISUAL", ""}, {"EDITOR", editor}}, 160, 20);
    terminal.enter("TEXT='{\"n\": 98765432109876543210987}' baton dead edit 1");
    terminal.wait_for("send it with baton dead replay 1");
    const std::string payload = "select payload::text from baton.dead_letters";
    EXPECT_EQ(db.value(payload), "{\"n\": 98765432109876543210987}");

    terminal.enter("clear; TEXT='{\"n\": ' baton dead edit 1");
    terminal.wait_for("give --payload @");
    const std::string line = line_with(terminal.screen(), "your text is in ");
    const auto from = line.find('@') + 1;
    EXPECT_EQ(read_text(line.substr(from, line.find_last_not_of(' ') + 1 - from)), "{\"n\": ") << line;
    terminal.enter("clear; VISUAL=false baton dead edit 1");
    terminal.wait_for("the editor failed, nothing was changed");
    terminal.enter("clear; EDITOR=true baton dead edit 1");
    terminal.wait_for("dead letter 1 stays as it is");
    EXPECT_EQ(db.value(payload), "{\"n\": 98765432109876543210987}");
    EXPECT_EQ(db.value("select count(*) from baton.audit_trail where action = 'edit_dead_letter'"), "1");
}

TEST_F(InATerminal, colours_are_for_a_terminal_that_wants_them) {
    bury_one();
    const Terminal terminal({{"BATON_DB", url}}, 100, 40);
    const std::string red = "\033[31m";
    terminal.enter("baton status");
    terminal.wait_for("baton dead replay --in billing");
    EXPECT_TRUE(contains(line_with(terminal.coloured(), "1 dead letter"), red)) << terminal.coloured();
    for (const char* plain : {"NO_COLOR=1 baton status", "TERM=dumb baton status", "baton status | cat"}) {
        terminal.enter("clear");
        terminal.wait_until_gone("billing");
        terminal.enter(plain);
        terminal.wait_for("baton dead replay --in billing");
        EXPECT_FALSE(contains(terminal.coloured(), "\033[")) << plain << "\n" << terminal.coloured();
    }
}

// The pictures in the docs: a small shop with a few things that need somebody.
TEST_F(InATerminal, status_doctor_and_top_are_painted) {
    Cluster own({Form::extension, true, {"fsync = on"}});
    const std::string made = own.quiet_database();
    postgres::Connection(own.server().url())
        .exec("alter database " + made.substr(made.find("dbname=") + 7) + " rename to shop");
    const auto there = own.server().url("shop");
    postgres::Connection shop(there);
    shop.exec(R"sql(
        select baton.create_outbox('orders'), baton.create_outbox('parcels'), baton.create_inbox('payments');
        select baton.create_consumer_group('billing', 'orders', 'earliest', max_attempts => 1), baton.create_consumer_group('search', 'orders'),
               baton.create_consumer_group('carrier', 'parcels', 'earliest');
        select baton.publish('orders', 'order.created', jsonb_build_object('n', n), aggregate_id => n) from generate_series(1, 240) n;
        insert into parcels (event_type, payload, occurred_at) select 'parcel.sent', '{}', now() - interval '20 minutes' from generate_series(1, 12);
        select baton.receive('payments', 'p' || n, 'paid', '{}') from generate_series(1, 3) n;
        select baton.set_pipeline('orders-to-kafka', '{"source": {"outbox": "orders"}, "sink": {"type": "kafka", "brokers": "kafka:9092"}}', false);
        select baton.set_setting('outbox_force_retention', 'on');
        select pg_create_physical_replication_slot('old_standby', true))sql");
    shop.exec(
        "select baton.fail_events('billing', 'c', array_agg(id), 'card declined', true, "
        "(array_agg(lease_token))[1]) "
        "from baton.poll_outbox('billing', 'c', 2)");
    const auto pictures = build_folder() / "browser/pictures";
    const auto paint = [&](const std::string& command, const std::string& wait_for) {
        const Terminal terminal({{"BATON_DB", there}}, 80, 60);
        terminal.enter("clear");
        terminal.enter("baton " + command);
        terminal.wait_for(wait_for);
        terminal.wait_for("\n$");
        const std::string screen = terminal.coloured();
        take_picture(screen.substr(0, screen.rfind("\n$")), 80, pictures / ("terminal-" + command + ".png"));
        for (std::istringstream lines(terminal.screen()); std::getline(lines, line_);)
            EXPECT_FALSE(line_.starts_with(" ") && !line_.starts_with("    "))
                << "a line was broken: " << line_;
    };
    paint("status", "SQL, for psql");
    paint("doctor", "SQL, for psql");

    const Terminal terminal({{"BATON_DB", there}}, 80, 24);
    terminal.enter("baton top --every 0.2");
    terminal.wait_for("[groups]");
    int some = 0;
    wait_until("the lines are long", [&] {
        shop.exec(
            "select baton.publish('orders', 'order.created', '{}') from generate_series(1, 1 + (random() "
            "* 40)::int)");
        shop.exec(
            "select baton.commit_events('search', 'c', array_agg(id), (array_agg(lease_token))[1]) from "
            "baton.poll_outbox('search', 'c', 500) having count(*) > 0");
        const std::string line = line_with(terminal.screen(), "search");
        some = 0;
        for (const char* bar : {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}) some += contains(line, bar) ? 1 : 0;
        return some >= 3;
    });
    take_picture(terminal.coloured(), 80, pictures / "terminal-top.png");
    terminal.press({"q"});
}

}  // namespace
