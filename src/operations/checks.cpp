#include "operations/checks.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "baton/version.hpp"

namespace baton::operations {

using postgres::Connection;

namespace {

constexpr double clocks_apart = 5;  // seconds that do no harm: leases are longer
constexpr int oldest_server = 140000;

Json finding(const char* severity, const std::string& object, const std::string& what, const std::string& fix,
             const Json& note = nullptr) {
    return {{"severity", severity}, {"object", object}, {"what", what}, {"fix", fix}, {"note", note}};
}

// How far the server's clock is from this machine's: leases and due times are the server's.
double seconds_ahead(Connection& db) {
    const double there = std::stod(db.value("select extract(epoch from clock_timestamp())"));
    return there - std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// What a check that failed says: mostly that this role may not look.
Json could_not_look(Connection& db, const Check& check, const SqlError& error) {
    const bool no_right = error.sqlstate() == "42501";
    const Json note = error.hint().empty() ? Json() : Json(error.hint());
    return Json::array(
        {finding("warning", check.name, std::string("could not look: ") + error.what(),
                 no_right ? "grant baton_operator to " + db.value("select quote_ident(current_user)") + ";"
                          : "baton doctor",
                 note)});
}

Json findings_of(Connection& db, const Check& check) {
    db.exec("savepoint baton_check");
    try {
        Json findings = Json::array();
        if (check.only_if.empty() || db.value("select " + check.only_if) == "t")
            findings = Json::parse(rows_of(db, check.sql));
        db.exec("release savepoint baton_check");
        return findings;
    } catch (const SqlError& error) {
        db.exec("rollback to savepoint baton_check");
        return could_not_look(db, check, error);
    }
}

Json checked_versions(Connection& db) {
    return version_findings(db.value("select version from baton.installation"), std::string(version()),
                            std::stoi(db.value("show server_version_num")));
}

}  // namespace

const std::vector<Check>& checks() {
    static const std::vector<Check> all = [] {
        auto declared = checks_of_events();
        for (auto& check : checks_of_server()) declared.push_back(std::move(check));
        return declared;
    }();
    return all;
}

Json clock_findings(double seconds_ahead) {
    if (std::abs(seconds_ahead) <= clocks_apart) return Json::array();
    return Json::array({finding(
        "warning", "clock",
        fmt::format("the server's clock is {:.0f} s {} this machine's", std::abs(seconds_ahead),
                    seconds_ahead > 0 ? "ahead of" : "behind"),
        "timedatectl set-ntp true", "on the machine whose clock is wrong: let both follow a time server")});
}

Json version_findings(const std::string& installed, const std::string& program, int server) {
    Json findings = Json::array();
    if (installed != program)
        findings.push_back(finding(
            "warning", "version", "the database has baton " + installed + ", this program is " + program,
            "baton init", "where the program is the older one: install that version of it instead"));
    if (server < oldest_server)
        findings.push_back(finding("error", "server",
                                   fmt::format("PostgreSQL {} is not supported: baton needs {} or later",
                                               server / 10000, oldest_server / 10000),
                                   "select version();", "upgrade the server with pg_upgrade"));
    return findings;
}

Json run_checks(Connection& db, bool only_quick) {
    Json all = Json::array();
    for (const auto& check : checks())
        if (check.quick || !only_quick)
            all.push_back({{"check", check.name}, {"findings", findings_of(db, check)}});
    if (only_quick) return all;
    all.push_back({{"check", "versions"}, {"findings", checked_versions(db)}});
    all.push_back({{"check", "clocks"}, {"findings", clock_findings(seconds_ahead(db))}});
    return all;
}

}  // namespace baton::operations
