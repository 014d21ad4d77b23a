#include <iostream>
#include <memory>

#include "baton/error.hpp"
#include "baton/version.hpp"
#include "cli/commands.hpp"
#include "cli/installer.hpp"
#include "cli/target.hpp"

namespace baton::cli {

namespace {

using postgres::Connection;

// How many rows a catalog table has; says so when the table is not there or not readable.
std::string count_rows(Connection& db, const std::string& table) {
    const auto readable = db.query(
        "select coalesce(has_table_privilege(to_regclass($1), 'select'), false), to_regclass($1) is not null",
        {table});
    if (!readable.boolean(0, 1)) return "0";
    if (!readable.boolean(0, 0)) return "not visible to this user";
    return db.value("select count(*) from " + table);
}

std::string describe_form(Connection& db, const Installed& installed) {
    if (installed.form == Mode::sql) return "plain SQL";
    const auto preloaded = db.query(
        "select setting ~ '(^|,)\\s*\"?baton\"?\\s*(,|$)' from pg_settings where name = "
        "'shared_preload_libraries'");
    if (preloaded.empty() || preloaded.is_null(0, 0)) return "extension";
    return preloaded.boolean(0, 0) ? "extension, preloaded" : "extension, not preloaded";
}

int status(const Target& target) {
    auto db = connect(target);
    const auto who = db.query("select current_setting('server_version'), current_database(), current_user");
    const auto installed = find_installed(db);
    if (!installed)
        throw Error("baton is not installed in database \"" + who.text(0, 1) + "\"",
                    "install it with baton init");
    std::cout << "server     PostgreSQL " << who.text(0, 0) << ", database \"" << who.text(0, 1) << "\" as \""
              << who.text(0, 2) << "\" (" << describe(target) << ")\n"
              << "installed  " << installed->version << ", " << describe_form(db, *installed) << "\n"
              << "program    " << baton::version() << "\n"
              << "outboxes   " << count_rows(db, "baton.outboxes") << "\n"
              << "inboxes    " << count_rows(db, "baton.inboxes") << "\n";
    return done;
}

}  // namespace

void add_status(Program& program) {
    auto target = std::make_shared<Target>();
    auto& command = program.add("status", "say which server this is and what is installed there",
                                [target] { return status(*target); });
    add_target(command, *target);
}

}  // namespace baton::cli
