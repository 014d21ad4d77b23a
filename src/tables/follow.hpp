#pragma once
// Following an owner that is dead, without waiting for its lease.

#include <string>

#include "base/life_sign.hpp"
#include "postgres/connection.hpp"

namespace baton::tables {

// Ask for a table with `take`, which is given the owner that is known to be gone, or nothing. The answer has
// no epoch while somebody else has the table; when that is a process of this machine that has ended, ask once
// more. What such an owner had in flight is sent again, as after any crash.
template <typename Take>
postgres::Result take_or_follow(const Take& take) {
    auto taken = take("");
    if (!taken.is_null(0, taken.column("epoch"))) return taken;
    const std::string holder = taken.text(0, taken.column("held_by"));
    return life_has_ended(holder) ? take(holder) : std::move(taken);
}

}  // namespace baton::tables
