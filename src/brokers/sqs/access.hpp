#pragma once
// The way to a queue of Amazon SQS, or of what speaks its JSON protocol: its URL, whose signature requests
// carry, and what it says when it refuses. For the sink and for the source.
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
    // Throttling and SQS's own faults pass.
    bool passes() const;
    // Who we are is in doubt, until credentials are mended or renewed.
    bool concerns_login() const;
    // The whole queue is meant, not one entry.
    bool concerns_queue() const;
};

// A member of an answer that is text; empty when it is not there or of another kind.
std::string text_member(const nlohmann::json& object, const char* name);

// Find which of a request's entries a result is about: its Id is the entry's place. Nothing when it is none
// of them.
std::optional<std::size_t> entry_of(const nlohmann::json& result, std::size_t entries);

class SqsAccess {
  public:
    // Throws SettingsError.
    SqsAccess(const relay::Settings& settings, std::int64_t default_concurrency);

    const wire::HttpOptions& options() const { return options_; }
    wire::HttpOptions& options() { return options_; }
    const std::string& endpoint() const { return endpoint_; }
    // Return the URL of a queue given by URL or name; empty when it lies on another host, which our signature
    // is not for, or cannot be made.
    std::string queue_url(const std::string& queue) const;
    // Make a request whose body is JSON; it is signed when it is sent. Throws ConnectionError when there are
    // no keys.
    wire::HttpRequest request(const std::string& action, std::string body) const;
    // Have keys for the next requests, asking for them where that is due. Throws ConnectionError.
    void find_keys() const { credentials_->keys(); }
    // The keys were refused; others may be had.
    void refused() const { credentials_->refused(); }
    // Look whether the queue is there. Throws ConnectionError or UsageError.
    void check_queue(const std::string& url) const;

  private:
    wire::HttpOptions options_;
    std::string endpoint_;  // scheme, host and port
    std::string account_;   // makes a name a URL
    std::shared_ptr<AwsCredentials> credentials_;
};

}  // namespace baton::brokers
