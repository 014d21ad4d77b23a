#pragma once
// The server is there and does not let us in, or has no such place: its connection is of no use until
// somebody mends login, rights or settings.

#include "baton/error.hpp"
#include "relay/io.hpp"

namespace baton::wire {

class AccessRefused : public ConnectionError {
  public:
    using ConnectionError::ConnectionError;
};

// What that means for a message that could not go.
inline relay::Verdict verdict_on(const std::exception& error) {
    return dynamic_cast<const AccessRefused*>(&error) != nullptr ? relay::Verdict::shut
                                                                 : relay::Verdict::retry;
}

}  // namespace baton::wire
