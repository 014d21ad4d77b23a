#pragma once
// Checks who sent a webhook: Standard Webhooks signature, plain HMAC, bearer token.

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "brokers/http/webhook_signature.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

class WebhookCheck {
  public:
    // Find a header by its name in lower case; empty when there is none.
    using FindHeader = std::function<std::string_view(std::string_view name)>;
    enum class Answer { good, unreadable, unauthorised };

    // Read secret, tolerance, hmac_secret, hmac_header, token and auth. Throws SettingsError.
    explicit WebhookCheck(const relay::Settings& settings);

    // Judge a request. `now` is in seconds since 1970.
    Answer judge(const FindHeader& header, std::string_view body, std::int64_t now) const;
    // True for headers with a secret of sender and receiver.
    bool is_secret(std::string_view lower_name) const;

  private:
    Answer judge_signature(const FindHeader& header, std::string_view body, std::int64_t now) const;
    bool hmac_holds(std::string_view given, std::string_view body) const;

    WebhookSigner signer_;
    std::chrono::seconds tolerance_{300};
    std::string hmac_secret_;
    std::string hmac_header_;
    std::string token_;
};

}  // namespace baton::brokers
