#pragma once
// Every command of the program, each in the file of its name.

#include "cli/program.hpp"

namespace baton::cli {

void add_up(Program& program);
void add_audit(Program& program);
void add_demo(Program& program);
void add_down(Program& program);
void add_init(Program& program);
void add_relay(Program& program);
void add_status(Program& program);
void add_version(Program& program);

}  // namespace baton::cli
