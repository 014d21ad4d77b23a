// A webhook's headers and body: nobody gets in without the secret, and whoever has it does.

#include <map>

#include "base/text.hpp"
#include "brokers/http/webhook_check.hpp"
#include "fuzz.hpp"
#include "wire/encoding.hpp"

using namespace baton;
using brokers::WebhookCheck;
using fuzz::require;

namespace {

constexpr const char* secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
constexpr std::int64_t now = 1'700'000'000;

WebhookCheck check_with(const char* key, const char* value) {
    relay::Settings settings("fuzz");
    settings.set(key, std::string(value));
    return WebhookCheck(settings);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const WebhookCheck by_signature = check_with("secret", secret);
    static const WebhookCheck by_hmac = check_with("hmac_secret", "a secret of theirs");
    static const WebhookCheck by_token = check_with("token", "a-token-of-theirs");
    static const brokers::WebhookSigner signer({secret});
    fuzz::Values values(fuzz::text_of(data, size));
    std::map<std::string, std::string, std::less<>> headers;
    for (const char* name :
         {"webhook-id", "webhook-timestamp", "webhook-signature", "x-hub-signature-256", "authorization"})
        headers[name] = values.next();
    const std::string_view body = values.next();
    const auto header = [&](std::string_view name) -> std::string_view {
        const auto found = headers.find(name);
        return found == headers.end() ? std::string_view() : found->second;
    };
    const auto good = [&](const WebhookCheck& check) {
        return check.judge(header, body, now) == WebhookCheck::Answer::good;
    };
    require(!good(by_signature) && !good(by_hmac), "nobody guesses a signature");
    require(good(by_token) == (headers["authorization"].size() == 24 &&
                               headers["authorization"].ends_with(" a-token-of-theirs")) ||
                !good(by_token),
            "nobody guesses a token");
    headers["webhook-timestamp"] = std::to_string(now);
    headers["webhook-signature"] +=
        " " + signer.sign(headers["webhook-id"], headers["webhook-timestamp"], body);
    require(good(by_signature) == !headers["webhook-id"].empty(), "what is signed gets in");
    headers["x-hub-signature-256"] = "sha256=" + to_hex(wire::hmac_sha256("a secret of theirs", body));
    require(good(by_hmac), "a body with its digest gets in");
    return 0;
}
