#pragma once
// Access to a queue of Amazon SQS, or of another server with its JSON protocol: the queue's URL, the
// signature of requests, and the meaning of refusals. Sink and source use it.
//
// Settings: queue (a URL, or a name), account and endpoint (for names; endpoint is AWS's own for the region
// unless given), region (else from the URL or AWS_REGION), access_key, secret_key, session_token, profile
// (else see brokers/sqs/credentials.hpp), and those of every HTTP client.

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "brokers/sqs/credentials.hpp"

namespace baton::brokers {

// What SQS said about a request or an entry.
struct SqsComplaint {
    std::string code;
    std::string message;

    static SqsComplaint read(const wire::HttpResponse& response);
    std::string words() const { return message.empty() ? code : code + ": " + message; }
    bool is(std::initializer_list<std::string_view> parts) const;
    // True for throttling and SQS's own faults, which pass.
    bool passes() const;
    // True when the credentials are at fault: they must be mended or renewed.
    bool concerns_login() const;
    // True when the complaint is about the whole queue, not about one entry.
    bool concerns_queue() const;
};

// Find the entry of a request that a result is about: the result's Id is the entry's place. Nothing when
// there is no such entry.
std::optional<std::size_t> entry_of(const nlohmann::json& result, std::size_t entries);

class SqsAccess {
  public:
    // Throws SettingsError.
    SqsAccess(const relay::Settings& settings, std::int64_t default_concurrency);

    const wire::HttpOptions& options() const { return options_; }
    wire::HttpOptions& options() { return options_; }
    const std::string& endpoint() const { return endpoint_; }
    // Return the URL of a queue, which is given by URL or name. Empty when the URL cannot be made, and when
    // it lies on another host, for which our signature is not meant.
    std::string queue_url(const std::string& queue) const;
    // Make a request whose body is JSON. The request is signed when it is sent. Throws ConnectionError when
    // there are no keys.
    wire::HttpRequest request(const std::string& action, std::string body) const;
    // Make sure that there are keys for the next requests; ask for new keys when it is time. Throws
    // ConnectionError.
    void find_keys() const { credentials_->keys(); }
    // Note that the keys were refused; there may be others.
    void refused() const { credentials_->refused(); }
    // Check that the queue exists. Throws ConnectionError or UsageError.
    void check_queue(const std::string& url) const;

  private:
    wire::HttpOptions options_;
    std::string endpoint_;  // scheme, host and port
    std::string account_;   // needed to make a URL of a name
    std::shared_ptr<AwsCredentials> credentials_;
};

}  // namespace baton::brokers
