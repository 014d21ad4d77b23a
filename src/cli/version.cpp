#include "baton/version.hpp"

#include <iostream>

#include "cli/commands.hpp"

namespace baton::cli {

void add_version(Program& program) {
    program.add("version", "print the version of this program", [] {
        std::cout << "baton " << baton::version() << "\n";
        return done;
    });
}

}  // namespace baton::cli
