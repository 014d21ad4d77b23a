// baton init: what it chooses, what it refuses, and that a failure leaves nothing.

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "baton/version.hpp"
#include "support/catalog.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::test;

namespace {

bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

// A connection string to the same database as another user.
std::string as_user(std::string url, const std::string& user) {
    const auto at = url.find("user=") + 5;
    return url.replace(at, url.find(' ', at) - at, user);
}

Ran init(const std::string& url, std::vector<std::string> more = {}, const Environment& environment = {}) {
    std::vector<std::string> words{"init", "--db", url};
    words.insert(words.end(), more.begin(), more.end());
    return run_baton(words, environment);
}

void expect_refusal(const Ran& ran, const std::string& sentence, const std::string& hint) {
    EXPECT_EQ(ran.exit_code, 1) << ran.errors;
    EXPECT_EQ(ran.output, "");
    EXPECT_TRUE(ran.errors.starts_with("baton: ")) << ran.errors;
    EXPECT_TRUE(contains(ran.errors, sentence)) << ran.errors;
    EXPECT_TRUE(contains(ran.errors, "hint: ") && contains(ran.errors, hint)) << ran.errors;
}

std::string form_in(const std::string& url) {
    Connection db(url);
    if (db.value("select to_regclass('baton.installation') is null") == "t") return "none";
    return db.value("select form || ' ' || version from baton.installation");
}

bool schema_exists(const std::string& url) {
    return Connection(url).value("select to_regnamespace('baton') is not null") == "t";
}

// Make a role that may log in and nothing else.
void make_role(Cluster& cluster, const std::string& name) {
    Connection(cluster.server().url()).exec("create role " + name + " login");
}

const std::string ours = version();

}  // namespace

TEST(Init, chooses_the_extension_where_the_server_has_it) {
    const auto url = shared_cluster(Form::extension).empty_database();
    const auto ran = init(url);
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_TRUE(contains(ran.output, "as an extension: the server has it and \"postgres\" may create it"))
        << ran.output;
    EXPECT_EQ(form_in(url), "extension " + ours);
}

TEST(Init, chooses_plain_sql_for_a_user_who_may_not_create_the_extension) {
    auto& cluster = shared_cluster(Form::extension);
    const auto url = cluster.empty_database();
    make_role(cluster, "modest");
    Connection(url).exec("grant create on database " + Connection(url).value("select current_database()") +
                         " to modest");
    const auto ran = init(as_user(url, "modest"));
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_TRUE(contains(ran.output, "as plain SQL: user \"modest\" may not create the extension"))
        << ran.output;
    EXPECT_EQ(form_in(url), "sql " + ours);
    expect_refusal(init(as_user(url, "modest"), {"--mode", "extension"}), "as plain SQL already",
                   "leave --mode out");
}

TEST(Init, chooses_plain_sql_where_the_server_lacks_the_extension) {
    const auto url = shared_cluster(Form::plain).empty_database();
    expect_refusal(init(url, {"--mode", "extension"}), "the server does not have the extension",
                   "--mode sql");
    EXPECT_EQ(form_in(url), "none");
    const auto ran = init(url);
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_TRUE(contains(ran.output, "as plain SQL: the server does not have the extension")) << ran.output;
    EXPECT_EQ(form_in(url), "sql " + ours);
}

TEST(Init, does_as_told) {
    const auto url = shared_cluster(Form::extension).empty_database();
    const auto ran = init(url, {"--mode", "sql"});
    EXPECT_TRUE(contains(ran.output, "as plain SQL: that was asked for")) << ran.output;
    EXPECT_EQ(form_in(url), "sql " + ours);
}

TEST(Init, twice_is_the_same_as_once) {
    for (const Form form : {Form::extension, Form::plain}) {
        const auto url = shared_cluster(form).empty_database();
        ASSERT_EQ(init(url).exit_code, 0);
        const auto again = init(url);
        EXPECT_EQ(again.exit_code, 0) << again.errors;
        EXPECT_TRUE(contains(again.output, "nothing to do")) << again.output;
    }
}

