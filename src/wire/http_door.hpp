#pragma once
// An HTTP server that no client can hold up. A request has limits on time and bytes, however it is sent, and
// an answer has a limit on time. While a connection waits for a thread, other requests have less time. The
// number of waiting connections is limited too, so they take no file descriptors from the rest of the
// process. A request that the server cuts short is answered with 408 when its time is over, and with 503 when
// others wait or the server ends: the client may send the request again.

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

struct ssl_ctx_st;

namespace baton::wire {

struct DoorLimits {
    std::size_t threads = 8;
    std::size_t waiting = 128;  // connections without a thread; more are closed at once
    std::chrono::milliseconds request_time{5000};
    std::chrono::milliseconds request_time_in_a_crowd{100};
    std::size_t request_bytes = 64 * 1024;  // of a request with its headers, as they come over the wire
    std::size_t requests = 1;               // requests on one connection
};

class HttpDoor final : public httplib::Server {
  public:
    // With a certificate and its key the server speaks TLS. Throws Error.
    explicit HttpDoor(const DoorLimits& limits, const std::string& certificate = {},
                      const std::string& key = {});

    // Listen on a port; 0 is any port. Returns the port, or -1 when the port cannot be had. Many clients may
    // connect before the first is served.
    int take_port(const std::string& host, int port);

    // For handlers: close the connection after this answer, because the rest of the request is not read.
    static void close_after_answer();
    // For handlers, without TLS: after this answer the connection belongs to `taker`, who closes the socket.
    // The socket does not block.
    static void give_away(std::function<void(int socket)> taker);

    // Word an error that the library found by itself: a request that is not HTTP, or is too long.
    void word_errors(Handler words) { words_ = std::move(words); }

  private:
    class Flow;
    struct Queue;
    using httplib::Server::bind_to_any_port;
    using httplib::Server::bind_to_port;

    bool process_and_close_socket(socket_t socket) override;
    void serve(Flow& flow);
    bool crowded() const { return present_ > limits_.threads; }

    const DoorLimits limits_;
    std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> tls_;
    Handler words_;
    std::atomic<std::size_t> present_{0};  // connections, with a thread or without
};

}  // namespace baton::wire
