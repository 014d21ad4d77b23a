#pragma once
// An audit of consumers who are killed by some of the events.

#include "audit/auditor.hpp"

namespace baton::test {

// Every thousandth event kills whoever handles it: each of those must end as a dead letter, and no other, and
// all others must arrive in order. `dead` of the report counts those that are wrong among the dead.
audit::Report audit_poison(std::chrono::seconds time);

}  // namespace baton::test
