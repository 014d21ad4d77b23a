#pragma once
// The only door to the server's headers. C++ headers come first, because the server's define macros over
// names of the standard library.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// In PostgreSQL 15 this is empty on Linux; entry points must stay visible under -fvisibility=hidden.
#define PGDLLEXPORT __attribute__((visibility("default")))

extern "C" {
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
}

#undef Min
#undef Max
#undef printf
#undef snprintf
#undef fprintf
#undef sprintf
#undef vsnprintf
#undef gettext
