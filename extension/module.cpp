// Entry point of the module.

#include "pg/server.hpp"

extern "C" {
PG_MODULE_MAGIC;
PGDLLEXPORT void _PG_init(void);

void _PG_init(void) {}
}
