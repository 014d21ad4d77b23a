#include "brokers/http/webhook_signature.hpp"

#include "baton/error.hpp"
#include "wire/encoding.hpp"

namespace baton::brokers {

WebhookSigner::WebhookSigner(const std::vector<std::string>& secrets) {
    constexpr std::string_view prefix = "whsec_";
    for (const auto& secret : secrets) {
        // The secret itself must never stand in a message.
        if (!secret.starts_with(prefix))
            throw UsageError("a webhook secret does not begin with whsec_",
                             "write whsec_ and 24 to 64 random bytes in base64");
        const auto key = wire::base64_decode(std::string_view(secret).substr(prefix.size()));
        if (!key) throw UsageError("a webhook secret is not base64 after whsec_");
        if (key->size() < 24 || key->size() > 64)
            throw UsageError("a webhook secret has " + std::to_string(key->size()) + " bytes",
                             "take 24 to 64 random bytes");
        keys_.push_back(*key);
    }
}

std::string WebhookSigner::sign(std::string_view id, std::string_view timestamp,
                                std::string_view body) const {
    std::string content;
    content.reserve(id.size() + timestamp.size() + body.size() + 2);
    content.append(id).append(".").append(timestamp).append(".").append(body);
    std::string signature;
    for (const auto& key : keys_) {
        if (!signature.empty()) signature += ' ';
        signature += "v1," + wire::base64_encode(wire::hmac_sha256(key, content));
    }
    return signature;
}

}  // namespace baton::brokers
