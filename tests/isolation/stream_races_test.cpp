// Refreshes of one stream table at once, next to writers, in old snapshots, and what a dump brings back.

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "support/cluster.hpp"
#include "support/restores.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class StreamRaces : public testing::TestWithParam<Form> {
  protected:
    void SetUp() override {
        url_ = shared_cluster(GetParam()).quiet_database();
        one_ = std::make_unique<Connection>(url_);
        other_ = std::make_unique<Connection>(url_);
        one_->exec(
            "create table source (n int, v int); insert into source select n, n from generate_series(1, 100) "
            "n;"
            "select baton.create_stream_table('result', 'select n, sum(v) as v from source group by n', "
            "null);"
            "select baton.enable_outbox('result')");
    }

    static std::string refresh(Connection& db) {
        return db.value(
            "select format('%s %s-%s', mode, inserted, deleted) from baton.refresh_stream_table('result')");
    }

    static std::string differences(Connection& db) {
        return db.value(
            "select format('%s missing, %s surplus', missing, surplus) from "
            "baton.verify_stream_table('result')");
    }

    // The outbox replayed from the first event on what the table held before must give the table.
    static std::string replay_differences(Connection& db) {
        return db.value(R"(
            select count(*) from (
                select row, sum(weight) as weight from (
                    select to_jsonb(r) as row, -1 as weight from result r
                    union all select jsonb_build_object('n', n, 'v', n), 1 from generate_series(1, 100) n
                    union all select jsonb_array_elements(payload -> 'inserted'), 1 from outbox_result
                    union all select jsonb_array_elements(payload -> 'deleted'), -1 from outbox_result) d
                 group by row having sum(weight) <> 0) x)");
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

    std::string url_;
    std::unique_ptr<Connection> one_, other_;
};

}  // namespace

TEST_P(StreamRaces, one_that_is_computed_in_full_says_so_once_with_the_reason) {
    std::vector<std::string> notices;
    one_->on_notice([&](const std::string& text) { notices.push_back(text); });
    one_->exec(
        "set client_min_messages = notice;"
        "create function touch() returns int language sql volatile as 'select 1'");
    const auto said = [&](const std::string& statement) {
        notices.clear();
        one_->exec(statement);
        std::string all;
        for (const auto& notice : notices) all += notice.substr(0, notice.find('\n')) + "|";
        return all;
    };
    const bool is_extension = GetParam() == Form::extension;
    const std::string in_full =
        is_extension ? "stream table public.whole is computed in full by each refresh: " : "";
    EXPECT_EQ(said("select baton.create_stream_table('plain', 'select n from source', null)"), "");
    EXPECT_NE(said("select baton.create_stream_table('whole', 'select n, random() as r from source', null)")
                  .find(is_extension ? in_full + "random() may give another result" : ""),
              std::string::npos);
    EXPECT_EQ(said("select baton.refresh_stream_table('whole')"), "");
    EXPECT_EQ(said("select baton.alter_stream_table('whole', schedule => '1 hour')"), "");
    EXPECT_EQ(said("select baton.alter_stream_table('whole', refresh_mode => 'FULL')"), "");
    EXPECT_NE(said("select baton.alter_stream_table('whole', query => 'select n, touch() as r from source')")
                  .find("the query calls public.touch(), which may write: every refresh calls it again"),
              std::string::npos);
}

TEST_P(StreamRaces, of_two_refreshes_at_once_one_does_the_work) {
    one_->exec("update source set v = v + 1 where n <= 10");
    one_->exec("begin");
    EXPECT_TRUE(refresh(*one_).ends_with(" 10-10"));
    const auto second = blocked([&] { return refresh(*other_); }, [&] { one_->exec("commit"); });
    EXPECT_TRUE(second.ends_with(" 0-0")) << second;
    EXPECT_EQ(differences(*one_), "0 missing, 0 surplus");
    EXPECT_EQ(one_->value("select count(*) from outbox_result"), "1");
}

TEST_P(StreamRaces, a_refresh_that_waited_for_one_that_failed_does_the_work) {
    one_->exec("update source set v = v + 1 where n <= 10");
    one_->exec("begin");
    refresh(*one_);
    const auto second = blocked([&] { return refresh(*other_); }, [&] { one_->exec("rollback"); });
    EXPECT_TRUE(second.ends_with(" 10-10")) << second;
    EXPECT_EQ(differences(*one_), "0 missing, 0 surplus");
    EXPECT_EQ(one_->value("select count(*) from outbox_result"), "1");
}

TEST_P(StreamRaces, what_a_transaction_changed_after_its_refresh_comes_with_the_next) {
    one_->exec("begin; select pg_current_xact_id()");
    other_->exec(
        "update source set v = v + 1 where n = 3");  // a later transaction, committed before the refresh
    refresh(*one_);
    one_->exec("update source set v = v + 1 where n <= 2; commit");
    const auto next = refresh(*one_);
    EXPECT_TRUE(next.ends_with(" 2-2")) << next;
    EXPECT_EQ(differences(*one_), "0 missing, 0 surplus");
}

TEST_P(StreamRaces, what_a_waiting_transaction_wrote_itself_is_in_its_refresh) {
    one_->exec("update source set v = v + 1 where n = 1");
    one_->exec("begin");
    refresh(*one_);
    other_->exec("begin; update source set v = v + 1 where n = 2");
    const auto second = blocked([&] { return refresh(*other_); }, [&] { one_->exec("commit"); });
    EXPECT_TRUE(second.ends_with(" 1-1")) << second;
    other_->exec("commit");
    EXPECT_EQ(differences(*one_), "0 missing, 0 surplus");
}

