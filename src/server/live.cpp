#include "server/live.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace baton::server {

using namespace std::chrono_literals;

namespace {

constexpr auto tick_interval = 2s;
constexpr auto sign_of_life_interval = 15s;
// A page asks again by itself, and then has to show again who asks.
constexpr auto longest_stream = 30min;
constexpr std::size_t most_waiting = 4 << 20;

std::string message_of(const std::string& event, const std::string& data) {
    std::string text = "event: " + event + "\n";
    for (std::size_t at = 0; at <= data.size();) {  // a line break would end the data
        const auto end = std::min(data.find('\n', at), data.size());
        text += "data: " + data.substr(at, end - at) + "\n";
        at = end + 1;
    }
    return text + "\n";
}

}  // namespace

LiveStreams::LiveStreams(std::function<std::string()> tick)
    : tick_(std::move(tick)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

void LiveStreams::stop() {
    thread_.request_stop();
    wake();
    if (thread_.joinable()) thread_.join();
}

LiveStreams::~LiveStreams() {
    stop();
    for (const auto& stream : streams_) ::close(stream.socket);
    for (const int socket : arrived_) ::close(socket);
    ::close(bell_);
}

bool LiveStreams::reserve() {
    auto now = reserved_.load();
    while (now < most)
        if (reserved_.compare_exchange_weak(now, now + 1)) return true;
    return false;
}

void LiveStreams::add(int socket) {
    {
        const std::lock_guard lock(mutex_);
        arrived_.push_back(socket);
    }
    wake();
}

void LiveStreams::send(const std::string& event, const std::string& data) {
    {
        const std::lock_guard lock(mutex_);
        if (told_.size() < most_waiting) told_ += message_of(event, data);
    }
    wake();
}

void LiveStreams::wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(bell_, &one, sizeof one);
}

void LiveStreams::push(Stream& stream, const std::string& text) {
    stream.waiting += text;
    while (stream.open && !stream.waiting.empty()) {
        const auto sent =
            ::send(stream.socket, stream.waiting.data(), stream.waiting.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0)
            stream.waiting.erase(0, static_cast<std::size_t>(sent));
        else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        else if (sent == 0 || errno != EINTR)
            stream.open = false;
    }
    if (stream.waiting.size() > most_waiting) stream.open = false;
}

// A reader has nothing to say but that it goes.
void LiveStreams::look(Stream& stream) {
    std::array<char, 1024> said;
    const auto got = ::recv(stream.socket, said.data(), said.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        stream.open = false;
}

void LiveStreams::drop_closed() {
    const auto now = Clock::now();
    std::erase_if(streams_, [&](const Stream& stream) {
        if (stream.open && now < stream.since + longest_stream) return false;
        ::close(stream.socket);
        --reserved_;
        return true;
    });
}

void LiveStreams::wait_for_news(Clock::time_point until) {
    std::vector<pollfd> waiting{{bell_, POLLIN, 0}};
    for (const auto& stream : streams_)
        waiting.push_back(
            {stream.socket, static_cast<short>(stream.waiting.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    ::poll(waiting.data(), waiting.size(), static_cast<int>(std::max(left.count(), decltype(left)::rep{0})));
    std::uint64_t rung = 0;
    [[maybe_unused]] const auto read = ::read(bell_, &rung, sizeof rung);
    for (std::size_t i = 0; i < streams_.size(); ++i) {
        const auto happened = waiting[i + 1].revents;
        if ((happened & (POLLIN | POLLHUP | POLLERR)) != 0) look(streams_[i]);
        if ((happened & POLLOUT) != 0) push(streams_[i], {});
    }
}

void LiveStreams::take_news() {
    std::vector<int> arrived;
    std::string told;
    {
        const std::lock_guard lock(mutex_);
        arrived.swap(arrived_);
        told.swap(told_);
    }
    if (!told.empty())
        for (auto& stream : streams_) push(stream, told);
    if (arrived.empty()) return;
    const std::string first = message_of("tick", tick_());
    for (const int socket : arrived) {
        streams_.push_back({socket, {}, Clock::now()});
        push(streams_.back(), first);
    }
}

void LiveStreams::work(const std::stop_token& stop) {
    auto next_tick = Clock::now() + tick_interval;
    auto next_sign = Clock::now() + sign_of_life_interval;
    while (!stop.stop_requested()) {
        wait_for_news(std::min(next_tick, next_sign));
        take_news();
        const auto now = Clock::now();
        if (now >= next_tick) {
            next_tick = now + tick_interval;
            const std::string text = streams_.empty() ? "" : message_of("tick", tick_());
            for (auto& stream : streams_) push(stream, text);
        }
        if (now >= next_sign) {
            next_sign = now + sign_of_life_interval;
            for (auto& stream : streams_) push(stream, ": still here\n\n");
        }
        drop_closed();
    }
}

}  // namespace baton::server
