#include "client/sleep.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "baton/error.hpp"

namespace baton::client {

Sleep::Sleep() : wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (wake_fd_ < 0) throw Error("no file descriptor is left to wait on");
}

Sleep::~Sleep() {
    ::close(wake_fd_);
}

bool Sleep::wait(std::chrono::milliseconds time, const std::stop_token& stop, int socket) {
    const std::stop_callback wake(stop, [this] {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto ignored = ::write(wake_fd_, &one, sizeof one);
    });
    std::array<pollfd, 2> waiting{{{wake_fd_, POLLIN, 0}, {socket, POLLIN, 0}}};
    ::poll(waiting.data(), waiting.size(),
           static_cast<int>(std::clamp<std::int64_t>(time.count(), 0, 60'000)));
    return waiting[1].revents != 0;
}

}  // namespace baton::client
