// Entry point of the module.

#include "doorbell.hpp"
#include "pg/guard.hpp"
#include "scheduler.hpp"
#include "settings.hpp"

extern "C" {
PG_MODULE_MAGIC;
PGDLLEXPORT void _PG_init(void);  // NOLINT(bugprone-reserved-identifier): the server calls it so

void _PG_init(void) {
    baton::pg::enter([] {
        baton::settings::define();
        baton::doorbell::install();
        baton::scheduler::install();
    });
}
}
