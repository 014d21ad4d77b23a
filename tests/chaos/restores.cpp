#include "chaos/restores.hpp"

#include <fstream>
#include <thread>

#include "chaos/database.hpp"
#include "support/program.hpp"
#include "support/restores.hpp"

namespace baton::test {

using namespace std::chrono_literals;
using audit::Fault;
using audit::Relays;

namespace {

// How long the old server goes on after the moment to which the new one comes back.
constexpr auto lost_time = 1s;

void clone(Database& database) {
    Cluster copy = database.cluster().copy_files();
    std::this_thread::sleep_for(lost_time);
    database.cluster().server().kill_hard();
    copy.server().start();
    database.move_to(std::move(copy));
}

// The log is archived from here on only, so that each restore has an archive of its own.
void recover_to_a_point(Database& database) {
    Cluster& original = database.cluster();
    LogArchive archive;
    original.server().stop();
    std::ofstream conf(original.server().folder() / "data/postgresql.conf", std::ios::app);
    for (const auto& line : archive.settings()) conf << line << "\n";
    conf << "recovery_target_name = ''\n";
    conf.close();
    original.server().start();
    Cluster copy = original.copy_files();
    archive.mark(original, "here");
    std::this_thread::sleep_for(lost_time);
    original.server().kill_hard();
    archive.recover(copy, "here");
    database.move_to(std::move(copy));
}

void load_dump(Database& database) {
    Cluster made(Form::extension);
    Database::let_in(made);
    const std::string to = made.database_for_restore();
    dump_and_restore(database.url(), to, {.jobs = 2});  // several, so that one snapshot is dumped
    database.cluster().server().kill_hard();
    Connection admin(made.server().url());
    wait_until("the database has its name", [&] {
        try {
            admin.exec("alter database " + to.substr(to.find("dbname=") + 7) + " rename to " +
                       database.name());
            return true;
        } catch (const SqlError& error) {  // a worker looks into it
            if (error.sqlstate() != "55006") throw;
            return false;
        }
    });
    database.move_to(std::move(made));
}

void promote_standby(Database& database) {
    Cluster standby = database.cluster().make_standby();
    wait_for_replay(database.cluster(), standby);
    cut_off(standby);
    std::this_thread::sleep_for(lost_time);
    database.cluster().server().kill_hard();
    promote(standby);
    database.move_to(std::move(standby));
}

void upgrade_cluster(Database& database) {
    Cluster made = upgrade(database.cluster());
    database.move_to(std::move(made));
}

Fault fault_of(Restore restore, Database& database) {
    const auto fault = [&database](const char* name, void (*strike)(Database&)) -> Fault {
        return {name, [&database, strike](Relays&) { strike(database); }};
    };
    switch (restore) {
        case Restore::clone:
            return fault("a copy of the files started in place of the server", clone);
        case Restore::point_in_time:
            return fault("restored to a point in time", recover_to_a_point);
        case Restore::dump:
            return fault("restored from a dump", load_dump);
        case Restore::standby:
            return fault("a standby promoted without the last commits", promote_standby);
        case Restore::upgrade:
            return fault("moved by pg_upgrade", upgrade_cluster);
    }
    throw Error("no such restore");
}

}  // namespace

const std::map<std::string, Restore>& restores() {
    static const std::map<std::string, Restore> all{{"restore-clone", Restore::clone},
                                                    {"restore-point-in-time", Restore::point_in_time},
                                                    {"restore-dump", Restore::dump},
                                                    {"restore-standby", Restore::standby},
                                                    {"restore-upgrade", Restore::upgrade}};
    return all;
}

audit::Report audit_restore(Restore restore, std::chrono::seconds time, unsigned seed,
                            const std::function<void(const std::string&)>& tell) {
    Database database;
    audit::Plan plan;
    plan.db = database.proxied_url();
    plan.program = program_file();
    plan.sink = {{"type", "file"}};
    plan.duration = time;
    plan.relays = 2;
    plan.lease = 3s;
    plan.load.seed = seed;
    plan.load.rate = 400;
    plan.load.retention = 1s;
    plan.load.database_may_lose = restore != Restore::upgrade;
    plan.may_send_what_is_taken_back = restore != Restore::upgrade;
    plan.faults = {fault_of(restore, database), audit::kill_relay()};
    plan.fault_interval = 2s;
    plan.tell = tell;
    return audit::run_audit(plan);
}

}  // namespace baton::test
