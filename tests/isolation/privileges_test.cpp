// docs/privileges.md says what each role may do. The table in it is what the catalog says, in both install
// forms.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "base/file.hpp"
#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

constexpr const char* begin_mark =
    "<!-- the catalog's words begin: isolation/privileges_test compares them -->\n";
constexpr const char* end_mark = "<!-- the catalog's words end -->\n";

// What each of the five roles may do with an object, as the cells of a row.
using Cells = std::string;
// Heading and object.
using Object = std::pair<std::string, std::string>;

// One row per object that some role may use: heading, object, one column per role.
constexpr const char* question = R"sql(
    with roles (n, name) as (
        values (1, 'baton_producer'), (2, 'baton_consumer'), (3, 'baton_relay'), (4, 'baton_operator'), (5, 'baton_viewer')
    ), objects (place, heading, object, n, action) as (
        select case s.nspname when 'baton' then 1 else 4 end, 'functions of `' || s.nspname || '`', regexp_replace(p.proname, '_[0-9]+$', '_N'), r.n,
               case when bool_or(has_function_privilege(r.name, p.oid, 'execute')) then 'execute' end
          from pg_proc p join pg_namespace s on s.oid = p.pronamespace cross join roles r
         where s.nspname in ('baton', 'baton_internal') group by 1, 2, 3, 4
        union all
        select case s.nspname when 'baton' then 2 when 'baton_internal' then 5 else 3 end,
               case s.nspname when 'public' then 'made with each outbox and inbox' else 'tables and views of `' || s.nspname || '`' end,
               c.relname::text, r.n,
               nullif(concat_ws(', ',
                   case when has_table_privilege(r.name, c.oid, 'select') then 'select'
                        when has_any_column_privilege(r.name, c.oid, 'select') then 'select of some columns' end,
                   case when has_table_privilege(r.name, c.oid, 'insert') then 'insert'
                        when has_any_column_privilege(r.name, c.oid, 'insert') then 'insert of some columns' end,
                   case when has_any_column_privilege(r.name, c.oid, 'update') then 'update' end,
                   case when has_table_privilege(r.name, c.oid, 'delete') then 'delete' end,
                   case when has_table_privilege(r.name, c.oid, 'truncate') then 'truncate' end), '')
          from pg_class c join pg_namespace s on s.oid = c.relnamespace cross join roles r
         where c.relkind in ('r', 'p', 'v') and (s.nspname in ('baton', 'baton_internal')
                                                 or s.nspname = 'public' and c.relname in ('orders', 'payments', 'pending_payments', 'dlq_payments', 'stats_payments'))
    )
    select place || heading, object, string_agg(coalesce(action, ''), ' | ' order by n)
      from objects group by 1, 2 having count(action) > 0 order by 1, 2)sql";

std::map<Object, Cells> ask(Form form) {
    Connection db(shared_cluster(form).fresh_database());
    db.exec("select baton.create_outbox('orders'), baton.create_inbox('payments')");
    std::map<Object, Cells> answer;
    const auto rows = db.query(question);
    for (int row = 0; row < rows.rows(); ++row)
        answer[{rows.text(row, 0), rows.text(row, 1)}] = rows.text(row, 2);
    return answer;
}

// Write the table: objects with the same cells share a row.
std::string write_table(const std::map<Object, Cells>& objects) {
    std::map<std::pair<std::string, Cells>, std::string> lines;
    for (const auto& [object, cells] : objects) {
        std::string& names = lines[{object.first, cells}];
        names += (names.empty() ? "`" : ", `") + object.second + "`";
    }
    std::ostringstream out;
    std::string heading;
    for (const auto& [key, names] : lines) {
        if (key.first != heading) {
            heading = key.first;
            out << "\n### " << heading.substr(1)
                << "\n\n| | producer | consumer | relay | operator | viewer |\n|---|---|---|---|---|---|\n";
        }
        out << "| " << names << " | " << key.second << " |\n";
    }
    out << "\n";
    return out.str();
}

std::filesystem::path page() {
    return std::filesystem::path(BATON_SOURCE) / "docs/privileges.md";
}

