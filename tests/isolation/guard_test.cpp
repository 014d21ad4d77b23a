// The border between C++ and the server, crossed in both directions by a module made for that.

#include <gtest/gtest.h>

#include <future>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

// A database with the test module's functions.
std::string database_with_module() {
    Cluster& cluster = shared_cluster(Form::extension);
    const auto module =
        cluster.server().folder() / "guard_module.so";  // where the server's account may read it
    std::filesystem::copy_file(GUARD_MODULE, module, std::filesystem::copy_options::skip_existing);
    const auto url = cluster.empty_database();
    Connection db(url);
    const auto declare = [&](const std::string& signature, const std::string& symbol) {
        db.exec("create function " + signature + " language c strict as '" + module.string() + "', '" +
                symbol + "'");
    };
    declare("guard_throw(text) returns bool", "guard_throw");
    declare("guard_execute(text) returns bigint", "guard_execute");
    declare("guard_retell(text) returns bool", "guard_retell");
    declare("guard_raise_in_loop(int) returns bool", "guard_raise_in_loop");
    declare("guard_living() returns int", "guard_living");
    db.exec(
        "create function fail() returns void language plpgsql as $$ begin raise exception 'the till is "
        "empty' "
        "using errcode = 'BT003', detail = 'nobody paid', hint = 'sell something'; end $$");
    return url;
}

SqlError error_of(Connection& db, const std::string& sql) {
    try {
        db.exec(sql);
    } catch (const SqlError& error) {
        return error;
    }
    throw Error("no error from: " + sql);
}

class Guard : public testing::Test {
  protected:
    int living() { return std::stoi(db.value("select guard_living()")); }

    std::string url = database_with_module();
    Connection db{url};
};

}  // namespace

TEST_F(Guard, an_sql_error_thrown_in_cpp_keeps_sqlstate_detail_and_hint) {
    const auto error = error_of(db, "select guard_throw('sql')");
    EXPECT_STREQ(error.what(), "no such lease");
    EXPECT_EQ(error.sqlstate(), "BT001");
    EXPECT_EQ(error.detail(), "somebody took it");
    EXPECT_EQ(error.hint(), "poll again");
    EXPECT_EQ(living(), 0);
}

TEST_F(Guard, no_exception_escapes_whatever_its_type) {
    EXPECT_EQ(error_of(db, "select guard_throw('memory')").sqlstate(), "53200");
    EXPECT_EQ(error_of(db, "select guard_throw('standard')").sqlstate(), "XX000");
    EXPECT_STREQ(error_of(db, "select guard_throw('standard')").what(), "too far");
    EXPECT_EQ(error_of(db, "select guard_throw('number')").sqlstate(), "XX000");
    const auto usage = error_of(db, "select guard_throw('usage')");
    EXPECT_EQ(usage.sqlstate(), "22023");
    EXPECT_EQ(usage.hint(), "choose another");
    EXPECT_EQ(living(), 0);
}

TEST_F(Guard, a_server_error_passes_through_cpp_unchanged) {
    const auto error = error_of(db, "select guard_execute('select fail()')");
    EXPECT_STREQ(error.what(), "the till is empty");
    EXPECT_EQ(error.sqlstate(), "BT003");
    EXPECT_EQ(error.detail(), "nobody paid");
    EXPECT_EQ(error.hint(), "sell something");
}

TEST_F(Guard, cpp_sees_the_servers_sqlstate_detail_and_hint) {
    const auto error = error_of(db, "select guard_retell('select fail()')");
    EXPECT_STREQ(error.what(), "BT003: the till is empty");
    EXPECT_EQ(error.sqlstate(), "BT002");
    EXPECT_EQ(error.detail(), "nobody paid");
    EXPECT_EQ(error.hint(), "sell something");
}

TEST_F(Guard, the_context_of_an_error_is_told_once) {
    db.exec(
        "create function context_of(sql text) returns text language plpgsql as $$ declare told text; begin "
        "execute sql; return null; exception when others then get stacked diagnostics told = "
        "pg_exception_context; "
        "return told; end $$");
    const auto context = db.value("select context_of($1)", {"select guard_execute('select fail()')"});
    for (const std::string line : {"PL/pgSQL function fail()", "PL/pgSQL function context_of(text)"}) {
        const auto first = context.find(line);
        ASSERT_NE(first, std::string::npos) << context;
        EXPECT_EQ(context.find(line, first + 1), std::string::npos) << context;
    }
}

TEST_F(Guard, destructors_run_when_the_server_raises) {
    EXPECT_EQ(db.value("select guard_execute('select 1')"), "1");
    EXPECT_EQ(living(), 0);
    EXPECT_EQ(error_of(db, "select guard_execute('select 1/0')").sqlstate(), "22012");
    EXPECT_EQ(living(), 0);
    EXPECT_EQ(error_of(db, "select guard_raise_in_loop(1000)").sqlstate(), "22012");
    EXPECT_EQ(living(), 0);
}

TEST_F(Guard, borders_nest) {
    const auto error = error_of(
        db,
        "select guard_execute($a$ select guard_execute($b$ select guard_execute('select fail()') $b$) $a$)");
    EXPECT_EQ(error.sqlstate(), "BT003");
    EXPECT_EQ(living(), 0);
    EXPECT_EQ(db.value("select guard_execute($a$ select guard_execute('select 1 union all select 2') $a$)"),
              "1");
}

TEST_F(Guard, a_cancelled_statement_unwinds) {
    auto running = std::async(std::launch::async,
                              [&] { return error_of(db, "select guard_execute('select pg_sleep(600)')"); });
    Connection observer(url);
    wait_until("the statement sleeps", [&] {
        return observer.value(
                   "select count(*) from pg_stat_activity where pid = $1 and wait_event = 'PgSleep'",
                   {db.backend_pid()}) == "1";
    });
    db.cancel_running();
    EXPECT_EQ(running.get().sqlstate(), "57014");
    EXPECT_EQ(living(), 0);
}

TEST_F(Guard, an_error_can_be_caught_by_a_subtransaction_and_the_transaction_goes_on) {
    db.exec("create table kept (n int)");
    db.exec("begin; insert into kept values (1)");
    db.exec(
        "do $$ begin perform guard_execute('insert into kept values (2); select fail()'); "
        "exception when sqlstate 'BT003' then insert into kept values (3); end $$");
    db.exec("commit");
    EXPECT_EQ(db.value("select string_agg(n::text, ',' order by n) from kept"), "1,3");
    EXPECT_EQ(living(), 0);
}
