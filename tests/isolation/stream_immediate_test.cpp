// Stream tables in mode IMMEDIATE under several writers at once, and what a TRUNCATE does to a refresh in an
// old snapshot.

#include <gtest/gtest.h>

#include <future>
#include <random>
#include <thread>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class StreamImmediate : public testing::Test {
  protected:
    void SetUp() override {
        url_ = shared_cluster(Form::extension).quiet_database();
        db_ = std::make_unique<Connection>(url_);
        db_->exec(
            "create table products (id int primary key, name text);"
            "create table lines (id serial primary key, product int references products on delete cascade, "
            "amount int);"
            "insert into products select n, 'p' || n % 4 from generate_series(1, 8) n;"
            "insert into lines (product, amount) select n % 8 + 1, n from generate_series(1, 40) n");
    }

    void create(const std::string& name, const std::string& query, const std::string& mode) {
        db_->value("select baton.create_stream_table($1, $2, null, $3)", {name, query, mode});
    }

    std::string differences() {
        return db_->value(
            "select coalesce(string_agg(format('%s lacks %s, has %s too many', s.relation, v.missing, "
            "v.surplus), '; '), 'none') "
            "from baton.stream_tables s cross join lateral baton.verify_stream_table(s.relation::text) v "
            "where v.missing + v.surplus > 0");
    }

    std::string url_;
    std::unique_ptr<Connection> db_;
};

std::string random_statement(std::mt19937& random) {
    const auto number = [&](int most) { return std::to_string(random() % static_cast<unsigned>(most) + 1); };
    switch (random() % 8) {
        case 0:
            return "delete from products where id = " + number(8);  // its lines go along
        case 1:
            return "insert into products values (" + number(8) + ", 'p" + number(4) +
                   "') on conflict (id) do update set name = excluded.name";
        case 2:
            return "update lines set amount = amount + 1, product = (select max(id) from products) where id "
                   "% 7 = " +
                   number(6);
        case 3:
            return "with gone as (delete from lines where id % 11 = " + number(10) +
                   " returning product) update products set name = name where id in (select product from "
                   "gone)";
        case 4:
            return "delete from lines where id % 13 = " + number(12);
        default:
            return "insert into lines (product, amount) select id, " + number(100) +
                   " from products where id <> " + number(8);
    }
}

// A writer at random, by the seed. Whom the server chooses as the victim of a deadlock begins anew.
void write_at_random(const std::string& url, unsigned seed, int transactions) {
    Connection db(url);
    db.exec("set deadlock_timeout = '20ms'");
    std::mt19937 random(seed);
    for (int i = 0; i < transactions; ++i) {
        try {
            db.exec(random() % 3 == 0 ? "begin isolation level repeatable read" : "begin");
            for (unsigned step = random() % 3 + 1; step > 0; --step) {
                if (random() % 4 == 0) {
                    db.exec("savepoint here");
                    db.exec(random_statement(random));
                    db.exec("rollback to here");
                }
                db.exec(random_statement(random));
            }
            db.exec(random() % 5 == 0 ? "rollback" : "commit");
        } catch (const SqlError& error) {
            const bool is_expected =
                error.sqlstate() == "40P01" || error.sqlstate() == "40001" || error.sqlstate() == "23503";
            ASSERT_TRUE(is_expected) << error.sqlstate() << " " << error.what();
            db.exec("rollback");
        }
    }
}

}  // namespace

