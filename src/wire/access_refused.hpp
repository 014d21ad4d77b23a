#pragma once
// The server is there and does not let us in, or does not have the destination. The connection is of no use
// until somebody mends login, rights or settings.

#include "baton/error.hpp"
#include "relay/io.hpp"

namespace baton::wire {

class AccessRefused : public ConnectionError {
  public:
    using ConnectionError::ConnectionError;
};

// The verdict on a message that could not go because of this error.
inline relay::Verdict verdict_on(const std::exception& error) {
    return dynamic_cast<const AccessRefused*>(&error) != nullptr ? relay::Verdict::shut
                                                                 : relay::Verdict::retry;
}

}  // namespace baton::wire
