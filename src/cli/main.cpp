#include "cli/commands.hpp"

int main(int argc, char** argv) {
    baton::cli::Program program;
    baton::cli::add_demo(program);
    baton::cli::add_audit(program);
    baton::cli::add_up(program);
    baton::cli::add_down(program);
    baton::cli::add_init(program);
    baton::cli::add_relay(program);
    baton::cli::add_status(program);
    baton::cli::add_version(program);
    return program.run(argc, argv);
}