TEST_P(StreamRaces, a_refresh_works_although_the_clock_was_set_back_since_the_last_one) {
    one_->exec("update baton.stream_tables set begun_at = clock_timestamp() + interval '1 hour'");
    one_->exec("update source set v = v + 1 where n <= 10");
    EXPECT_TRUE(refresh(*one_).ends_with(" 10-10"));
    EXPECT_EQ(differences(*one_), "0 missing, 0 surplus");
}

TEST_P(StreamRaces, a_refresh_in_an_old_snapshot_does_not_undo_a_newer_one) {
    other_->exec("begin isolation level repeatable read; select count(*) from source");
    one_->exec("update source set v = v + 1");
    refresh(*one_);
    try {
        refresh(*other_);
        ADD_FAILURE() << "a refresh saw the past";
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "40001");
    }
    other_->exec("rollback");
    EXPECT_EQ(differences(*one_), "0 missing, 0 surplus");
}

TEST_P(StreamRaces, a_writer_does_not_wait_for_a_refresh_nor_a_refresh_for_a_writer) {
    other_->exec("begin; update source set v = v + 1 where n = 1");
    one_->exec("begin; set local lock_timeout = '10s'");
    EXPECT_TRUE(refresh(*one_).ends_with(" 0-0"));
    other_->exec("set local lock_timeout = '10s'; update source set v = v + 1 where n = 2; commit");
    one_->exec("commit");
    EXPECT_TRUE(refresh(*one_).ends_with(" 2-2"));
}

TEST_P(StreamRaces, the_query_changes_while_refreshes_and_writers_run) {
    std::atomic<bool> over{false};
    auto writer = std::async(std::launch::async, [&] {
        Connection db(url_);
        for (int i = 0; !over; ++i)
            db.exec("update source set v = v + 1 where n % 7 = " + std::to_string(i % 7));
    });
    std::vector<std::future<void>> refreshers;
    for (int i = 0; i < 2; ++i)
        refreshers.push_back(std::async(std::launch::async, [&] {
            Connection db(url_);
            while (!over) refresh(db);
        }));
    for (int i = 1; i <= 6; ++i)
        one_->exec(
            "select baton.alter_stream_table('result', query => 'select n, sum(v) as v from source where n "
            "> " +
            std::to_string(i) + " group by n')");
    over = true;
    writer.get();
    for (auto& refresher : refreshers) refresher.get();
    refresh(*one_);
    EXPECT_EQ(differences(*one_), "0 missing, 0 surplus");
    EXPECT_EQ(one_->value("select min(n) from result"), "7");
    EXPECT_EQ(replay_differences(*one_), "0");
}

TEST_P(StreamRaces, two_stream_tables_over_one_source_are_made_at_once) {
    one_->exec("begin; select baton.create_stream_table('first', 'select v, n from source', null)");
    const std::string make = "select baton.create_stream_table('second', 'select n, v from source', null)";
    if (GetParam() == Form::extension)
        blocked([&] { return other_->value(make); }, [&] { one_->exec("commit"); });
    else  // nothing is captured, and nobody waits
        other_->exec(make), one_->exec("commit");
    one_->exec("update source set v = v + 1");
    for (const auto* name : {"first", "second"})
        EXPECT_EQ(one_->value("select mode || ' ' || inserted from baton.refresh_stream_table($1)", {name}),
                  std::string(GetParam() == Form::extension ? "DIFFERENTIAL" : "FULL") + " 100");
}

TEST_P(StreamRaces, a_stream_table_comes_back_from_a_dump_with_its_rows_and_goes_on) {
    one_->exec(
        "select baton.create_stream_table('above', 'select count(*) as rows from result', '1 minute');"
        "update source set v = 0 where n = 1; select baton.refresh_stream_table('result');"
        "update source set v = 0 where n = 2");
    other_.reset();
    const auto to = shared_cluster(GetParam()).database_for_restore();
    dump_and_restore(url_, to);
    Connection db(to);
    db.exec("update baton.jobs set enabled = false");
    EXPECT_EQ(db.value("select count(*) from result"), "100");
    EXPECT_EQ(db.value("select count(*) from outbox_result"), "1");
    EXPECT_EQ(db.value("select level from baton.stream_tables where relation = 'above'::regclass"), "2");
    try {
        db.exec("delete from result");
        ADD_FAILURE() << "the guard was not restored";
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "55000");
    }
    EXPECT_EQ(refresh(db), "FULL 1-1");
    EXPECT_EQ(differences(db), "0 missing, 0 surplus");
    EXPECT_EQ(db.value("select count(*) from outbox_result"), "2");
    db.exec(
        "select baton.alter_stream_table('result', query => 'select n, sum(v) as v from source where n > 1 "
        "group by n')");
    EXPECT_EQ(db.value("select count(*) from result"), "99");
    try {
        db.exec("drop table source");
        ADD_FAILURE() << "the source was not watched";
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "2BP01");
    }
    db.exec("select baton.drop_stream_table('result', cascade => true)");
    EXPECT_EQ(db.value("select count(*) from baton.stream_tables"), "0");
}

INSTANTIATE_TEST_SUITE_P(Forms, StreamRaces, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
