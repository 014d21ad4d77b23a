#include "support/proxy.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "baton/error.hpp"

namespace baton::test {

namespace {

constexpr std::size_t buffer_size = 64 * 1024;

sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
}

std::uint64_t steady_microseconds() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
}

void make_plain(int fd) {
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Proxy::Proxy(int target_port) : target_port_(target_port) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_, 128) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
        throw Error("the proxy cannot listen");
    port_ = ntohs(address.sin_port);
    wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
    stop_ = true;
    wake();
    thread_.join();
    for (auto& pair : pairs_) reset(pair);
    ::close(listener_);
    ::close(wake_fd_);
}

void Proxy::wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
}

// Close both ends; unless it is an orderly end, with a reset, so that nobody takes it for one.
void Proxy::reset(Pair& pair, bool orderly) {
    const linger at_once{1, 0};
    for (int* fd : {&pair.client, &pair.server}) {
        if (*fd < 0) continue;
        if (!orderly) ::setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        ::close(*fd);
        *fd = -1;
    }
    pair.broken = true;
}

void Proxy::cut() {
    const std::lock_guard lock(mutex_);
    for (auto& pair : pairs_) reset(pair);
    wake();
}

void Proxy::swallow(Swallow what) {
    const std::lock_guard lock(mutex_);
    swallow_ = what;
    if (what == Swallow::nothing)
        for (auto& pair : pairs_)
            if (pair.lost_bytes) reset(pair);
    wake();
}

void Proxy::freeze() {
    const std::lock_guard lock(mutex_);
    frozen_ = true;
    wake();
}

void Proxy::thaw() {
    const std::lock_guard lock(mutex_);
    frozen_ = false;
    wake();
}

void Proxy::refuse() {
    refuses_ = true;
    cut();
}

void Proxy::heal() {
    thaw();
    refuses_ = false;
    limit(0);
    swallow(Swallow::nothing);
}

bool Proxy::swallows(const Flow& flow) const {
    const Swallow what = swallow_;
    return what == Swallow::everything || (what == Swallow::answers && flow.is_answer);
}

// How many bytes may go to the server now.
std::size_t Proxy::allowance() {
    const std::size_t rate = bytes_per_second_;
    if (rate == 0) return buffer_size;
    const std::uint64_t now = steady_microseconds();
    allowance_from_ = std::max(allowance_from_, now - 100'000);  // at most a tenth of a second is saved up
    return static_cast<std::size_t>((now - std::min(now, allowance_from_)) * rate / 1'000'000);
}

void Proxy::accept_one() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    ++accepted_;
    make_plain(client);
    Pair pair;
    pair.client = client;
    pair.server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const sockaddr_in target = loopback(target_port_);
    if (swallow_ == Swallow::everything) {
        pair.lost_bytes = true;
    } else if (refuses_ ||
               (::connect(pair.server, reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0 &&
                errno != EINPROGRESS)) {  // a server that is slow to accept holds up nobody else
        reset(pair);
        return;
    }
    make_plain(pair.server);
    pair.up = {pair.client, pair.server, std::make_unique<char[]>(buffer_size), 0, 0, false, false};
    pair.down = {pair.server,     pair.client, std::make_unique<char[]>(buffer_size), 0, 0,
                 pair.lost_bytes, true};
    pairs_.push_back(std::move(pair));
}

// Move what can be moved in one direction.
void Proxy::pump(Pair& pair, Flow& flow) {
    if (pair.broken) return;
    if (flow.begin == flow.end && !flow.ended) {
        const std::size_t room = flow.is_answer ? buffer_size : std::min(buffer_size, allowance());
        if (room == 0) return;
        const auto got = ::recv(flow.from, flow.buffer.get(), room, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (swallows(flow) || pair.lost_bytes) {
            pair.lost_bytes = true;
            flow.ended = got <= 0;
            return;
        }
        if (got < 0) return reset(pair);
        if (got == 0) {
            flow.ended = true;
            ::shutdown(flow.to, SHUT_WR);
            return;
        }
        flow.begin = 0;
        flow.end = static_cast<std::size_t>(got);
        if (!flow.is_answer) {
            bytes_from_clients_ += flow.end;
            if (const std::size_t rate = bytes_per_second_; rate > 0)
                allowance_from_ += flow.end * 1'000'000 / rate;
        }
    }
    if (flow.begin < flow.end) {
        const auto sent =
            ::send(flow.to, flow.buffer.get() + flow.begin, flow.end - flow.begin, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) return reset(pair);
        if (sent > 0) flow.begin += static_cast<std::size_t>(sent);
    }
}

void Proxy::run() {
    std::vector<pollfd> polled;
    while (!stop_) {
        polled.assign({{frozen_ ? -1 : listener_, POLLIN, 0}, {wake_fd_, POLLIN, 0}});
        bool throttled = false;
        if (!frozen_) {
            const std::lock_guard lock(mutex_);
            const bool may_read_up = allowance() > 0;
            for (auto& pair : pairs_) {
                for (Flow* flow : {&pair.up, &pair.down}) {
                    if (flow->begin < flow->end)
                        polled.push_back({flow->to, POLLOUT, 0});
                    else if (!flow->ended && !flow->is_answer && !may_read_up)
                        throttled = true;
                    else if (!flow->ended)
                        polled.push_back({flow->from, POLLIN, 0});
                }
            }
        }
        ::poll(polled.data(), polled.size(), throttled ? 10 : -1);
        std::uint64_t rung = 0;
        [[maybe_unused]] const auto got = ::read(wake_fd_, &rung, sizeof rung);
        const std::lock_guard lock(mutex_);
        if (frozen_) continue;
        if ((polled[0].revents & POLLIN) != 0) accept_one();
        for (auto& pair : pairs_) {
            pump(pair, pair.up);
            pump(pair, pair.down);
            const bool done = pair.up.ended && pair.down.ended && !pair.lost_bytes;
            if (done && pair.up.begin == pair.up.end && pair.down.begin == pair.down.end) reset(pair, true);
        }
        pairs_.remove_if([](const Pair& pair) { return pair.broken; });
    }
}

}  // namespace baton::test
