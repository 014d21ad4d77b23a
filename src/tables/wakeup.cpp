#include "tables/wakeup.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace baton::tables {

Wakeup::Wakeup() : file_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (file_ < 0) throw std::system_error(errno, std::generic_category(), "cannot make an event file");
}

Wakeup::~Wakeup() {
    ::close(file_);
}

void Wakeup::ring() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto ignored = ::write(file_, &one, sizeof one);
}

void Wakeup::interrupt() {
    interrupted_ = true;
    ring();
}

void Wakeup::wait(Clock::time_point until, std::span<pollfd> others) {
    std::array<pollfd, 4> waiting{};
    waiting[0] = {file_, POLLIN, 0};
    std::copy(others.begin(), others.end(), waiting.begin() + 1);
    const auto time = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    ::poll(waiting.data(), others.size() + 1,
           static_cast<int>(std::clamp<std::int64_t>(time.count(), 0, 60'000)));
    std::copy_n(waiting.begin() + 1, others.size(), others.begin());
    if (waiting[0].revents == 0) return;
    std::uint64_t count = 0;
    [[maybe_unused]] const auto ignored = ::read(file_, &count, sizeof count);
}

}  // namespace baton::tables
