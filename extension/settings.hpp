#pragma once
// The parameters `baton.<name>`.
//
// Those of the SQL core are texts that are empty by default: baton.setting() then takes the stored value or
// the default. What is set is checked here by its kind. The prefix is not reserved: plain-SQL installs of
// other versions on the same server may know parameters that this module does not, and a reserved prefix
// would throw theirs away.

namespace baton::settings {

// Define every parameter; called once, by _PG_init.
void define();

// The scheduler's own, changed by reload.
bool scheduler_enabled();
int scheduler_nap_ms();
int scheduler_workers();

}  // namespace baton::settings