// Roles belong to the whole server, so one is put aside for this test.
TEST(Init, a_user_who_may_create_no_roles_is_told_what_to_do_and_comes_back) {
    auto& cluster = shared_cluster(Form::plain);
    Connection root(cluster.server().url());
    root.exec("alter role baton_viewer rename to put_aside");
    const auto url = cluster.empty_database();
    make_role(cluster, "humble");
    Connection(url).exec("grant create on database " + Connection(url).value("select current_database()") +
                         " to humble");
    const auto first = init(as_user(url, "humble"));
    EXPECT_EQ(first.exit_code, 0) << first.errors;
    EXPECT_TRUE(contains(first.errors, "these roles were not created") &&
                contains(first.errors, "create role baton_viewer nologin;") &&
                contains(first.errors, "run baton init again"))
        << first.errors;
    EXPECT_FALSE(contains(first.errors, "baton_producer")) << first.errors;
    root.exec("create role baton_viewer nologin");
    const auto second = init(as_user(url, "humble"));
    EXPECT_EQ(second.exit_code, 0) << second.errors;
    EXPECT_TRUE(contains(second.output, "to the new roles baton_viewer")) << second.output;
    EXPECT_EQ(Connection(url).value("select has_schema_privilege('baton_viewer', 'baton', 'usage') and "
                                    "has_table_privilege('baton_viewer', 'baton.pipelines', 'select')"),
              "t");
    EXPECT_TRUE(contains(init(as_user(url, "humble")).output, "nothing to do"));
    Connection(url).exec("drop owned by baton_viewer");
    root.exec("drop role baton_viewer");
    root.exec("alter role put_aside rename to baton_viewer");
}

TEST(Init, two_at_once_install_once) {
    const auto url = shared_cluster(Form::plain).empty_database();
    const TemporaryFolder folder;
    auto one = start_baton({"init", "--db", url}, folder / "one", folder / "one.err");
    auto two = start_baton({"init", "--db", url}, folder / "two", folder / "two.err");
    EXPECT_EQ(one.wait(std::chrono::seconds(60)), 0) << read_text(folder / "one.err");
    EXPECT_EQ(two.wait(std::chrono::seconds(60)), 0) << read_text(folder / "two.err");
    const std::string said = read_text(folder / "one") + read_text(folder / "two");
    EXPECT_TRUE(contains(said, "was installed")) << said;
    EXPECT_TRUE(contains(said, "nothing to do")) << said;
}

TEST(Init, the_other_form_is_refused) {
    const auto url = shared_cluster(Form::extension).fresh_database();
    expect_refusal(init(url, {"--mode", "sql"}), "as an extension already", "leave --mode out");
}

TEST(Init, a_user_who_may_create_no_schema_is_told_what_to_grant) {
    auto& cluster = shared_cluster(Form::plain);
    const auto url = cluster.empty_database();
    make_role(cluster, "weak");
    expect_refusal(init(as_user(url, "weak")), "user \"weak\" may not create a schema",
                   "grant create on database");
    EXPECT_FALSE(schema_exists(url));
}

TEST(Init, empty_schemas_that_an_administrator_made_will_do) {
    auto& cluster = shared_cluster(Form::plain);
    const auto url = cluster.empty_database();
    make_role(cluster, "tenant");
    Connection(url).exec("create schema baton");
    expect_refusal(init(as_user(url, "tenant")), "belongs to \"postgres\"",
                   "alter schema baton owner to \"tenant\"");
    Connection(url).exec("alter schema baton owner to tenant");
    expect_refusal(init(as_user(url, "tenant")), "may not create a schema", "grant create on database");
    Connection(url).exec("create schema baton_internal authorization tenant");
    const auto ran = init(as_user(url, "tenant"));
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_EQ(form_in(url), "sql " + ours);
}

TEST(Init, somebody_elses_schema_is_refused_and_left_alone) {
    for (const char* theirs : {"create table baton.sticks (n int)", "create table baton.installation (n int)",
                               "create function baton.pass() returns int language sql as 'select 1'",
                               "create type baton.kind as enum ('long', 'short')"}) {
        const auto url = shared_cluster(Form::extension).empty_database();
        Connection(url).exec("create schema baton");
        Connection(url).exec(theirs);
        expect_refusal(init(url), "has a schema \"baton\" that is not baton's", "rename that schema");
        EXPECT_EQ(Connection(url).value("select count(*) from pg_extension where extname = 'baton'"), "0");
    }
}

TEST(Init, somebody_elses_internal_schema_is_refused_too) {
    const auto url = shared_cluster(Form::extension).empty_database();
    Connection(url).exec("create schema baton_internal; create table baton_internal.sticks (n int)");
    expect_refusal(init(url), "has a schema \"baton_internal\" that is not baton's", "rename that schema");
}

TEST(Init, a_newer_version_is_not_downgraded) {
    const auto url = shared_cluster(Form::plain).fresh_database();
    Connection(url).exec("update baton.installation set version = '99.0.0'");
    expect_refusal(init(url), "99.0.0", "use a program of that version or later");
    EXPECT_EQ(form_in(url), "sql 99.0.0");
}

