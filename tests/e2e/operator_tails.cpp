// Following outboxes, groups and inboxes with `baton tail`.

#include <set>
#include <sstream>

#include "base/file.hpp"
#include "operating.hpp"

using namespace baton;
using namespace baton::test;

namespace {

TEST_P(Operating, tail_shows_the_last_and_follows) {
    const auto last = run({"tail", "orders", "--once", "-n", "2", "--json"});
    EXPECT_TRUE(contains(last.output, "\"exact\": 12345678901234567890123")) << last.output;
    EXPECT_EQ(std::count(last.output.begin(), last.output.end(), '\n'), 2);
    const auto for_people = run({"tail", "orders", "--once"});
    EXPECT_TRUE(contains(for_people.output, "\"exact\": 12345678901234567890123")) << for_people.output;
    EXPECT_EQ(run({"tail", "nothing", "--once"}).exit_code, 1);
    EXPECT_EQ(run({"tail", "payments", "--once"}).exit_code, 0);
    const auto rare = run({"tail", "orders", "--once", "--type", "no.such", "--json"});
    EXPECT_EQ(rare.output, "");
    const auto of_key = run({"tail", "orders", "--once", "--key", "1", "--json"});
    EXPECT_EQ(std::count(of_key.output.begin(), of_key.output.end(), '\n'), 3) << of_key.output;
}

// `baton tail` until it is stopped, and what it has said so far.
class Tail {
  public:
    Tail(const std::string& url, std::vector<std::string> words)
        : process_(start_baton(with(url, std::move(words)), folder_ / "out", folder_ / "errors")) {}
    ~Tail() { process_.stop(); }

    std::vector<Json> lines() const {
        std::istringstream text(read_text(folder_ / "out"));
        std::vector<Json> all;
        for (std::string line; std::getline(text, line);)
            if (Json::accept(line)) all.push_back(Json::parse(line));
        return all;
    }
    void wait_for(std::size_t count) const {
        wait_until("tail has told of " + std::to_string(count), [&] { return lines().size() >= count; });
    }

