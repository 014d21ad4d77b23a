// The libpq wrapper against a real server.

#include <gtest/gtest.h>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

TEST(Connection, an_error_keeps_its_sqlstate_detail_and_hint) {
    Connection db(shared_cluster(Form::plain).empty_database());
    try {
        db.exec(
            "do $$ begin raise exception 'no' using errcode = '22012', detail = 'why', hint = 'how'; end $$");
        FAIL();
    } catch (const SqlError& error) {
        EXPECT_STREQ(error.what(), "no");
        EXPECT_EQ(error.sqlstate(), "22012");
        EXPECT_EQ(error.detail(), "why");
        EXPECT_EQ(error.hint(), "how");
        EXPECT_FALSE(error.retryable());
    }
}

TEST(Connection, a_killed_backend_leaves_the_outcome_in_doubt) {
    const auto url = shared_cluster(Form::plain).empty_database();
    Connection victim(url);
    Connection killer(url);
    killer.query("select pg_terminate_backend($1)", {victim.backend_pid()});
    try {
        wait_until("the connection is gone", [&] {
            victim.exec("select 1");
            return false;
        });
        FAIL();
    } catch (const ConnectionError& error) {
        EXPECT_TRUE(error.in_doubt());
        EXPECT_FALSE(victim.alive());
    }
}

TEST(Connection, why_there_is_none_is_said_on_one_line_for_every_server) {
    try {
        const Connection db("host=127.0.0.1,127.0.0.1 port=1,2 dbname=none");
        FAIL();
    } catch (const ConnectionError& error) {
        EXPECT_STREQ(error.what(),
                     "connection to server at \"127.0.0.1\", port 1 failed: Connection refused; "
                     "connection to server at \"127.0.0.1\", port 2 failed: Connection refused");
    }
}

TEST(Transaction, rolls_back_when_it_goes_out_of_scope) {
    Connection db(shared_cluster(Form::plain).empty_database());
    db.exec("create table t (n int)");
    {
        Transaction tx(db);
        db.exec("insert into t values (1)");
    }
    EXPECT_EQ(db.value("select count(*) from t"), "0");
    {
        Transaction tx(db);
        db.exec("insert into t values (1)");
        tx.commit();
    }
    EXPECT_EQ(db.value("select count(*) from t"), "1");
}

TEST(Transaction, commit_after_a_failed_statement_is_an_error) {
    Connection db(shared_cluster(Form::plain).empty_database());
    Transaction tx(db);
    EXPECT_THROW(db.exec("select 1/0"), SqlError);
    EXPECT_THROW(tx.commit(), SqlError);
}

TEST(Connection, array_literals_survive_quotes_and_backslashes) {
    Connection db(shared_cluster(Form::plain).empty_database());
    const std::vector<std::string> values{"a\"b", "c\\d", "", "NULL", "{e,f}"};
    EXPECT_EQ(db.value("select cardinality($1::text[])", {postgres::array_literal(values)}), "5");
    EXPECT_EQ(db.value("select ($1::text[])[2]", {postgres::array_literal(values)}), "c\\d");
}