std::string read_page() {
    std::ifstream file(page());
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace

TEST(Privileges, the_page_says_what_the_catalog_says) {
    auto objects = ask(Form::extension);
    const auto plain = ask(Form::plain);
    for (const auto& [object, cells] : plain) {
        const auto [known, is_new] = objects.emplace(object, cells);
        EXPECT_EQ(known->second, cells) << object.second << " differs between the install forms";
    }
    std::string text = read_page();
    const auto begin = text.find(begin_mark);
    const auto end = text.find(end_mark);
    ASSERT_NE(begin, std::string::npos);
    ASSERT_NE(end, std::string::npos);
    const auto inside = begin + std::string(begin_mark).size();
    const std::string table = write_table(objects);
    if (std::getenv("BATON_WRITE_PRIVILEGES") != nullptr) {
        std::ofstream(page()) << text.replace(inside, end - inside, table);
        return;
    }
    EXPECT_EQ(text.substr(inside, end - inside), table)
        << "run this test with BATON_WRITE_PRIVILEGES=1 to write the table, and look at what changed";
}

TEST(Privileges, nothing_is_open_to_everybody) {
    for (const Form form : {Form::extension, Form::plain}) {
        Connection db(shared_cluster(form).fresh_database());
        EXPECT_EQ(
            db.value(
                "select count(*) from pg_proc p where p.pronamespace in ('baton'::regnamespace, "
                "'baton_internal'::regnamespace) and has_function_privilege('public', p.oid, 'execute')"),
            "0");
        EXPECT_EQ(db.value("select count(*) from pg_class c where c.relnamespace in ('baton'::regnamespace, "
                           "'baton_internal'::regnamespace) and c.relkind in ('r', 'v', 'p') "
                           "and has_any_column_privilege('public', c.oid, 'select, insert, update')"),
                  "0");
    }
}

// An administrator often lets an application work with every table that is made. Baton's own are no such
// tables: a row in baton.jobs is code that the owner runs.
TEST(Privileges, default_privileges_of_the_installer_open_nothing) {
    for (const Form form : {Form::extension, Form::plain}) {
        Cluster& cluster = shared_cluster(form);
        const auto url = cluster.empty_database();
        const auto app = "app_" + url.substr(url.find("dbname=") + 7);
        Connection db(url);
        db.exec("create role " + app);
        for (const std::string kind : {"tables", "functions", "sequences", "schemas"})
            db.exec("alter default privileges grant all on " + kind + " to public, " + app);
        if (form == Form::extension)
            db.exec("create extension baton");
        else
            db.exec(read_text(local_server::LocalServer::share_folder() / "baton.sql"));
        db.exec("grant usage on schema baton, baton_internal to " + app);
        EXPECT_EQ(db.value("select count(*) from pg_proc p where p.pronamespace in ('baton'::regnamespace, "
                           "'baton_internal'::regnamespace) and has_function_privilege($1, p.oid, 'execute')",
                           {app}),
                  "0");
        EXPECT_EQ(db.value("select count(*) from pg_class c where c.relnamespace in ('baton'::regnamespace, "
                           "'baton_internal'::regnamespace) and c.relkind in ('r', 'v', 'p', 'S') and case "
                           "c.relkind when 'S' then "
                           "has_sequence_privilege($1, c.oid, 'usage, select, update') else "
                           "has_table_privilege($1, c.oid, "
                           "'select, insert, update, delete, truncate') end",
                           {app}),
                  "0");
        // A partition has no row-level security, and tenants of one role are kept apart by that.
        db.exec(
            "select baton.create_outbox('public.events', tenancy => true, partition_interval => '1 "
            "microsecond', "
            "retention => '0', archive_for => '1 day')");
        db.exec("update baton.jobs set enabled = false");
        db.exec("set baton.tenant_id = 'a'; insert into public.events (event_type) values ('e')");
        wait_until("something is archived", [&] {
            db.exec("call baton.run_maintenance()");
            return db.value("select count(*) from baton_internal.outbox_archives") == "1";
        });
        EXPECT_EQ(
            db.value(
                "select string_agg(c.relname, ',') from pg_class c where c.relname like 'events\\_%' and "
                "c.relkind in ('r', 'p') and has_table_privilege($1, c.oid, 'select, insert, update, "
                "delete')",
                {app}),
            "");
        db.exec("drop owned by " + app + "; drop role " + app);
    }
}

TEST(Privileges, no_role_writes_to_a_table_of_batons_own) {
    for (const Form form : {Form::extension, Form::plain}) {
        Connection db(shared_cluster(form).fresh_database());
        EXPECT_EQ(
            db.value("select count(*) from pg_class c cross join pg_roles r where r.rolname like 'baton\\_%' "
                     "and c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) "
                     "and c.relkind in ('r', 'p', 'v') and (has_any_column_privilege(r.oid, c.oid, 'insert, "
                     "update') "
                     "or has_table_privilege(r.oid, c.oid, 'delete, truncate'))"),
            "0");
    }
}
