#include "cli/embedded.hpp"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "baton/error.hpp"
#include "cli/program.hpp"
#include "postgres/connection.hpp"

namespace fs = std::filesystem;

namespace baton::cli {

using local_server::LocalServer;
using postgres::Connection;

namespace {

LocalServer::Options server_options(const EmbeddedOptions& options) {
    const bool with_extension =
        options.mode == Mode::extension || (options.mode == Mode::automatic && LocalServer::find_module());
    return {options.folder,
            options.port,
            with_extension,
            true,
            {"max_connections = 200", "max_prepared_transactions = 50"}};
}

// Make the role and its database, with the password that stands in the folder.
void make_role_and_database(const LocalServer& server) {
    Connection admin(server.url());
    const std::string role = app_role;
    const std::string database = app_database;
    if (admin.query("select 1 from pg_roles where rolname = $1", {role}).empty())
        admin.exec("create role " + role + " login superuser");
    admin.exec("alter role " + role + " password " + admin.escape_literal(server.password()));
    if (admin.query("select 1 from pg_database where datname = $1", {database}).empty())
        admin.exec("create database " + database + " owner " + role);
}

// Run the steps from nothing to an installed server; each is skipped when it is done already.
void make_whole(LocalServer& server, const EmbeddedOptions& options, const StopSignal& stop, bool& fresh) {
    if (!server.exists()) print_progress("making a server in " + server.folder().string());
    fresh = server.create();
    stop.check();
    server.start();
    stop.check();
    make_role_and_database(server);
    Connection db(server.url(app_database, app_role), "baton",
                  std::make_shared<postgres::Patience>(postgres::Patience::long_work));
    const std::string summary = install(db, options.mode, [](const std::string&) {});
    if (fresh) print_progress(summary);
    stop.check();
}

// Say a full disk in our words wherever it was met.
[[noreturn]] void rethrow(const fs::path& folder) {
    try {
        throw;
    } catch (const SqlError& error) {
        if (error.sqlstate() == "53100") throw_disk_full(folder);
        throw;
    } catch (const ConnectionError& error) {
        if (says_disk_full(error.what())) throw_disk_full(folder);
        throw;
    }
}

}  // namespace

fs::path default_folder() {
    if (::geteuid() == 0) return "/var/lib/baton";
    if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/')
        return fs::path(state) / "baton";
    const char* home = std::getenv("HOME");
    if (home == nullptr || *home == '\0') {
        const passwd* entry = ::getpwuid(::geteuid());
        home = entry != nullptr ? entry->pw_dir : "/nonexistent";
    }
    return fs::path(home) / ".local/state/baton";
}

std::string app_url(const LocalServer& server) {
    return server.tcp_url(app_database, app_role);
}

Embedded bring_up(const EmbeddedOptions& options, const StopSignal& stop) {
    Embedded embedded{LocalServer(server_options(options)), false};
    LocalServer& server = embedded.server;
    const FolderLock lock = server.lock();
    embedded.was_running = server.running();
    if (embedded.was_running) return embedded;
    bool fresh = false;
    try {
        make_whole(server, options, stop, fresh);
    } catch (...) {
        const bool disk_full = says_disk_full(server.log_tail(20));
        if (fresh)
            server.remove();
        else
            server.stop();
        if (disk_full) throw_disk_full(server.folder());
        rethrow(server.folder());
    }
    return embedded;
}

}  // namespace baton::cli