TEST_F(StreamImmediate, whatever_writers_do_at_once_it_is_up_to_date_after_each_commit) {
    create(
        "pairs",
        "select p.id, p.name, l.id as line, l.amount from products p left join lines l on l.product = p.id",
        "IMMEDIATE");
    create("totals",
           "select p.name, count(*) as n, sum(l.amount) as amount from products p join lines l on l.product "
           "= p.id group by p.name",
           "IMMEDIATE");
    create("summary", "select sum(n) as n, count(*) as names from totals", "IMMEDIATE");
    create(
        "later",
        "select p.id, count(l.id) as n from products p left join lines l on l.product = p.id group by p.id",
        "DIFFERENTIAL");
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::atomic<bool> done{false};
    std::string seen = "none";
    std::thread checker([&] {
        Connection db(url_);
        while (!done && seen == "none")
            seen = db.value(
                "select coalesce(string_agg(format('%s lacks %s, has %s too many', s.relation, v.missing, "
                "v.surplus), '; '), 'none') from "
                "baton.stream_tables s cross join lateral baton.verify_stream_table(s.relation::text) v "
                "where s.effective_mode = 'IMMEDIATE' and v.missing + v.surplus > 0");
    });
    std::vector<std::thread> writers;
    for (unsigned i = 0; i < 4; ++i) writers.emplace_back(write_at_random, url_, seed + i, 25);
    for (auto& writer : writers) writer.join();
    done = true;
    checker.join();
    EXPECT_EQ(seen, "none");
    db_->exec("select baton.refresh_stream_table('later')");
    EXPECT_EQ(differences(), "none");
}

TEST_F(StreamImmediate, a_truncate_is_seen_whole_by_a_refresh_in_an_old_snapshot) {
    create("pairs", "select p.id, p.name, l.id as line from products p left join lines l on l.product = p.id",
           "DIFFERENTIAL");
    Connection old(url_);
    old.exec("begin isolation level repeatable read; select count(*) from products");
    db_->exec("truncate lines; insert into lines (product, amount) values (1, 1), (2, 2)");
    old.exec("select baton.refresh_stream_table('pairs'); commit");
    EXPECT_EQ(differences(), "none");
    db_->exec("update products set name = name || '!' where id < 3");
    EXPECT_EQ(db_->value("select mode from baton.refresh_stream_table('pairs')"), "DIFFERENTIAL");
    EXPECT_EQ(differences(), "none");
}

TEST_F(StreamImmediate, changes_are_kept_for_a_stream_table_that_is_being_made) {
    create("first", "select id, amount from lines", "DIFFERENTIAL");
    Connection maker(url_);
    maker.exec(
        "begin; select baton.create_stream_table('second', 'select id, amount from lines', null, "
        "'DIFFERENTIAL')");
    db_->exec("update lines set amount = amount + 1 where id < 5; delete from lines where id = 9");
    db_->exec("select baton.refresh_stream_table('first'); select baton_internal.trim_changes()");
    maker.exec("commit");
    db_->exec("select baton_internal.trim_changes(); select baton.refresh_stream_table('second')");
    EXPECT_EQ(differences(), "none");
    maker.exec(
        "begin; select baton.alter_stream_table('first', refresh_mode => 'FULL'); select "
        "baton.alter_stream_table('first', refresh_mode => 'DIFFERENTIAL'); "
        "select baton.refresh_stream_table('first')");
    db_->exec(
        "update lines set amount = amount + 1 where id < 5; select baton.refresh_stream_table('second'); "
        "select baton_internal.trim_changes()");
    maker.exec("commit");
    db_->exec("select baton_internal.trim_changes(); select baton.refresh_stream_table('first')");
    EXPECT_EQ(differences(), "none");
    EXPECT_EQ(
        db_->value("select count(*) from " + db_->value("select baton_internal.change_buffer('lines')")), "8")
        << "until all have seen them";
}

TEST_F(StreamImmediate, nobody_writes_unseen_while_an_immediate_one_is_made) {
    create("first", "select id, amount from lines", "IMMEDIATE");
    Connection maker(url_);
    maker.exec(
        "begin; select baton.create_stream_table('now', 'select id, amount from lines', null, 'IMMEDIATE')");
    db_->exec("set lock_timeout = '200ms'");
    try {
        db_->exec("update lines set amount = amount + 1 where id < 5");
        ADD_FAILURE() << "a writer who knows nothing of it";
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "55P03");
    }
    maker.exec("commit");
    db_->exec(
        "update lines set amount = amount + 1 where id < 5; select baton.refresh_stream_table('first')");
    EXPECT_EQ(differences(), "none");
}