TEST(Init, a_version_without_a_way_up_is_refused) {
    const auto url = shared_cluster(Form::plain).fresh_database();
    Connection(url).exec("update baton.installation set version = '0.0.0.1'");
    expect_refusal(init(url), "no way to upgrade from baton 0.0.0.1", "in between");
}

TEST(Init, a_session_that_takes_no_writes_is_refused) {
    const auto url = shared_cluster(Form::plain).empty_database();
    Connection(url).exec("alter database " + Connection(url).value("select current_database()") +
                         " set default_transaction_read_only = on");
    expect_refusal(init(url), "read-only", "default_transaction_read_only");
}

TEST(Init, a_failure_in_the_middle_leaves_nothing) {
    const auto url = shared_cluster(Form::plain).empty_database();
    const TemporaryFolder share;
    write_text(share / "baton.sql",
               read_text(build_folder() / "share/baton/baton.sql") + "\nselect 1 / 0;\n");
    const auto ran = init(url, {}, {{"BATON_SHARE", share.path().string()}});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_TRUE(contains(ran.errors, "division by zero")) << ran.errors;
    EXPECT_FALSE(schema_exists(url));
    EXPECT_EQ(init(url).exit_code, 0);
}

TEST(Init, missing_files_of_its_own_are_named) {
    const TemporaryFolder share;
    expect_refusal(
        init(shared_cluster(Form::plain).empty_database(), {}, {{"BATON_SHARE", share.path().string()}}),
        "baton.sql is missing", "install baton again");
}

TEST(Init, a_user_who_may_not_see_the_installation_is_told) {
    auto& cluster = shared_cluster(Form::plain);
    const auto url = cluster.fresh_database();
    make_role(cluster, "stranger");
    expect_refusal(init(as_user(url, "stranger")), "may not see baton's installation", "baton_viewer");
}

// Another search_path than init's own, and a table in front that has the name of one of ours.
TEST(PrintedSql, makes_what_init_makes_wherever_it_runs) {
    auto& cluster = shared_cluster(Form::plain);
    const auto expected = cluster.empty_database();
    ASSERT_EQ(init(expected).exit_code, 0);
    const auto found = cluster.empty_database();
    Connection(found).exec("create schema app; create table app.settings (n int)");
    const TemporaryFolder folder;
    write_text(folder / "baton.sql", run_baton({"init", "--print-sql"}).output);
    const auto ran = run_separately(
        {.argv = {"psql", "-X", "-1", "-q", "-v", "ON_ERROR_STOP=1", "-f", folder / "baton.sql", found},
         .environment = {{"PGOPTIONS", "-csearch_path=app,public"}}});
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    Connection one(expected);
    Connection two(found);
    EXPECT_EQ(differences(describe_catalog(one), describe_catalog(two)), std::vector<std::string>{});
    EXPECT_TRUE(contains(init(found).output, "nothing to do"));
}

TEST(PrintedSql, is_the_same_every_time_and_needs_no_server) {
    const Environment nowhere{{"BATON_DB", "host=/nonexistent"}};
    const auto printed = run_baton({"init", "--print-sql"}, nowhere);
    EXPECT_EQ(printed.exit_code, 0) << printed.errors;
    EXPECT_EQ(printed.output, read_text(build_folder() / "share/baton/baton.sql"));
    EXPECT_EQ(run_baton({"init", "--print-sql", "--mode", "sql"}, nowhere).output, printed.output);
    EXPECT_EQ(run_baton({"init", "--print-sql", "--mode", "extension"}, nowhere).output,
              "create extension baton version '" + ours + "';\n");
    EXPECT_EQ(run_baton({"init", "--from", ours}).exit_code, 2);
}

TEST(PrintedSql, upgrades_by_the_scripts_in_between) {
    const TemporaryFolder share;
    fs::create_directory(share / "updates");
    write_text(share / "updates" / ("baton--0.0.2--" + ours + ".sql"), "select 2;\n");
    write_text(share / "updates" / "baton--0.0.1--0.0.2.sql", "select 1;\n");
    const Environment environment{{"BATON_SHARE", share.path().string()}};
    const auto print = [&](const std::string& from, const std::string& mode) {
        return run_baton({"init", "--print-sql", "--from", from, "--mode", mode}, environment);
    };
    EXPECT_EQ(print("0.0.1", "sql").output, "select 1;\nselect 2;\n");
    EXPECT_EQ(print("0.0.1", "extension").output, "alter extension baton update to '" + ours + "';\n");
    expect_refusal(print("0.0.0.1", "sql"), "no way to upgrade from baton 0.0.0.1", "in between");
    expect_refusal(print(ours, "sql"), "is this version", "select version from baton.installation");
    expect_refusal(print("99.0", "extension"), "newer than this program",
                   "select version from baton.installation");
}
