#include "cli/commands.hpp"

int main(int argc, char** argv) {
    using namespace baton::cli;
    Program program;
    for (const auto add :
         {add_demo, add_up,     add_down,  add_init,       add_relay, add_dashboard, add_status,
          add_top,  add_doctor, add_look,  add_event,      add_tail,  add_pipelines, add_render,
          add_dead, add_mend,   add_audit, add_completion, add_names, add_version})
        add(program);
    return program.run(argc, argv);
}
