#include "baton/error.hpp"

namespace baton {

bool SqlError::retryable() const noexcept {
    const auto starts_with = [this](const char* prefix) { return sqlstate_.rfind(prefix, 0) == 0; };
    return starts_with("40") || starts_with("53") || starts_with("57P") || starts_with("08") ||
           sqlstate_ == "55P03" || sqlstate_ == "57014";
}

}  // namespace baton
