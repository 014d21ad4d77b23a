// Entry point of the module.

#include "doorbell.hpp"
#include "pg/guard.hpp"

extern "C" {
PG_MODULE_MAGIC;
PGDLLEXPORT void _PG_init(void);

void _PG_init(void) {
    baton::pg::enter([] { baton::doorbell::install(); });
}
}
