#pragma once
// Every command of the program, each in the file of its name; `look` and `mend` have several small ones.

#include "cli/program.hpp"

namespace baton::cli {

void add_audit(Program& program);
void add_completion(Program& program);
void add_dashboard(Program& program);
void add_dead(Program& program);
void add_demo(Program& program);
void add_doctor(Program& program);
void add_down(Program& program);
void add_event(Program& program);
void add_init(Program& program);
void add_look(Program& program);
void add_mend(Program& program);
void add_names(Program& program);
void add_pipelines(Program& program);
void add_relay(Program& program);
void add_render(Program& program);
void add_status(Program& program);
void add_tail(Program& program);
void add_top(Program& program);
void add_up(Program& program);
void add_version(Program& program);

}  // namespace baton::cli
