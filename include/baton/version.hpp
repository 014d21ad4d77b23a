#pragma once
// Which baton this is.

#include "baton/export.hpp"

namespace baton {

// The version as MAJOR.MINOR.PATCH; the SQL core and the extension of this build have the same.
BATON_API const char* version() noexcept;

}  // namespace baton
