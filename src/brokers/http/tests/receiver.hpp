#pragma once
// A real HTTP server that receives webhooks, checks their signatures and misbehaves on demand.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/certificate.hpp"

namespace httplib {
class Server;
struct Request;
struct Response;
}  // namespace httplib

namespace baton::test {

// One request as it came in.
struct WebhookRequest {
    std::string path;
    std::string body;
    std::multimap<std::string, std::string> headers;  // names in lower case, values as sent
    bool signed_well = false;

    // The first value of a header; empty when it is not there.
    std::string header(const std::string& name) const;
};

struct WebhookAnswer {
    int status = 200;
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
};

class WebhookReceiver {
  public:
    explicit WebhookReceiver(std::optional<Certificate> certificate = {});
    ~WebhookReceiver();

    // Listen; after stop() on the same port, with everything received so far.
    void start();
    void stop();
    int port() const { return port_; }

    // Signatures must be by this secret ("whsec_..."), or the answer is 401.
    void require_signature(const std::string& secret) { secret_ = secret; }
    // Decide the answer to each request. Called after the signature's check; only 2xx requests are kept.
    void answer_with(std::function<WebhookAnswer(const WebhookRequest&)> decide);
    // Hold every request from now on before it is answered, and let them go.
    void hold();
    void release();
    std::size_t held() const { return held_; }
    std::size_t most_at_once() const { return most_at_once_; }

    // What was answered with 2xx on this path, oldest first; all paths when it is empty.
    std::vector<WebhookRequest> kept(const std::string& path = {}) const;
    std::size_t requests() const { return requests_; }

  private:
    void handle(const httplib::Request& request, httplib::Response& response);
    bool signature_holds(const WebhookRequest& request) const;

    std::optional<Certificate> certificate_;
    std::unique_ptr<httplib::Server> server_;
    std::thread thread_;
    int port_;
    std::string secret_;
    mutable std::mutex mutex_;
    std::condition_variable released_;
    bool holding_ = false;
    std::function<WebhookAnswer(const WebhookRequest&)> decide_;
    std::vector<WebhookRequest> kept_;
    std::atomic<std::size_t> requests_{0};
    std::atomic<std::size_t> held_{0};
    std::atomic<std::size_t> inside_{0};
    std::atomic<std::size_t> most_at_once_{0};
};

}  // namespace baton::test
