#pragma once
// The result of an audit, for people and for programs.

#include <string>

#include "audit/auditor.hpp"

namespace baton::audit {

// A table with the findings, and the first ids of each.
std::string as_text(const Report& report);
std::string as_json(const Report& report);

}  // namespace baton::audit
