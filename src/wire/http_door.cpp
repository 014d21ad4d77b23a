#include "wire/http_door.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "baton/error.hpp"

namespace baton::wire {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto idle_time = 2s;
constexpr auto look_around = 50ms;  // while bytes are waited for

// What becomes of the connection that this thread serves. No value is zero because mold 1.10 puts a thread's
// zeroes where nothing is mapped: some programs did not start.
enum class Course {
    goes_on = 1,
    last_answer,  // the handler wants no other request
    too_slow,     // the request was cut short: its time was over
    unwelcome,    // ... others wait, or the server ends
    turned_away,  // nobody else may wait
    given_away,   // somebody takes the connection when the answer is written
};
thread_local Course course = Course::goes_on;
thread_local std::unique_ptr<std::function<void(int)>> taker_of_this;

// Whoever was cut short did nothing wrong that the library's 400 could mean.
httplib::Server::HandlerResponse answer_cut_short(const httplib::Request&, httplib::Response& response) {
    if (course != Course::too_slow && course != Course::unwelcome)
        return httplib::Server::HandlerResponse::Unhandled;
    response.status = course == Course::too_slow ? 408 : 503;
    response.set_header("Retry-After", "1");
    response.set_content("the request did not arrive in time: send it again\n", "text/plain; charset=utf-8");
    return httplib::Server::HandlerResponse::Handled;
}

// Wait until the socket is ready; false when the time is over.
bool await(int socket, short events, Clock::time_point until) {
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
        if (left.count() <= 0) return false;
        pollfd waiting{socket, events, 0};
        const int ready = ::poll(&waiting, 1, static_cast<int>(left.count()));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
}

void name_end(int (*get)(int, sockaddr*, socklen_t*), int socket, std::string& ip, int& port) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> service{};
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    if (get(socket, plain, &length) != 0 ||
        ::getnameinfo(plain, length, host.data(), host.size(), service.data(), service.size(),
                      NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    ip = host.data();
    port = std::atoi(service.data());
}

}  // namespace

// The bytes of one connection, within the limits.
class HttpDoor::Flow final : public httplib::Stream {
  public:
    Flow(int socket, const HttpDoor& door) : socket_(socket), door_(door), limits_(door.limits_) {
        begin_request();
        if (door.tls_ == nullptr) return;
        ssl_.reset(SSL_new(door.tls_.get()));
        SSL_set_fd(ssl_.get(), socket);
        open_ = move([this] { return SSL_accept(ssl_.get()); }, POLLIN) > 0;
    }

    bool open() const { return open_; }
    void begin_request() {
        began_ = Clock::now();
        answering_ = false;
        bytes_left_ = limits_.request_bytes;
    }
    // Wait for the next request, unless the server ends or somebody waits for the thread.
    bool another_comes() const {
        const auto until = Clock::now() + idle_time;
        while (door_.svr_sock_ != INVALID_SOCKET && !door_.crowded() && Clock::now() < until)
            if (has_bytes() || await(socket_, POLLIN, Clock::now() + look_around)) return true;
        return false;
    }
    // Say that no more comes, and let the other side hear it: a reset would take the answer with it.
    void end() {
        if (ssl_ && open_) SSL_shutdown(ssl_.get());
        ::shutdown(socket_, SHUT_WR);
        std::array<char, 16384> rest;
        const auto until = Clock::now() + 500ms;
        for (int reads = 0; answering_ && reads < 1000 && !door_.crowded(); ++reads)
            if (!await(socket_, POLLIN, until) ||
                ::recv(socket_, rest.data(), rest.size(), MSG_DONTWAIT) <= 0)
                return;
    }

    bool is_readable() const override { return has_bytes() || wait(POLLIN); }
    bool is_writable() const override { return await(socket_, POLLOUT, Clock::now() + limits_.request_time); }

    ssize_t read(char* to, std::size_t size) override {
        answering_ = false;  // what was written before the end of a request only said that it may go on
        if (first_ == end_) {
            if (bytes_left_ == 0) return -1;
            const auto got = move([this] { return take(); }, POLLIN);
            if (got <= 0) return got;
            first_ = 0;
            end_ = static_cast<std::size_t>(got);
            bytes_left_ -= std::min(bytes_left_, end_);
        }
        const std::size_t count = std::min(size, end_ - first_);
        std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(first_), count, to);
        first_ += count;
        return static_cast<ssize_t>(count);
    }
    ssize_t write(const char* from, std::size_t size) override {
        if (!std::exchange(answering_, true)) answer_began_ = Clock::now();
        return move(
            [&] {
                return ssl_ ? SSL_write(ssl_.get(), from,
                                        static_cast<int>(std::min<std::size_t>(size, 1 << 20)))
                            : ::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
            },
            POLLOUT);
    }
    void get_remote_ip_and_port(std::string& ip, int& port) const override {
        name_end(&::getpeername, socket_, ip, port);
    }
    void get_local_ip_and_port(std::string& ip, int& port) const override {
        name_end(&::getsockname, socket_, ip, port);
    }
    socket_t socket() const override { return socket_; }

