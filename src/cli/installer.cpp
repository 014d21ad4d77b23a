#include "cli/installer.hpp"

#include <map>
#include <vector>

#include "base/file.hpp"
#include "baton/error.hpp"
#include "baton/version.hpp"
#include "cli/updates.hpp"
#include "local_server/local_server.hpp"

namespace fs = std::filesystem;

namespace baton::cli {

using local_server::LocalServer;
using postgres::Connection;

namespace {

// A schema that baton will fill, as it stands now.
struct Schema {
    std::string name;
    bool exists;
    bool empty;
    bool owned;  // by a role whose rights we have
    std::string owner;
};

// Whom we are and what the database lets us do.
struct Surroundings {
    std::string user;
    std::string database;
    bool superuser;
    bool may_create_schema;
    std::optional<std::string> offered;  // the extension's version in the server, ours when it has that
    bool extension_trusted;
    std::vector<Schema> schemas;
};

std::vector<Schema> look_at_schemas(Connection& db) {
    const auto rows = db.query(R"(
        select s.name, n.oid is not null,
               not exists (select from pg_class where relnamespace = n.oid)
                 and not exists (select from pg_proc where pronamespace = n.oid)
                 and not exists (select from pg_type where typnamespace = n.oid),
               coalesce(pg_has_role(n.nspowner, 'usage'), false), coalesce(pg_get_userbyid(n.nspowner), '')
          from (values ('baton'), ('baton_internal')) s (name) left join pg_namespace n on n.nspname = s.name)");
    std::vector<Schema> schemas;
    for (int row = 0; row < rows.rows(); ++row)
        schemas.push_back({rows.text(row, 0), rows.boolean(row, 1), rows.boolean(row, 2),
                           rows.boolean(row, 3), rows.text(row, 4)});
    return schemas;
}

Surroundings look_around(Connection& db) {
    const auto row = db.query(R"(
        select current_user, current_database(), coalesce(u.rolsuper, false),
               has_database_privilege(current_database(), 'create'),
               coalesce(e.version, (select default_version from pg_available_extensions where name = 'baton')),
               coalesce(e.trusted, false)
          from (values (1)) one
          left join pg_roles u on u.rolname = current_user
          left join pg_available_extension_versions e on e.name = 'baton' and e.version = $1)",
                              {baton::version()});
    return {row.text(0, 0),          row.text(0, 1),    row.boolean(0, 2),  row.boolean(0, 3),
            row.optional_text(0, 4), row.boolean(0, 5), look_at_schemas(db)};
}

const char* words_for(Mode form) {
    return form == Mode::extension ? "as an extension" : "as plain SQL";
}

std::string in_database(const Surroundings& here) {
    return "in database \"" + here.database + "\"";
}

// Refuse a server that takes no writes.
void check_writable(Connection& db) {
    if (db.value("select pg_is_in_recovery()") == "t")
        throw Error("the server is a standby and takes no writes", "connect to the primary");
    if (db.value("show transaction_read_only") == "on")
        throw Error("this session is read-only",
                    "connect with a user or to a server whose default_transaction_read_only is off");
}

// Refuse to make the schemas where we may not, or where somebody else's stand.
void check_room(const Surroundings& here) {
    for (const Schema& schema : here.schemas) {
        if (!schema.exists) {
            if (here.may_create_schema) continue;
            throw Error("user \"" + here.user + "\" may not create a schema " + in_database(here),
                        "let an administrator run: grant create on database \"" + here.database + "\" to \"" +
                            here.user + "\"");
        }
        if (!schema.empty)
            throw Error(
                "database \"" + here.database + "\" has a schema \"" + schema.name + "\" that is not baton's",
                "rename that schema, or install in another database");
        if (!schema.owned)
            throw Error("the empty schema \"" + schema.name + "\" belongs to \"" + schema.owner + "\"",
                        "let its owner run: alter schema " + schema.name + " owner to \"" + here.user + "\"");
    }
}

struct Choice {
    Mode form;
    std::string reason;
};

// Choose the form of a new installation.
Choice choose_form(const Surroundings& here, Mode mode) {
    const bool offered = here.offered == baton::version();
    const bool allowed = here.superuser || (here.extension_trusted && here.may_create_schema);
    std::string obstacle;
    if (!here.offered)
        obstacle = "the server does not have the extension";
    else if (!offered)
        obstacle = "the server has the extension in version " + *here.offered;
    else if (!allowed)
        obstacle = "user \"" + here.user + "\" may not create the extension, though the server has it";
    if (mode == Mode::sql) return {Mode::sql, "that was asked for"};
    if (obstacle.empty())
        return {Mode::extension, mode == Mode::extension
                                     ? "that was asked for"
                                     : "the server has it and \"" + here.user + "\" may create it"};
    if (mode == Mode::automatic) return {Mode::sql, obstacle};
    throw Error("the extension cannot be installed: " + obstacle,
                allowed || !offered ? "install baton's files on the server's machine, or use --mode sql"
                                    : "connect as a superuser, or use --mode sql");
}

std::string share_text(const fs::path& file) {
    std::string text = read_text(LocalServer::share_folder() / file);
    if (text.empty())
        throw Error(
            "baton's file " + file.string() + " is missing from " + LocalServer::share_folder().string(),
            "install baton again");
    return text;
}

// The scripts that lead from one version of the plain form to this program's.
std::optional<std::vector<fs::path>> update_scripts(const std::string& from) {
    return find_updates(LocalServer::share_folder() / "updates", from, baton::version());
}

// Install where nothing is.
std::string install_fresh(Connection& db, const Surroundings& here, Mode mode) {
    check_room(here);
    const Choice choice = choose_form(here, mode);
    db.exec(sql_of_fresh(choice.form));
    return std::string("baton ") + baton::version() + " was installed " + in_database(here) + " " +
           words_for(choice.form) + ": " + choice.reason;
}

// Refuse the other form, a newer version, and objects of somebody else.
void check_upgrade(Connection& db, const Surroundings& here, const Installed& installed, Mode mode) {
    if (mode != Mode::automatic && mode != installed.form)
        throw Error("baton " + installed.version + " is installed " + in_database(here) + " " +
                        words_for(installed.form) + " already",
                    std::string("leave --mode out to upgrade it in that form"));
    if (compare_versions(installed.version, baton::version()) > 0)
        throw Error("baton " + installed.version + " is installed " + in_database(here) +
                        ", which is newer than this program (" + baton::version() + ")",
                    "use a program of that version or later");
    if (compare_versions(installed.version, baton::version()) == 0) return;
    const bool owned = installed.form == Mode::extension
                           ? here.superuser
                           : db.value(
                                 "select pg_has_role(relowner, 'usage') from pg_class where oid = "
                                 "'baton.installation'::regclass") == "t";
    if (!owned)
        throw Error("user \"" + here.user + "\" may not upgrade baton " + in_database(here),
                    installed.form == Mode::extension ? "connect as a superuser"
                                                      : "connect as the user who installed it");
}

// Roles that an administrator made after the installation have no privileges yet. Returns their names.
std::string grant_to_new_roles(Connection& db) {
    const std::string fresh = db.value(
        "select coalesce(string_agg(distinct p.role_name, ', '), '') from baton_internal.role_privileges p "
        "where to_regrole(p.role_name) is not null "
        "and not has_schema_privilege(to_regrole(p.role_name)::oid, 'baton', 'usage')");
    if (!fresh.empty()) db.exec("select baton.grant_roles()");
    return fresh;
}

Error no_way(const std::string& from) {
    return Error("there is no way to upgrade from baton " + from + " to " + baton::version(),
                 "upgrade to a version in between first; CHANGELOG.md names them");
}

// Upgrade what is there.
std::string upgrade(Connection& db, const Surroundings& here, const Installed& installed, Mode mode) {
    check_upgrade(db, here, installed, mode);
    if (compare_versions(installed.version, baton::version()) == 0) {
        const std::string roles = grant_to_new_roles(db);
        return "baton " + installed.version + " is installed " + in_database(here) + " " +
               words_for(installed.form) + " already: " +
               (roles.empty() ? "nothing to do" : "granted what belongs to them to the new roles " + roles);
    }
    if (installed.form == Mode::extension) {
        if (here.offered != baton::version())
            throw Error(
                std::string("the server does not have the extension's files of version ") + baton::version(),
                "install this version's files on the server's machine first");
        if (db.query("select 1 from pg_extension_update_paths('baton') where source = $1 and target = $2 and "
                     "path is not null",
                     {installed.version, baton::version()})
                .empty())
            throw no_way(installed.version);
    }
    db.exec(sql_of_upgrade(installed.form, installed.version));
    return "baton was upgraded from " + installed.version + " to " + baton::version() + " " +
           in_database(here) + " " + words_for(installed.form) + ": the form it was installed in";
}

}  // namespace

