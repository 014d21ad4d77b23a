#pragma once
// Installing and upgrading baton in a database, in either form, in one transaction.

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "postgres/connection.hpp"

namespace baton::cli {

enum class Mode { automatic, extension, sql };

// Add --mode auto|extension|sql to a command.
void add_mode(CLI::App& command, Mode& mode);

// The SQL that installs this program's version in a database without baton, and the SQL that upgrades from an
// earlier one; form is extension or sql. Whoever runs it does so in one transaction. Throws Error when a file
// is missing, or no way leads from that version to ours.
std::string sql_of_fresh(Mode form);
std::string sql_of_upgrade(Mode form, const std::string& from);

// What a database holds.
struct Installed {
    std::string version;
    Mode form;  // extension or sql
};

// Find out what is installed; empty when baton is not installed.
std::optional<Installed> find_installed(postgres::Connection& db);

// Install this program's version, or upgrade to it. Returns a sentence that says which form was chosen and
// why. Throws Error with a hint and changes nothing when privileges are missing, the server is a standby,
// somebody else has a schema `baton`, or a newer version or the other form is installed. `tell` gets the
// server's notices.
std::string install(postgres::Connection& db, Mode mode, const std::function<void(const std::string&)>& tell);

}  // namespace baton::cli