  private:
    bool has_bytes() const { return first_ < end_ || (ssl_ && SSL_pending(ssl_.get()) > 0); }
    ssize_t take() {
        return ssl_ ? SSL_read(ssl_.get(), buffer_.data(), static_cast<int>(buffer_.size()))
                    : ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    }
    // Whether what is under way has had its time; of a request it is noted why.
    bool overdue() const {
        const auto time = Clock::now() - (answering_ ? answer_began_ : began_);
        const bool slow = time >= limits_.request_time;
        if (answering_) return slow;
        const bool unwelcome =
            door_.svr_sock_ == INVALID_SOCKET || (door_.crowded() && time >= limits_.request_time_in_a_crowd);
        if (slow || unwelcome) course = slow ? Course::too_slow : Course::unwelcome;
        return slow || unwelcome;
    }
    bool wait(short events) const {
        while (!overdue())
            if (await(socket_, events, Clock::now() + look_around)) return true;
        return false;
    }
    // Try until it moves, waiting for `events` where TLS wants nothing else; what the step returned, -1 when
    // the time is over.
    template <class Step>
    ssize_t move(const Step& step, short events) const {
        for (;;) {
            if (overdue()) return -1;
            ERR_clear_error();
            errno = 0;
            const auto result = static_cast<ssize_t>(step());
            if (result > 0) return result;
            if (ssl_) {
                const int why = SSL_get_error(ssl_.get(), static_cast<int>(result));
                if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return result;
                events = why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
            } else if (result == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
                return result;
            }
            if (!wait(events)) return -1;
        }
    }

    const int socket_;
    const HttpDoor& door_;
    const DoorLimits& limits_;
    std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
    bool open_ = true;
    Clock::time_point began_;  // the request to arrive
    Clock::time_point answer_began_;
    bool answering_ = false;
    std::size_t bytes_left_ = 0;
    std::array<char, 4096> buffer_;
    std::size_t first_ = 0;
    std::size_t end_ = 0;
};

// The threads, and how many connections there are for them.
struct HttpDoor::Queue final : httplib::TaskQueue {
    Queue(std::atomic<std::size_t>& counter, const DoorLimits& limits)
        : present(counter), most(limits.threads + limits.waiting), pool(limits.threads) {}
    void enqueue(std::function<void()> task) override {
        if (present >= most) {
            course = Course::turned_away;
            return task();
        }
        course = Course::goes_on;
        ++present;
        pool.enqueue([this, task = std::move(task)] {
            task();
            --present;
        });
    }
    void shutdown() override { pool.shutdown(); }

    std::atomic<std::size_t>& present;
    const std::size_t most;
    httplib::ThreadPool pool;
};

HttpDoor::HttpDoor(const DoorLimits& limits, const std::string& certificate, const std::string& key)
    : limits_(limits), tls_(nullptr, &SSL_CTX_free) {
    set_keep_alive_max_count(limits_.requests);
    set_keep_alive_timeout(idle_time.count());
    new_task_queue = [this] { return new Queue(present_, limits_); };
    set_error_handler(
        HandlerWithResponse([this](const httplib::Request& request, httplib::Response& response) {
            const auto handled = answer_cut_short(request, response);
            if (handled == HandlerResponse::Unhandled && words_ && response.body.empty())
                words_(request, response);
            return handled;
        }));
    // The library would share the port with whoever listens there already.
    set_socket_options([](int socket) {
        const int yes = 1;
        ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    if (certificate.empty()) return;
    tls_.reset(SSL_CTX_new(TLS_server_method()));
    if (tls_ == nullptr || SSL_CTX_use_certificate_chain_file(tls_.get(), certificate.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(tls_.get(), key.c_str(), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(tls_.get()) != 1)
        throw Error("cannot use the certificate " + certificate, "check tls_cert and tls_key");
    SSL_CTX_set_min_proto_version(tls_.get(), TLS1_2_VERSION);
    SSL_CTX_set_mode(tls_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

int HttpDoor::take_port(const std::string& host, int port) {
    const int taken = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
    // The library lets five wait to be accepted. Who comes then is not heard, and tries again after a second.
    if (taken > 0) ::listen(svr_sock_, SOMAXCONN);
    return taken;
}

void HttpDoor::close_after_answer() {
    if (course == Course::goes_on) course = Course::last_answer;
}

void HttpDoor::give_away(std::function<void(int)> taker) {
    course = Course::given_away;
    taker_of_this = std::make_unique<std::function<void(int)>>(std::move(taker));
}

bool HttpDoor::process_and_close_socket(socket_t socket) {
    if (course == Course::turned_away) return ::close(socket) == 0;
    const int yes = 1;
    ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL, 0) | O_NONBLOCK);
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    {
        Flow flow(socket, *this);
        serve(flow);
    }
    if (const auto taker = std::exchange(taker_of_this, nullptr); taker && course == Course::given_away)
        (*taker)(socket);
    else
        ::close(socket);
    return true;
}

void HttpDoor::serve(Flow& flow) {
    course = Course::goes_on;
    for (std::size_t count = 1; flow.open() && count <= limits_.requests; ++count) {
        if (count > 1) {
            if (!flow.another_comes()) break;
            flow.begin_request();
        }
        bool closed = false;
        // A request for ranges is answered as a whole: many small ranges would make a large answer of a small
        // one.
        const bool answered = process_request(flow, count == limits_.requests, closed,
                                              [](httplib::Request& request) { request.ranges.clear(); });
        if (!answered && course == Course::given_away) course = Course::last_answer;
        if (!answered || closed || course != Course::goes_on) break;
    }
    if (course != Course::given_away) flow.end();
}

}  // namespace baton::wire
