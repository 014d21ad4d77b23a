// Stream tables in mode IMMEDIATE under several writers at once, and what a TRUNCATE does to a refresh in an
// old snapshot.

#include <gtest/gtest.h>

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