  private:
    static std::vector<std::string> with(const std::string& url, std::vector<std::string> words) {
        words.insert(words.begin(), "tail");
        words.insert(words.end(), {"--json", "--db", url});
        return words;
    }
    TemporaryFolder folder_;
    Process process_;
};

TEST_P(Operating, tail_of_a_group_tells_what_it_settled_and_what_failed) {
    postgres::Connection db(url);
    run({"seek", "search", "--to", "end", "--yes"});
    const Tail tail(url, {"search", "-n", "1"});
    tail.wait_for(1);
    db.query(
        "select baton.publish('orders', 'late', jsonb_build_object('n', n), aggregate_id => 'k' || n) "
        "from generate_series(1, 3) n");
    const auto poll = "baton.poll_outbox('search', 'c', 10)";
    db.query(
        std::string(
            "select baton.commit_events('search', 'c', array_agg(id), (array_agg(lease_token))[1]) from ") +
        poll);
    wait_until("the three have settled", [&] {
        int settled = 0;
        for (const auto& line : tail.lines())
            if (line["event_type"] == "late" && line["state"] == "settled") ++settled;
        return settled == 3;
    });
}

TEST_P(Operating, tail_of_an_inbox_leaves_nothing_out) {
    postgres::Connection db(url), slow(url);
    db.query("select baton.create_inbox('crowd')");
    db.query("select baton.receive('crowd', 'first', 'rare', '{}', aggregate_id => 'k1')");
    const Tail all(url, {"crowd"}), some(url, {"crowd", "--type", "rare", "--key", "k1"});
    all.wait_for(1);
    some.wait_for(1);
    slow.exec("begin; select baton.receive('crowd', 'slow', 'often', '{}')");
    db.query(
        "select baton.receive('crowd', 'm' || n, case when n % 500 = 1 then 'rare' else 'often' end, '{}', "
        "aggregate_id => 'k' || n % 1000) from generate_series(1, 2600) n");
    all.wait_for(2601);
    slow.exec("commit");
    all.wait_for(2602);
    db.query("select baton.fail_inbox('crowd', '{m7}'::text[], 'no', permanent => true)");
    all.wait_for(2603);
    std::set<std::string> ids;
    for (const auto& line : all.lines()) ids.insert(line["event_id"]);
    EXPECT_EQ(ids.size(), 2602);
    EXPECT_EQ(all.lines().back()["state"], "dead");
    EXPECT_EQ(all.lines().size(), 2603) << "and none twice";
    some.wait_for(4);
    EXPECT_EQ(some.lines().size(), 4) << "the first, m1, m1001 and m2001";
}

TEST_P(Operating, tail_asks_which_is_meant_and_refuses_what_cannot_be_followed) {
    postgres::Connection(url).exec(R"sql(
        select baton.create_consumer_group('payments', 'orders', 'earliest');
        create table mails (id int primary key, payload jsonb, done_at timestamptz, tries int not null default 0);
        select baton.adopt_outbox('mails', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at", "attempts": "tries"},
            "attempts": {"limit": 2}, "backoff": {"kind": "none"}}'))sql");
    EXPECT_TRUE(contains(run({"tail", "payments", "--once"}).errors, "several things"));
    EXPECT_EQ(run({"tail", "payments", "--once", "--of", "group"}).exit_code, 0);
    const auto inbox = run({"tail", "payments", "--once", "--of", "inbox", "--json"});
    EXPECT_TRUE(contains(inbox.output, "\"p1\"")) << inbox.output;
    const auto adopted = run({"tail", "mails", "--once"});
    EXPECT_EQ(adopted.exit_code, 1);
    EXPECT_TRUE(contains(adopted.errors, "adopted outbox, which cannot be followed")) << adopted.errors;
}

// A transaction that began before others and commits after them must come, too: an offset would pass it by.
TEST_P(Operating, tail_misses_no_late_commit) {
    postgres::Connection early(url), late(url), eye(url);
    const auto tail = [&](const Json& after) {
        return Json::parse(operations::run(operations::find("tail_events"), eye,
                                           {{"outbox", "orders"}, {"after", after}, {"limit", 2}}, ""));
    };
    Json page = tail(nullptr);
    std::vector<std::string> seen;
    const auto follow = [&] {
        do {
            page = tail(page["next"]);
            for (const auto& event : page["items"]) seen.push_back(event["event_type"]);
        } while (!page["items"].empty());
    };
    early.exec("begin; select baton.publish('orders', 'early', '{}')");
    late.exec("select baton.publish('orders', 'late' || n, '{}') from generate_series(1, 5) n");
    follow();
    EXPECT_EQ(seen, (std::vector<std::string>{"late1", "late2", "late3", "late4", "late5"}));
    early.exec("commit");
    follow();
    EXPECT_EQ(seen.back(), "early");
    EXPECT_EQ(seen.size(), 6) << "and nothing comes twice";
}

TEST_P(Operating, tail_begins_in_the_past_and_filters_by_tenant) {
    postgres::Connection db(url);
    db.exec(
        "select baton.publish('orders', 'old', '{}', tenant_id => case n % 2 when 0 then 'blue' end, "
        "occurred_at => "
        "clock_timestamp() - n * interval '1 hour') from generate_series(5, 1, -1) n");
    const auto types = [&](std::vector<std::string> words) {
        words.insert(words.begin(), {"tail", "orders", "--once", "--type", "old", "--json"});
        const auto ran = run(words);
        EXPECT_EQ(ran.exit_code, 0) << ran.errors;
        std::istringstream lines(ran.output);
        std::vector<long long> offsets;
        for (std::string line; std::getline(lines, line);) offsets.push_back(Json::parse(line)["offset"]);
        return offsets;
    };
    EXPECT_EQ(types({"--since", "-150m"}), (std::vector<long long>{13, 14})) << "the oldest first";
    EXPECT_EQ(types({"--since", "-1d"}), (std::vector<long long>{10, 11, 12, 13, 14}));
    EXPECT_EQ(types({"--since", value("select clock_timestamp() - interval '90 min'")}),
              (std::vector<long long>{14}));
    EXPECT_EQ(types({"--tenant", "blue"}), (std::vector<long long>{11, 13}));
    EXPECT_EQ(types({"--tenant", "blue", "-n", "1"}), (std::vector<long long>{13}));
    EXPECT_EQ(run({"tail", "orders", "--once", "--since", "someday"}).exit_code, 1);

    const Tail blue(url, {"orders", "--tenant", "blue", "--since", "-150m"});
    blue.wait_for(1);
    db.query(
        "select baton.publish('orders', 'new', '{}', tenant_id => case n % 2 when 0 then 'blue' end) from "
        "generate_series(1, 4) n");
    blue.wait_for(3);
    for (const auto& line : blue.lines()) EXPECT_EQ(line["tenant_id"], "blue");
}

TEST_P(Operating, tail_tells_of_one_state_only) {
    postgres::Connection db(url);
    const Tail dead(url, {"search", "--state", "dead", "--since", "-1h"}),
        all(url, {"search", "--since", "-1h"});
    db.query(
        "select baton.fail_events('search', 'c', array_agg(id), 'no', true, (array_agg(lease_token))[1]) "
        "from "
        "baton.poll_outbox('search', 'c', 2)");
    db.query(
        "select baton.commit_events('search', 'c', array_agg(id), (array_agg(lease_token))[1]) from "
        "baton.poll_outbox('search', 'c', 10)");
    all.wait_for(9);
    dead.wait_for(2);
    EXPECT_EQ(dead.lines().size(), 2);
    for (const auto& line : dead.lines()) EXPECT_EQ(line["state"], "dead");

    const auto inbox = run({"tail", "payments", "--once", "--state", "dead", "--json"});
    EXPECT_EQ(Json::parse(inbox.output)["event_id"], "p1");
    for (const auto& words : std::vector<std::vector<std::string>>{{"orders", "--state", "dead"},
                                                                   {"payments", "--since", "-1h"},
                                                                   {"payments", "--tenant", "blue"},
                                                                   {"payments", "--state", "settled"}}) {
        std::vector<std::string> all_words{"tail", "--once"};
        all_words.insert(all_words.end(), words.begin(), words.end());
        EXPECT_EQ(run(all_words).exit_code, 1) << words[0] << " " << words[1];
    }
}

}  // namespace
