#include "brokers/http/webhook_check.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/text.hpp"
#include "brokers/http/message.hpp"
#include "wire/encoding.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;

// Compare in a time that does not depend on where they differ.
bool same(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    unsigned char difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        difference = static_cast<unsigned char>(
            difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
    return difference == 0;
}

// Call `take` with each word between spaces until it returns true.
template <class Take>
bool any_word(std::string_view text, const Take& take) {
    while (!text.empty()) {
        const std::size_t space = text.find(' ');
        if (take(text.substr(0, space))) return true;
        if (space == std::string_view::npos) return false;
        text.remove_prefix(space + 1);
    }
    return false;
}

WebhookSigner read_signer(const relay::Settings& settings) {
    std::vector<std::string> secrets =
        settings.has("secret") ? settings.list("secret") : std::vector<std::string>{};
    try {
        return WebhookSigner(secrets);
    } catch (const UsageError& error) {
        settings.refuse("secret", error.what(), error.hint());
    }
}

}  // namespace

WebhookCheck::WebhookCheck(const relay::Settings& settings)
    : signer_(read_signer(settings)),
      hmac_secret_(settings.text("hmac_secret", "")),
      hmac_header_(lower(settings.text("hmac_header", "X-Hub-Signature-256"))),
      token_(settings.text("token", "")) {
    tolerance_ = std::chrono::floor<std::chrono::seconds>(settings.duration("tolerance", 5min));
    if (tolerance_ < 1s) settings.refuse("tolerance", "must be at least 1s");
    for (const auto* key : {"hmac_secret", "token"})
        if (settings.has(key) && settings.text(key).empty()) settings.refuse(key, "is empty");
    if (token_.find('%') != std::string::npos)
        settings.refuse("token", "holds a percent sign", "take one of letters, digits, and - . _ ~ + /");
    const bool open = settings.text("auth", "") == "none";
    const bool guarded = !signer_.empty() || !hmac_secret_.empty() || !token_.empty();
    if (settings.has("auth") && !open)
        settings.refuse("auth", "is \"" + settings.text("auth") + "\"",
                        "write none, or leave it out and set secret, hmac_secret or token");
    if (open && guarded) settings.refuse("auth", "is \"none\" beside a secret", "take one of them out");
    if (!open && !guarded)
        settings.refuse("secret", "is missing",
                        "set secret, hmac_secret or token, or auth = \"none\" to take whatever comes");
}

WebhookCheck::Answer WebhookCheck::judge(const FindHeader& header, std::string_view body,
                                         std::int64_t now) const {
    if (!token_.empty()) {
        constexpr std::string_view scheme = "bearer ";
        const std::string_view given = header("authorization");
        if (given.size() < scheme.size() || lower(given.substr(0, scheme.size())) != scheme ||
            !same(given.substr(scheme.size()), token_))
            return Answer::unauthorised;
    }
    if (!hmac_secret_.empty() && !hmac_holds(header(hmac_header_), body)) return Answer::unauthorised;
    return signer_.empty() ? Answer::good : judge_signature(header, body, now);
}

WebhookCheck::Answer WebhookCheck::judge_signature(const FindHeader& header, std::string_view body,
                                                   std::int64_t now) const {
    const std::string_view id = header("webhook-id");
    const std::string_view time = header("webhook-timestamp");
    const std::string_view signatures = header("webhook-signature");
    if (signatures.empty()) return Answer::unauthorised;
    std::int64_t seconds = 0;
    const auto [end, error] = std::from_chars(time.data(), time.data() + time.size(), seconds);
    if (id.empty() || time.empty() || error != std::errc{} || end != time.data() + time.size())
        return Answer::unreadable;
    // A request that was listened to must not be usable for ever.
    if (seconds < now - tolerance_.count() || seconds > now + tolerance_.count()) return Answer::unauthorised;
    const auto holds = [&](std::string_view sent_id) {
        const std::string ours = signer_.sign(sent_id, time, body);
        return any_word(ours, [&](std::string_view mine) {
            return any_word(signatures, [&](std::string_view theirs) { return same(mine, theirs); });
        });
    };
    // The server has undone the %XX of an id that could not be written as it is; what was sent is signed.
    return holds(id) || holds(encode_header_value(id, false)) ? Answer::good : Answer::unauthorised;
}

bool WebhookCheck::hmac_holds(std::string_view given, std::string_view body) const {
    if (given.starts_with("sha256=")) given.remove_prefix(7);
    const std::string digest = wire::hmac_sha256(hmac_secret_, body);
    return same(lower(given), to_hex(digest)) || same(given, wire::base64_encode(digest));
}

bool WebhookCheck::is_secret(std::string_view name) const {
    return name == "authorization" || name == "webhook-signature" || name == hmac_header_ ||
           name == "cookie" || name == "proxy-authorization";
}

}  // namespace baton::brokers
