// Stream tables that belong together are refreshed by the job from one state, whatever one of them needs
// first, and while a table of theirs is locked nobody waits for them.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class StreamFamily : public testing::TestWithParam<Form> {
  protected:
    void SetUp() override {
        url_ = shared_cluster(GetParam()).quiet_database();
        db_ = std::make_unique<Connection>(url_);
        db_->exec(
            "create table source (id int primary key, k int, v int); insert into source select n, n % 10, 0 "
            "from generate_series(1, 100) n; create table elsewhere (n int)");
    }

    void create(const std::string& name, const std::string& query, bool initialize = true) {
        db_->query("select baton.create_stream_table($1, $2, '1 hour', initialize => $3::boolean)",
                   {name, query, initialize ? "true" : "false"});
    }
    // Run the job until nothing is left that is due.
    void run() {
        while (!db_->value("select baton_internal.refresh_due_stream(null)").empty()) {
        }
    }
    void run_all() {
        db_->exec("update baton.stream_tables set next_due = '-infinity'");
        run();
    }
    std::string states() {
        return db_->value(
            "select count(distinct frontier::text) || ' of ' || count(frontier) from baton.stream_tables");
    }

    std::string url_;
    std::unique_ptr<Connection> db_;
};

// Somebody commits changes of the source all the time.
class Writer {
  public:
    explicit Writer(const std::string& url)
        : thread_([this, url] {
              Connection db(url);
              for (int n = 0; !done_; ++n)
                  db.exec("update source set v = v + 1 where id = " + std::to_string(n % 100 + 1));
          }) {}
    ~Writer() {
        done_ = true;
        thread_.join();
    }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

  private:
    std::atomic<bool> done_{false};
    std::thread thread_;
};

}  // namespace

TEST_P(StreamFamily, one_state_is_shown_also_when_some_have_to_begin_anew) {
    if (GetParam() == Form::plain) GTEST_SKIP() << "without the extension each has a state of its own";
    // The first takes its time, so that others commit between the refreshes of one family.
    create("slow", "select id, v, pg_sleep(0.1)::text as nap from source where id in (1, 2)");
    create("totals", "select k, sum(v) as v from source group by k");
    create("above", "select sum(v) as v from totals");
    const Writer writer(url_);
    run_all();
    EXPECT_EQ(states(), "1 of 3") << "as usual";
    create("newcomer", "select id, v, k from source where v <> 0", false);
    run_all();
    EXPECT_EQ(states(), "1 of 4") << "one was made";
    db_->exec("alter table source add column extra int");
    create("other_columns", "select extra, v from source", false);
    run_all();
    EXPECT_EQ(states(), "1 of 5") << "a column more is captured";
    db_->exec("alter table source disable trigger all; alter table source enable trigger all");
    run_all();
    EXPECT_EQ(states(), "1 of 5") << "changes were missed";
    db_->exec("alter table source rename column v to w; alter table source rename column w to v");
    run_all();
    EXPECT_EQ(states(), "1 of 5") << "a column was renamed to and fro";
    EXPECT_EQ(db_->value("select bool_or(failed_in_a_row > 0) from baton.stream_tables"), "f");
}

TEST_P(StreamFamily, what_cannot_begin_anew_has_failed_and_the_others_go_on) {
    if (GetParam() == Form::plain) GTEST_SKIP() << "there is no capture";
    db_->exec("create function doubled(int) returns int immutable language sql as 'select $1 * 2'");
    create("one", "select id, doubled(v) as v from source");
    create("other", "select k, count(*) as n from source group by k");
    db_->query("select baton.alter_stream_table('one', refresh_mode => 'DIFFERENTIAL')");
    db_->exec(
        "insert into source values (1000, 1, 1); create or replace function doubled(int) returns int "
        "volatile language sql as 'select $1 * 2'");
    run_all();
    EXPECT_EQ(db_->value("select state from baton.stream_table_status('one')"), "failing");
    EXPECT_EQ(db_->value("select state from baton.stream_table_status('other')"), "active");
    EXPECT_EQ(db_->value("select sum(n) from other"), "101");
}

TEST_P(StreamFamily, a_locked_source_is_no_failure_and_holds_up_nobody_else) {
    for (const std::string name : {"one", "two", "three"}) create(name, "select id, v from source");
    create("apart", "select n from elsewhere");
    db_->exec("insert into source values (1000, 1, 1); insert into elsewhere values (1)");
    Connection locker(url_);
    locker.exec("begin; lock table source in access exclusive mode");
    run_all();
    EXPECT_EQ(db_->value("select count(*) from apart"), "1");
    EXPECT_EQ(db_->value("select count(*) from baton.stream_table_history() where error is not null"), "0");
    EXPECT_EQ(db_->value("select count(*) from baton.stream_table_status() where state = 'active' and "
                         "last_error is null"),
              "4");
    EXPECT_EQ(db_->value("select bool_and(next_due < now() + interval '1 minute') from "
                         "baton.stream_table_status() where stream_table <> 'public.apart'"),
              "t")
        << "they are tried again soon";
    db_->exec("update baton.stream_tables set held_up_since = held_up_since - interval '5 minutes'");
    run_all();
    EXPECT_EQ(db_->value("select string_agg(distinct last_error, '') from baton.stream_table_status()"),
              "55P03: somebody holds a lock on public.source for long");
    locker.exec("commit");
    run_all();
    EXPECT_EQ(db_->value("select (select count(*) from one) || ' ' || (select count(*) from three)"),
              "101 101");
    EXPECT_EQ(db_->value("select count(*) from baton.stream_tables where last_error is null and "
                         "held_up_since is null"),
              "4");
    locker.exec("begin; lock table two in share mode");
    db_->exec("insert into source values (1001, 1, 1)");
    run_all();
    EXPECT_EQ(db_->value("select count(*) from baton.stream_table_history() where error is not null"), "0")
        << "a stream table that is locked, by somebody who makes an index, is no failure either";
    locker.exec("commit");
    run_all();
    EXPECT_EQ(db_->value("select count(*) from two"), "102");
}

INSTANTIATE_TEST_SUITE_P(Forms, StreamFamily, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
