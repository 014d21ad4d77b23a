// Live stream tables are refreshed by the server's worker when a source has changed, and those that belong
// together show one state.

#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class StreamLive : public testing::Test {
  protected:
    void SetUp() override {
        url_ = shared_cluster(Form::extension).fresh_database();
        db_ = std::make_unique<Connection>(url_);
        db_->exec(
            "create table source (id int primary key, k int, v int); insert into source select n, n % 10, 0 "
            "from generate_series(1, 100) n");
    }

    void create(const std::string& name, const std::string& query) {
        db_->value("select baton.create_stream_table($1, $2, 'live')", {name, query});
    }

    std::string url_;
    std::unique_ptr<Connection> db_;
};

}  // namespace

TEST_F(StreamLive, a_commit_shows_without_anybody_refreshing) {
    create("totals", "select k, sum(v) as v from source group by k");
    for (int round = 1; round <= 3; ++round) {
        db_->exec("update source set v = v + 1 where id = 7");
        wait_until("the change shows",
                   [&] { return db_->value("select v from totals where k = 7") == std::to_string(round); });
    }
    EXPECT_EQ(db_->value("select effective_mode || last_mode from baton.stream_table_status('totals')"),
              "DIFFERENTIALDIFFERENTIAL");
    const auto refreshes = db_->value("select refreshes from baton.stream_table_status('totals')");
    db_->exec(
        "create table unrelated (n int); insert into unrelated values (1); begin; update source set v = v + "
        "1 where id = 7; rollback");
    db_->exec("begin; update source set v = v + 5 where id = 7; prepare transaction 'live'");
    EXPECT_EQ(db_->value("select refreshes from baton.stream_table_status('totals')"), refreshes)
        << "nothing was committed";
    db_->exec("commit prepared 'live'");
    wait_until("what was prepared shows",
               [&] { return db_->value("select v from totals where k = 7") == "8"; });
}

TEST_F(StreamLive, who_reads_several_in_one_snapshot_sees_one_state) {
    create("by_key", "select k, sum(v) as v from source group by k");
    create("rows", "select id, v from source where v <> 0");
    create("total", "select sum(v) as v from by_key");
    create("joined", "select s.id, s.k, b.v from source s join by_key b using (k)");
    std::atomic<bool> done{false};
    std::thread writer([&] {
        Connection db(url_);
        for (int n = 0; !done; ++n) {
            db.exec("begin; update source set v = v + 1 where id % 13 = " + std::to_string(n % 13));
            if (n % 7 == 0) db.exec("insert into source select max(id) + 1, 3, 1 from source");
            if (n % 100 == 50)  // what was captured is not enough then: each has to begin anew
                db.exec("alter table source disable trigger all; alter table source enable trigger all");
            db.exec(n % 5 == 0 ? "rollback" : "commit");
        }
    });
    wait_until("they have been refreshed together", [&] {  // not each by who made it
        return db_->value(
                   "select count(distinct frontier::text) = 1 and bool_and(refreshes > 1) from "
                   "baton.stream_tables") == "t";
    });
    int states = 0;
    std::string last;
    wait_until("enough states were seen", [&] {
        const auto seen = db_->value(
            "select concat_ws(' ', coalesce(sum(v), 0), coalesce((select sum(v) from rows), 0), "
            "coalesce((select v from total), 0), "
            "(select coalesce(sum(v), 0) from (select distinct k, v from joined) d)) from by_key");
        std::istringstream words(seen);
        std::string first, other;
        for (words >> first; words >> other;) EXPECT_EQ(other, first) << seen;
        states += first != last;
        last = first;
        return states > 20 || HasFailure();
    });
    done = true;
    writer.join();
    wait_until("everything has arrived", [&] {
        return db_->value(
                   "select coalesce(sum(v.missing + v.surplus), 0) from baton.stream_tables s cross join "
                   "lateral baton.verify_stream_table(s.relation::text) v") == "0";
    });
}

TEST_F(StreamLive, what_does_not_belong_together_is_refreshed_side_by_side) {
    for (const std::string name : {"one", "other"}) {
        db_->exec("create table " + name + "_source (n int); insert into " + name + "_source values (1)");
        db_->value("select baton.create_stream_table($1, $2, '1s')",
                   {name + "_slow",
                    "select clock_timestamp() as at, pg_sleep(1.5)::text as nap from " + name + "_source"});
    }
    wait_until("two refreshes ran at once", [&] {
        return db_->value(
                   "select count(*) from baton.stream_table_history('one_slow') a join "
                   "baton.stream_table_history('other_slow') b "
                   "on (a.begun_at, a.milliseconds * interval '1 ms') overlaps (b.begun_at, b.milliseconds * "
                   "interval '1 ms')") != "0";
    });
}

TEST_F(StreamLive, a_query_without_end_is_cancelled_and_holds_up_nobody_for_ever) {
    db_->exec("select baton.set_setting('stream_refresh_limit_seconds', '1')");
    for (const std::string name : {"one", "two", "three"}) {  // more than there are processes
        db_->exec("create table " + name + "_source (n int)");
        db_->value("select baton.create_stream_table($1, $2, '1s')",
                   {name + "_endless", "select pg_sleep(100000)::text as nap from " + name + "_source"});
        db_->exec("insert into " + name + "_source values (1)");
    }
    create("totals", "select k, sum(v) as v from source group by k");
    db_->exec("update source set v = 1 where id = 7");
    wait_until("the others go on", [&] { return db_->value("select v from totals where k = 7") == "1"; });
    wait_until("each was cancelled", [&] {
        return db_->value(
                   "select count(*) from baton.stream_table_status() where last_error = '57014: the refresh "
                   "took longer than stream_refresh_limit_seconds (1)'") == "3";
    });
}
