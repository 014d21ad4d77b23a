#pragma once
// The parameters `baton.<name>`.
//
// Parameters of the SQL core are texts that are empty by default: for an empty text baton.setting() takes the
// stored value or the default. A value that is set is checked here by its kind. The prefix is not reserved:
// plain-SQL installs of other versions on the same server may know other parameters, and a reserved prefix
// would remove them.

#include <cstddef>
#include <string_view>

namespace baton::settings {

// Define every parameter; called once, by _PG_init.
void define();

// A parameter of the SQL core, by its place in the table.
std::size_t parameter(std::string_view name);
// Whether this session has given a parameter of the SQL core a value.
bool session_says(std::size_t parameter);

// Parameters of the scheduler. A reload changes them.
bool scheduler_enabled();
int scheduler_nap_ms();
int scheduler_workers();
// How many processes refresh the stream tables of a database at the same time.
int stream_workers();

}  // namespace baton::settings
