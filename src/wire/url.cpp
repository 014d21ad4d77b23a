#include "wire/url.hpp"

#include <curl/curl.h>

#include <memory>

#include "base/text.hpp"
#include "baton/error.hpp"

namespace baton::wire {

namespace {

constexpr const char* encoding_hint =
    "percent-encode what is special in a user, a password or a path, as %23 for #";

class Parts {
  public:
    explicit Parts(const std::string& text) : url_(curl_url(), curl_url_cleanup) {
        // A scheme that libcurl does not know, as redis, is none of its business, nor what a path means.
        check(curl_url_set(url_.get(), CURLUPART_URL, text.c_str(),
                           CURLU_NON_SUPPORT_SCHEME | CURLU_PATH_AS_IS));
    }
    // One part as it is written, or nothing when it is not given.
    std::string operator[](CURLUPart part) const {
        char* text = nullptr;
        const CURLUcode code = curl_url_get(url_.get(), part, &text, 0);
        const std::unique_ptr<char, void (*)(void*)> owner(text, curl_free);
        constexpr CURLUcode not_given[] = {CURLUE_NO_USER, CURLUE_NO_PASSWORD, CURLUE_NO_PORT,
                                           CURLUE_NO_QUERY, CURLUE_NO_FRAGMENT};
        for (const auto known : not_given)
            if (code == known) return {};
        check(code);
        return text;
    }

  private:
    static void check(CURLUcode code) {
        if (code == CURLUE_OK) return;
        throw UsageError(std::string("the address cannot be read: ") + curl_url_strerror(code),
                         encoding_hint);
    }
    std::unique_ptr<CURLU, void (*)(CURLU*)> url_;
};

}  // namespace

Url parse_url(std::string_view text) {
    const auto scheme_end = text.find("://");
    if (scheme_end == std::string_view::npos)
        throw UsageError("an address must look like scheme://host:port",
                         "write the scheme and :// before the host");
    if (text.find('\0') != std::string_view::npos)
        throw UsageError("the address has a zero byte in it", encoding_hint);
    const Parts parts{std::string(text)};
    if (!parts[CURLUPART_QUERY].empty() || !parts[CURLUPART_FRAGMENT].empty())
        throw UsageError("the address goes on after its path, with ? or #", encoding_hint);
    Url url;
    url.scheme = parts[CURLUPART_SCHEME];
    // libcurl would decode no control characters.
    url.user = percent_decoded(parts[CURLUPART_USER]);
    url.password = percent_decoded(parts[CURLUPART_PASSWORD]);
    url.host = parts[CURLUPART_HOST];
    if (url.host.starts_with('[')) url.host = url.host.substr(1, url.host.size() - 2);
    if (url.host.empty()) throw UsageError("the address names no host");
    if (const std::string port = parts[CURLUPART_PORT]; !port.empty()) {
        url.port = std::stoi(port);
        if (url.port == 0) throw UsageError("the address has no valid port: 0");
    }
    // libcurl gives an address without a path that of the root; to RabbitMQ these are two virtual hosts.
    url.has_path = text.find('/', scheme_end + 3) != std::string_view::npos;
    if (url.has_path) url.path = percent_decoded(parts[CURLUPART_PATH]).substr(1);
    return url;
}

}  // namespace baton::wire
