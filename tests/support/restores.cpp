#include "support/restores.hpp"

#include <unistd.h>

#include <fstream>

#include "base/file.hpp"

namespace fs = std::filesystem;

namespace baton::test {

namespace {

std::optional<Account> server_account() {
    return ::geteuid() == 0 ? find_account("postgres") : std::nullopt;
}

std::string run_or_throw(const Command& command) {
    const auto outcome = run(command);
    if (outcome.exit_code != 0) throw Error(command.argv[0] + " failed: " + outcome.output);
    return outcome.output;
}

void wait_for_writes(Cluster& cluster) {
    Connection db(cluster.server().url());
    wait_until("the server takes writes", [&] { return db.value("select pg_is_in_recovery()") == "f"; });
}

// The folder of a server's programs, with links to those that pg_upgrade wants and a private server has not.
fs::path programs_of(Cluster& cluster) {
    const std::string said = run_or_throw({.argv = {"pg_config", "--bindir"}});
    const fs::path system = said.substr(0, said.find('\n'));
    for (const auto& entry : fs::recursive_directory_iterator(cluster.server().folder() / "root")) {
        if (entry.path().filename() != "initdb") continue;
        const fs::path folder = entry.path().parent_path();
        for (const auto& program : fs::directory_iterator(system)) {
            const auto link = folder / program.path().filename();
            if (!fs::exists(fs::symlink_status(link))) fs::create_symlink(program.path(), link);
        }
        return folder;
    }
    throw Error("the server has no programs");
}

}  // namespace

LogArchive::LogArchive() {
    fs::permissions(folder_.path(), fs::perms::all);  // the server's account writes into it
}

std::vector<std::string> LogArchive::settings() const {
    return {"wal_level = replica", "archive_mode = on",
            "archive_command = 'cp %p \"" + folder_.path().string() + "/%f\"'"};
}

void LogArchive::mark(Cluster& cluster, const std::string& name) {
    Connection db(cluster.server().url());
    db.query("select pg_create_restore_point($1)", {name});
    const auto segment = db.value("select pg_walfile_name(pg_current_wal_insert_lsn())");
    db.exec("select pg_switch_wal()");
    wait_until("the log is in the archive", [&] { return fs::exists(folder_ / segment); });
}

void LogArchive::recover(Cluster& copy, const std::string& name) const {
    const fs::path data = copy.server().folder() / "data";
    {
        const ActingAs account(server_account());
        write_text(data / "recovery.signal", "");
        std::ofstream(data / "postgresql.conf", std::ios::app)
            << "archive_mode = off\nrestore_command = 'cp \"" << folder_.path().string()
            << "/%f\" \"%p\"'\nrecovery_target_name = '" << name << "'\nrecovery_target_action = 'promote'\n";
    }
    copy.server().start();
    wait_for_writes(copy);
}

std::string same_database(const std::string& url, Cluster& other) {
    return other.server().url(url.substr(url.find("dbname=") + 7),
                              other.form() == Form::plain ? "installer" : "postgres");
}

void wait_for_replay(Cluster& primary, Cluster& standby) {
    const auto end = Connection(primary.server().url()).value("select pg_current_wal_insert_lsn()");
    Connection replica(standby.server().url());
    wait_until("the standby has caught up",
               [&] { return replica.value("select pg_last_wal_replay_lsn() >= $1::pg_lsn", {end}) == "t"; });
}

void cut_off(Cluster& standby) {
    Connection db(standby.server().url());
    db.exec("alter system set primary_conninfo = ''");
    db.exec("select pg_reload_conf()");
    wait_until("the standby receives nothing",
               [&] { return db.value("select count(*) from pg_stat_wal_receiver") == "0"; });
}

void promote(Cluster& standby) {
    Connection(standby.server().url()).exec("select pg_promote()");
    wait_for_writes(standby);
}

void dump_and_restore(const std::string& from, const std::string& to, const Dump& dump) {
    const Folder folder;
    const auto with = [&dump](std::vector<std::string> argv) {
        argv.insert(argv.end(), dump.options.begin(), dump.options.end());
        return argv;
    };
    if (dump.jobs > 1) {
        const auto file = (folder / "dump").string();
        run_or_throw({.argv = with({"pg_dump", "-Fc", "-d", from, "-f", file})});
        run_or_throw({.argv = {"pg_restore", "-e", "--section=pre-data", "-d", to, file}});
        if (dump.between) dump.between("pre-data");
        run_or_throw({.argv = {"pg_restore", "-e", "-j", std::to_string(dump.jobs), "--section=data",
                               "--section=post-data", "-d", to, file}});
        Connection db(to);  // a session ends a moment after the program whose it was
        wait_until("the sessions of pg_restore are gone", [&] {
            return db.value(
                       "select count(*) from pg_stat_activity where datname = current_database() and "
                       "application_name = 'pg_restore'") == "0";
        });
        if (dump.between) dump.between("post-data");
        return;
    }
    const auto file = (folder / "dump.sql").string();
    for (const std::string section : {"pre-data", "data", "post-data"}) {
        run_or_throw({.argv = with({"pg_dump", "-d", from, "--section=" + section, "-f", file})});
        run_or_throw({.argv = {"psql", "-X", "-q", "-v", dump.go_on ? "ON_ERROR_STOP=0" : "ON_ERROR_STOP=1",
                               "-d", to, "-f", file}});
        if (dump.between) dump.between(section);
    }
}

Cluster upgrade(Cluster& old_cluster) {
    Cluster made = old_cluster.make_sibling();
    made.server().start();  // puts the extension's files in
    made.server().stop();
    old_cluster.server().stop();
    const auto new_programs = programs_of(made);
    run_or_throw({.argv = {(new_programs / "pg_upgrade").string(), "-U", "postgres", "-b",
                           programs_of(old_cluster).string(), "-B", new_programs.string(), "-d",
                           (old_cluster.server().folder() / "data").string(), "-D",
                           (made.server().folder() / "data").string()},
                  .account = server_account(),
                  .working_directory = made.server().folder()});
    made.server().start();
    return made;
}

void burn_transaction_ids(Connection& db, int count) {
    db.exec("do $$ begin for i in 1.." + std::to_string(count) +
            " loop perform pg_current_xact_id(); commit; end loop; end $$");
}

}  // namespace baton::test
