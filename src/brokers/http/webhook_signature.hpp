#pragma once
// Signatures as Standard Webhooks wants them: HMAC-SHA256 over "id.timestamp.body", one per secret.

#include <string>
#include <string_view>
#include <vector>

namespace baton::brokers {

class WebhookSigner {
  public:
    // A secret is "whsec_" and base64 of 24 to 64 bytes. While secrets rotate there are several, and each of
    // them signs. Throws UsageError.
    explicit WebhookSigner(const std::vector<std::string>& secrets);

    bool empty() const { return keys_.empty(); }
    // The value of webhook-signature: "v1,BASE64", separated by spaces.
    std::string sign(std::string_view id, std::string_view timestamp, std::string_view body) const;

  private:
    std::vector<std::string> keys_;
};

}  // namespace baton::brokers
