#include "audit/relays.hpp"

#include <signal.h>

#include <algorithm>
#include <thread>

#include "base/file.hpp"
#include "baton/error.hpp"
#include "postgres/connection.hpp"

namespace baton::audit {

using namespace std::chrono_literals;
using postgres::Connection;

Relays::Relay Relays::launch() {
    const auto log = plan_.folder / ("relay-" + std::to_string(++launched_) + ".log");
    Command command;
    command.argv = {plan_.program.string(), "relay", "--db", plan_.db, "--config", plan_.config.string()};
    command.output = log;
    command.environment = plan_.environment;
    command.dies_with_us = true;
    return {Process(command), log};
}

void Relays::start() {
    while (static_cast<int>(relays_.size()) < plan_.count) relays_.push_back(launch());
}

void Relays::stop() {
    for (auto& relay : relays_) relay.process.signal(SIGTERM);
    for (auto& relay : relays_) relay.process.stop(30s);
    relays_.clear();
}

// The name of the relay that has the group, "host:pid:number"; empty when nobody has it.
std::string Relays::owner_name() const {
    Connection db(plan_.admin_db, "baton audit");
    const auto rows = db.query(
        "select owner from baton_internal.group_positions join baton.consumer_groups using (group_id) where "
        "group_name "
        "= $1 and owner is not null and owned_until > clock_timestamp()",
        {plan_.group});
    return rows.empty() ? "" : rows.text(0, 0);
}

Relays::Relay& Relays::owner() {
    std::string name;
    try {
        name = owner_name();
    } catch (const Error&) {  // the server is away: any one will do
    }
    const auto found = std::find_if(relays_.begin(), relays_.end(), [&name](const Relay& relay) {
        return name.find(":" + std::to_string(relay.process.pid()) + ":") != std::string::npos;
    });
    // Where there is no group to own, one after the other.
    return found == relays_.end() ? relays_[static_cast<std::size_t>(turn_++) % relays_.size()] : *found;
}

void Relays::wait_for_owner(std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (owner_name().empty()) {
        check();
        if (std::chrono::steady_clock::now() > deadline)
            throw Error("the relay does not begin: " + log_tail());
        std::this_thread::sleep_for(20ms);
    }
}

void Relays::kill_owner() {
    Relay& victim = owner();
    victim.process.signal(SIGKILL);
    victim.process.wait(10s);
    victim = launch();
}

void Relays::pause_owner(std::chrono::milliseconds time) {
    Relay& victim = owner();
    victim.process.signal(SIGSTOP);
    std::this_thread::sleep_for(time);
    victim.process.signal(SIGCONT);
}

void Relays::cut_database() const {
    Connection db(plan_.admin_db, "baton audit");
    db.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid "
        "<> "
        "pg_backend_pid() and application_name in ('baton relay', 'baton relay ' || $1)",
        {plan_.group});
}

void Relays::check() {
    for (auto& relay : relays_)
        if (!relay.process.running())
            throw Error("a relay has ended by itself: " + last_lines(read_text(relay.log), 3));
}

std::string Relays::log_tail() const {
    return relays_.empty() ? "" : last_lines(read_text(relays_.back().log), 3);
}

}  // namespace baton::audit
