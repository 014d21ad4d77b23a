#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/installer.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"

namespace baton::cli {

namespace {

struct InitOptions {
    Target target;
    Mode mode = Mode::automatic;
    bool print_sql = false;
    bool json = false;
    std::string from;
};

// Without a database nothing can be chosen: plain SQL works everywhere.
int print_sql(const InitOptions& options) {
    const Mode form = options.mode == Mode::extension ? Mode::extension : Mode::sql;
    std::cout << (options.from.empty() ? sql_of_fresh(form) : sql_of_upgrade(form, options.from));
    return done;
}

int init(const InitOptions& options) {
    if (options.print_sql) return print_sql(options);
    auto connection = connect(options.target, postgres::Patience::long_work);
    const auto tell = [](const std::string& note) { std::cerr << "note: " << note << "\n"; };
    if (!options.json) {
        std::cout << install(connection, options.mode, tell) << "\n";
        return done;
    }
    const auto before = find_installed(connection);
    const std::string said = install(connection, options.mode, tell);
    const auto now = find_installed(connection).value();
    print_json(std::cout, {{"version", now.version},
                           {"form", now.form == Mode::extension ? "extension" : "sql"},
                           {"before", before ? Json(before->version) : Json(nullptr)},
                           {"said", said}});
    return done;
}

}  // namespace

void add_init(Program& program) {
    auto options = std::make_shared<InitOptions>();
    auto& command =
        program.add("init", "install baton in a database, or upgrade it, and say in which form and why",
                    [options] { return init(*options); });
    add_target(command, options->target);
    add_mode(command, options->mode);
    auto* print = command.add_flag("--print-sql", options->print_sql,
                                   "print the SQL that installs baton where it is not, for a migration, and "
                                   "connect nowhere (plain SQL, unless --mode extension)");
    command.add_flag("--json", options->json, "print JSON, for programs")->excludes(print);
    command.add_option("--from", options->from, "with --print-sql: upgrade from this version instead")
        ->needs(print);
}

}  // namespace baton::cli
