#include "baton/version.hpp"

#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/print.hpp"

namespace baton::cli {

void add_version(Program& program) {
    auto json = std::make_shared<bool>(false);
    auto& command = program.add("version", "print the version of this program", [json] {
        if (*json)
            print_json(std::cout, {{"version", baton::version()}});
        else
            std::cout << "baton " << baton::version() << "\n";
        return done;
    });
    command.add_flag("--json", *json, "print JSON, for programs");
}

}  // namespace baton::cli
