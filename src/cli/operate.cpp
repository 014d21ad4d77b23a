#include "cli/operate.hpp"

#include <pwd.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "baton/error.hpp"
#include "cli/installer.hpp"

namespace baton::cli {

namespace {

// Who sits at this machine, for the audit trail.
std::string user_here() {
    const passwd* entry = ::getpwuid(::getuid());
    return entry != nullptr ? entry->pw_name : std::to_string(::getuid());
}

}  // namespace

void add_json(CLI::App& command, Asked& asked) {
    command.add_flag("--json", asked.json, "print JSON, for programs");
}

void add_asked(CLI::App& command, Asked& asked) {
    add_target(command, asked.target);
    add_json(command, asked);
}

Operator::Operator(const Target& target)
    : db_(connect(target, postgres::Patience::usual)), who_(user_here() + " by command") {
    if (!find_installed(db_))
        throw Error("baton is not installed in database \"" + db_.value("select current_database()") + "\"",
                    "install it with baton init");
}

std::string Operator::ask(const std::string& operation, const Json& arguments) {
    return operations::run(operations::find(operation), db_, arguments, who_);
}

Json Operator::look(const std::string& operation, const Json& arguments) {
    return Json::parse(ask(operation, arguments));
}

Json Operator::look_at_all(const std::string& operation) {
    return all_items([&](const Json& arguments) { return look(operation, arguments); });
}

std::string read_given(const std::string& given) {
    if (given == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
    if (!given.starts_with("@")) return given;
    std::ifstream file(given.substr(1));
    if (!file) throw UsageError("cannot read the file " + given.substr(1));
    return {std::istreambuf_iterator<char>(file), {}};
}

bool confirm(const std::string& question) {
    if (::isatty(STDIN_FILENO) == 0) return false;
    std::cerr << question << " [y/N] " << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "yes";
}

}  // namespace baton::cli
