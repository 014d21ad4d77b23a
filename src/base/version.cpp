#include "baton/version.hpp"

namespace baton {

const char* version() noexcept {
    return BATON_VERSION;
}

}  // namespace baton
