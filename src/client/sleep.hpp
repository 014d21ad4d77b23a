#pragma once
// Sleeping that a stop request ends at once.

#include <chrono>
#include <stop_token>

namespace baton::client {

class Sleep {
  public:
    Sleep();
    ~Sleep();
    Sleep(const Sleep&) = delete;
    Sleep& operator=(const Sleep&) = delete;

    // Sleep until the time is over, a stop is requested, or `socket` (-1: none) is readable. True when the
    // socket is readable.
    bool wait(std::chrono::milliseconds time, const std::stop_token& stop, int socket = -1);

  private:
    int wake_fd_;
};

}  // namespace baton::client
