#pragma once
// HTTP POSTs on libcurl's multi interface. The number of requests under way is bounded, and connections are
// kept and used again.

#include <curl/curl.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "relay/settings.hpp"
#include "wire/byte_stream.hpp"

namespace baton::wire {

struct HttpOptions {
    std::chrono::milliseconds connect_timeout{};
    std::chrono::milliseconds timeout{};
    TlsSettings tls;
    std::size_t max_concurrent = 1;
    bool allow_private =
        true;  // false: connect to public addresses only, judged by what the name resolved to
    std::size_t max_response = 64 * 1024;  // more of an answer is not read
    // The status alone is an answer, also when the body never ends or is cut off by the server.
    bool status_is_enough = false;
    std::string proxy;  // empty: none, whatever the environment says
    std::string sigv4;  // "aws:amz:REGION:SERVICE": requests that have keys are signed with version 4
};

struct SigningKeys {
    std::string access_key;
    std::string secret_key;
    std::string session_token;  // goes into a header; empty: none
};

// Read connect_timeout, timeout, max_concurrent, proxy and tls_*.
HttpOptions read_http_options(const relay::Settings& settings, std::int64_t default_concurrency);

struct HttpRequest {
    std::uint64_t id = 0;
    std::string url;
    std::vector<std::string> headers;  // "Name: value", or "Name;" for an empty value
    std::string_view body;             // lives until the response
    std::string own_body;              // used instead when it is not empty
    std::shared_ptr<const SigningKeys> keys = nullptr;
};

struct HttpResponse {
    std::uint64_t id = 0;
    long status = 0;   // 0: no answer, see error
    std::string body;  // the first max_response bytes
    std::string error;
    // Why there can never be an answer; `no` when there can.
    enum class Hopeless { no, bad_url, refused_address } hopeless = Hopeless::no;
    std::optional<std::chrono::milliseconds> retry_after;
};

class HttpTransfers {
  public:
    explicit HttpTransfers(HttpOptions options);
    ~HttpTransfers();
    HttpTransfers(const HttpTransfers&) = delete;
    HttpTransfers& operator=(const HttpTransfers&) = delete;

    bool full() const { return running_.size() >= options_.max_concurrent; }
    bool idle() const { return running_.empty(); }
    // Start a request. Call this only when not full.
    void start(HttpRequest request);
    // Append the complete responses. Waits up to `patience` for the first response, or for wake().
    void collect(std::vector<HttpResponse>& responses, std::chrono::milliseconds patience);
    // Make a waiting collect() return. May be called from any thread.
    void wake();
    // Send a HEAD request to the URL. Any answer will do. Throws ConnectionError when there is no answer.
    void ask_head(const std::string& url) const;

  private:
    struct Transfer;
    void set_common(Transfer& transfer, const std::string& url) const;
    HttpResponse finish(Transfer& transfer, CURLcode result) const;

    HttpOptions options_;
    std::atomic<bool> woken_{false};
    std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi_;
    std::map<CURL*, std::unique_ptr<Transfer>> running_;
    std::vector<std::unique_ptr<Transfer>> spare_;
};

}  // namespace baton::wire
