#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/installer.hpp"
#include "cli/target.hpp"

namespace baton::cli {

namespace {

struct InitOptions {
    Target target;
    Mode mode = Mode::automatic;
};

int init(const InitOptions& options) {
    auto connection = connect(options.target, postgres::Patience::long_work);
    const auto tell = [](const std::string& note) { std::cerr << "note: " << note << "\n"; };
    std::cout << install(connection, options.mode, tell) << "\n";
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
}

}  // namespace baton::cli