void add_mode(CLI::App& command, Mode& mode) {
    static const std::map<std::string, Mode> modes{
        {"auto", Mode::automatic}, {"extension", Mode::extension}, {"sql", Mode::sql}};
    command
        .add_option_function<std::string>(
            "--mode", [&mode](const std::string& word) { mode = modes.at(word); },
            "extension, sql, or auto: the extension where the server has it (default auto)")
        ->check(CLI::IsMember({"auto", "extension", "sql"}));
}

std::string sql_of_fresh(Mode form) {
    if (form == Mode::extension)
        return std::string("create extension baton version '") + baton::version() + "';\n";
    return share_text("baton.sql");
}

std::string sql_of_upgrade(Mode form, const std::string& from) {
    const int order = compare_versions(from, baton::version());
    if (order >= 0)
        throw Error("baton " + from + " is " + (order == 0 ? "this version" : "newer than this program") +
                        " (" + baton::version() + ")",
                    "name the version that the database has: select version from baton.installation");
    if (form == Mode::extension)
        return std::string("alter extension baton update to '") + baton::version() + "';\n";
    const auto scripts = update_scripts(from);
    if (!scripts) throw no_way(from);
    std::string sql;
    for (const auto& script : *scripts) sql += read_text(script);
    return sql;
}

std::optional<Installed> find_installed(Connection& db) {
    const auto extension = db.query("select extversion from pg_extension where extname = 'baton'");
    if (!extension.empty()) return Installed{extension.text(0, 0), Mode::extension};
    const auto table = db.query(R"(
        select has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
          from pg_namespace n join pg_class c on c.relnamespace = n.oid
         where n.nspname = 'baton' and c.relname = 'installation'
           and (select count(*) from pg_attribute where attrelid = c.oid and attname in ('version', 'form')) = 2)");
    if (table.empty()) return std::nullopt;
    if (!table.boolean(0, 0))
        throw Error("this user may not see baton's installation",
                    "connect as the user who installed it, or as a member of baton_operator or baton_viewer");
    const auto row = db.query("select version from baton.installation where form = 'sql'");
    if (row.empty()) return std::nullopt;
    return Installed{row.text(0, 0), Mode::sql};
}

std::string install(Connection& db, Mode mode, const std::function<void(const std::string&)>& tell) {
    db.on_notice(tell);
    try {
        check_writable(db);
        postgres::Transaction transaction(db);
        db.exec("set local statement_timeout = 0");
        db.exec("set local search_path = pg_catalog, pg_temp");
        // Two installers take turns.
        db.exec("select pg_advisory_xact_lock(hashtextextended('baton.install', 0))");
        const auto here = look_around(db);
        const auto installed = find_installed(db);
        std::string summary = installed ? upgrade(db, here, *installed, mode) : install_fresh(db, here, mode);
        transaction.commit();
        return summary;
    } catch (const ConnectionError& error) {
        throw Error(std::string("the connection broke while installing: ") + error.what(),
                    "run the same command again: it goes on from whatever was done");
    }
}

}  // namespace baton::cli
