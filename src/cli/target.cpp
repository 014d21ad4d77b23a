#include "cli/target.hpp"

#include <cstdlib>
#include <memory>

#include "baton/error.hpp"
#include "cli/embedded.hpp"

namespace fs = std::filesystem;

namespace baton::cli {

namespace {

constexpr int oldest_server = 140000;

// What --db or else BATON_DB says; empty when neither does.
std::string named_server(const Target& target) {
    if (!target.db.empty()) return target.db;
    const char* given = std::getenv("BATON_DB");
    return target.data_dir.empty() && given != nullptr ? given : "";
}

fs::path embedded_folder(const Target& target) {
    return target.data_dir.empty() ? default_folder() : target.data_dir;
}

// True when libpq can read the address.
bool is_conninfo(const std::string& text) {
    char* said = nullptr;
    const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(
        PQconninfoParse(text.c_str(), &said), &PQconninfoFree);
    const std::unique_ptr<char, decltype(&PQfreemem)> words(said, &PQfreemem);
    return options != nullptr;
}

const char* const address_form = "write it as postgresql://user:password@host:5432/database";

// Say what to do about a connection that failed.
std::string hint_for(const std::string& said) {
    const auto contains = [&said](const char* words) { return said.find(words) != std::string::npos; };
    if (contains("authentication failed") || contains("no password supplied") || contains("pg_hba.conf"))
        return "check the user and the password in the address, and the server's pg_hba.conf";
    if (contains("database \"")) return "create the database first, or name another one in the address";
    if (contains("role \"")) return "create the role first, or name another user in the address";
    return "check the address in --db or BATON_DB and that the server is up, or start one of your own with "
           "baton up";
}

}  // namespace

void add_target(CLI::App& command, Target& target) {
    command
        .add_option("--db", target.db,
                    "URL or connection string of the server (default: BATON_DB, else the embedded one)")
        ->check([](const std::string& text) {
            return is_conninfo(text) ? std::string()
                                     : std::string("not a URL or a connection string; ") + address_form;
        });
    command.add_option("--data-dir", target.data_dir, "talk to the embedded server in this folder");
}

std::string find_server(const Target& target) {
    if (std::string named = named_server(target); !named.empty()) {
        if (!is_conninfo(named))
            throw UsageError("BATON_DB is not a URL or a connection string", address_form);
        return named;
    }
    const fs::path folder = embedded_folder(target);
    const local_server::LocalServer server({folder, 0, false, false, {}});
    if (!server.running())
        throw Error("no server to talk to: none is named, and no embedded server runs in " + folder.string(),
                    "name one with --db or BATON_DB, or start one with baton up --detach");
    return app_url(server);
}

std::string describe(const Target& target) {
    if (!target.db.empty()) return "named by --db";
    if (!named_server(target).empty()) return "named by BATON_DB";
    return "embedded server in " + embedded_folder(target).string();
}

postgres::Connection connect(const Target& target, std::chrono::milliseconds answer) {
    const std::string conninfo = find_server(target);
    try {
        postgres::Connection connection(conninfo, "baton", std::make_shared<postgres::Patience>(answer));
        if (connection.server_version() < oldest_server) {
            const char* version = PQparameterStatus(connection.native(), "server_version");
            throw Error(std::string("the server is PostgreSQL ") +
                            (version != nullptr ? version : "of an unknown version") +
                            ", and baton needs 14 or later",
                        "upgrade the server, or name another one with --db");
        }
        return connection;
    } catch (const ConnectionError& error) {
        throw Error(std::string("cannot connect: ") + error.what(), hint_for(error.what()));
    }
}

}  // namespace baton::cli
