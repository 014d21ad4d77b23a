#pragma once
// The lease under which a relay works a table of PostgreSQL, seen from the relay.

#include <algorithm>
#include <chrono>

namespace baton::tables {

// A session ends this long before its lease, so that its messages in flight are dropped when a successor
// begins.
constexpr std::chrono::milliseconds lease_margin(std::chrono::milliseconds lease) {
    return std::min(lease / 4, std::chrono::milliseconds(5000));
}

// When the session must be over. `asked` is when the server was asked for the lease, not when it answered.
constexpr std::chrono::steady_clock::time_point session_end(std::chrono::steady_clock::time_point asked,
                                                            std::chrono::milliseconds lease) {
    return asked + lease - lease_margin(lease);
}

}  // namespace baton::tables