TEST_F(StreamImmediate, a_prepared_transaction_holds_up_only_whoever_writes_next) {
    create("totals",
           "select p.name, count(*) as n from products p join lines l on l.product = p.id group by p.name",
           "IMMEDIATE");
    db_->exec("begin; insert into lines (product, amount) values (1, 1); prepare transaction 'immediate'");
    Connection other(url_);
    other.exec("set lock_timeout = '200ms'");
    try {
        other.exec("insert into lines (product, amount) values (2, 1)");
        ADD_FAILURE() << "two writers at once";
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "55P03");
    }
    db_->exec("commit prepared 'immediate'");
    other.exec("insert into lines (product, amount) values (2, 1)");
    EXPECT_EQ(differences(), "none");
}

TEST_F(StreamImmediate, a_writer_who_does_not_want_to_wait_stops_nothing) {
    create("totals",
           "select p.name, count(*) as n from products p join lines l on l.product = p.id group by p.name",
           "IMMEDIATE");
    Connection other(url_);
    other.exec("begin; lock table baton_internal.stream_outboxes in access exclusive mode");
    db_->exec("set lock_timeout = '100ms'; alter table lines alter amount set default 1");
    try {
        db_->exec("insert into lines (product, amount) values (2, 1)");
        ADD_FAILURE() << "somebody has a lock";
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "55P03");
    }
    other.exec("rollback");
    db_->exec("insert into lines (product, amount) values (2, 1)");
    EXPECT_EQ(differences(), "none");
}

// What a writer does who waits for somebody who is dropping something.
class WriterBehindDrop : public StreamImmediate, public testing::WithParamInterface<const char*> {};

TEST_P(WriterBehindDrop, goes_on) {
    create("totals",
           "select p.name, count(*) as n from products p join lines l on l.product = p.id group by p.name",
           "IMMEDIATE");
    db_->exec("alter table lines drop constraint lines_product_fkey");
    Connection writer(url_);
    const std::string pid = writer.value("select pg_backend_pid()");
    writer.exec("insert into lines (product, amount) values (1, 1)");
    db_->exec("begin; drop table " + std::string(GetParam()));
    std::string failure;
    auto writing = std::async(std::launch::async, [&] {
        try {
            writer.exec("insert into lines (product, amount) values (2, 1)");
        } catch (const SqlError& error) {
            failure = error.what();
        }
    });
    Connection watcher(url_);
    wait_until("the writer waits",
               [&] { return watcher.value("select cardinality(pg_blocking_pids($1)) > 0", {pid}) == "t"; });
    db_->exec("commit");
    writing.get();
    EXPECT_EQ(failure, "");
    EXPECT_EQ(db_->value("select count(*) from lines"), "42");
}

INSTANTIATE_TEST_SUITE_P(, WriterBehindDrop, testing::Values("totals", "products cascade"));

// A writer deletes what everybody has seen of its own changes, too: nobody else knows these yet.
TEST_F(StreamImmediate,
       changes_that_a_writer_deletes_are_not_missed_by_a_stream_table_that_is_made_meanwhile) {
    create("first", "select id, amount from lines", "IMMEDIATE");
    Connection writer(url_);
    writer.exec("begin; insert into lines (product, amount) select 1, n from generate_series(1, 1500) n");
    writer.exec("insert into lines (product, amount) values (1, 0)");
    const auto buffer = writer.value("select baton_internal.change_buffer('lines')");
    EXPECT_EQ(writer.value("select count(*) from " + buffer), "1") << "the statement before was seen";
    Connection maker(url_);
    const auto pid = maker.value("select pg_backend_pid()");
    auto making = std::async(std::launch::async, [&] {
        for (bool made = false; !made;) try {
                maker.exec(
                    "select baton.create_stream_table('second', 'select id, amount from lines', null, "
                    "'DIFFERENTIAL')");
                made = true;
            } catch (const SqlError& error) {
                ASSERT_EQ(error.sqlstate(), "55P03") << error.what();
            }
    });
    wait_until("the maker waits",
               [&] { return db_->value("select cardinality(pg_blocking_pids($1)) > 0", {pid}) == "t"; });
    writer.exec("update lines set amount = -1 where id < 5; commit");
    making.get();
    db_->exec("select baton.refresh_stream_table('second')");
    EXPECT_EQ(differences(), "none");
    writer.exec(
        "insert into lines (product, amount) select 1, n from generate_series(1, 1500) n;"
        "insert into lines (product, amount) values (1, 0)");
    EXPECT_EQ(db_->value("select count(*) from " + buffer), "1501") << "the second one has not seen them";
    db_->exec("select baton.refresh_stream_table('second')");
    EXPECT_EQ(differences(), "none");
}

