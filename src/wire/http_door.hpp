#pragma once
// An HTTP server that nobody can hold up: a request has so much time and so many bytes to arrive, however it
// is sent, and an answer so much time to be taken. While somebody waits for a thread, a request has less
// time, and only so many wait: they take no files from the rest of the process. A request that the server cut
// short is answered with 408 when its time was over, and with 503 when others waited or the server ends:
// whoever sent it may send it again.

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

struct ssl_ctx_st;

namespace baton::wire {

struct DoorLimits {
    std::size_t threads = 8;
    std::size_t waiting = 128;  // connections without a thread; more are closed at once
    std::chrono::milliseconds request_time{5000};
    std::chrono::milliseconds request_time_in_a_crowd{100};
    std::size_t request_bytes = 64 * 1024;  // with its headers, as they come over the wire
    std::size_t requests = 1;               // on one connection
};

class HttpDoor final : public httplib::Server {
  public:
    // With a certificate and its key it speaks TLS. Throws Error.
    explicit HttpDoor(const DoorLimits& limits, const std::string& certificate = {},
                      const std::string& key = {});

    // Listen; 0 is any port. Return the port, or -1 when it cannot be had. Many may knock before they are let
    // in.
    int take_port(const std::string& host, int port);

    // For handlers: the answer is the last one, since the rest of the request is not read.
    static void close_after_answer();

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
    std::atomic<std::size_t> present_{0};  // connections, with a thread or without
};

}  // namespace baton::wire