TEST_F(StreamImmediate, a_partition_is_attached_without_waiting_for_a_writer) {
    db_->exec(
        "create table readings (id int, place int) partition by range (id);"
        "create table low partition of readings for values from (0) to (10);"
        "create table high (id int, place int); insert into high values (11, 1)");
    create("places", "select place, count(*) as n from readings group by place", "IMMEDIATE");
    Connection writer(url_);
    writer.exec("begin; insert into readings values (1, 1)");
    db_->exec("set statement_timeout = '60s'");
    db_->exec("alter table readings attach partition high for values from (10) to (20)");
    writer.exec("commit");
    db_->exec("insert into high values (12, 1)");
    EXPECT_EQ(differences(), "none") << "who writes next brings the rows of the partition along";
    db_->exec("insert into high values (13, 2)");
    EXPECT_EQ(db_->value("select last_mode from baton.stream_table_status('places')"), "DIFFERENTIAL");
    EXPECT_EQ(differences(), "none");
}

// Rows that a session writes as a replica fire row triggers, one after the other, when all are there already.
TEST_F(StreamImmediate, what_a_replica_writes_is_captured_whole_before_a_refresh) {
    Connection& db = *db_;
    db.exec("select pg_replication_origin_create('elsewhere')");
    db.exec(
        "create table numbers (id int primary key, k int, v int);"
        "create table parts (id int, k int) partition by list (k);"
        "create table parts_0 partition of parts for values in (0);"
        "create table parts_1 partition of parts for values in (1, 2)");
    for (const auto* const stream :
         {"'pairs', 'select a.id, b.id as other, a.v + b.v as sum from numbers a join numbers b on a.k = "
          "b.k'",
          "'children', 'select a.id, b.id as other from numbers a left join numbers b on a.id = b.k'",
          "'part_pairs', 'select a.id, b.id as other from parts a join parts b on a.k = b.k'"})
        db.exec("select baton.create_stream_table(" + std::string(stream) + ", null, 'IMMEDIATE')");
    db.exec("set session_replication_role = replica");
    for (const auto* const statement :
         {"insert into numbers select n, n % 3, n from generate_series(1, 18) n",
          "update numbers set v = v + 1 where id in (2, 5, 8, 11)", "update numbers set k = 1 where id < 12",
          "insert into numbers values (2, 2, 2), (20, 2, 2) on conflict (id) do update set v = 0",
          "delete from numbers where id in (1, 4, 7, 10)",
          "insert into parts select n, n % 3 from generate_series(1, 9) n",
          "update parts set k = (k + 1) % 3", "delete from parts_1 where id < 5",
          "truncate numbers, parts_0"}) {
        db.exec(statement);
        EXPECT_EQ(db.value("select coalesce(string_agg(format('%s lacks %s, has %s too many', s.relation, "
                           "v.missing, v.surplus), '; '), 'none') from baton.stream_tables s cross join "
                           "lateral baton.verify_stream_table(s.relation::text) v where v.missing + "
                           "v.surplus > 0"),
                  "none")
            << statement;
    }
    EXPECT_EQ(db.value("select string_agg(distinct last_mode, ' ') from baton.stream_table_status()"),
              "DIFFERENTIAL");
    db.exec("select pg_replication_origin_drop('elsewhere')");
}
