#include "wire/http_transfers.hpp"

#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "baton/error.hpp"
#include "wire/address_guard.hpp"

namespace baton::wire {

namespace {

using EasyPtr = std::unique_ptr<CURL, void (*)(CURL*)>;
using ListPtr = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

// Prepare libcurl once per process.
void initialise_curl() {
    static const CURLcode done = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (done != CURLE_OK) throw Error(std::string("libcurl: ") + curl_easy_strerror(done));
}

}  // namespace

struct HttpTransfers::Transfer {
    EasyPtr easy{curl_easy_init(), curl_easy_cleanup};
    ListPtr headers{nullptr, curl_slist_free_all};
    HttpRequest request;
    std::string response;
    char error[CURL_ERROR_SIZE] = "";
    bool allow_private = false;
    std::size_t max_response = 0;
    std::string refused;     // the last address that the guard kept us from
    bool attempted = false;  // some address was allowed
    bool answered = false;   // the whole head of an answer has come: its status holds

    // Open the socket to an address that curl resolved, unless it is a private one.
    static curl_socket_t open_socket(void* self, curlsocktype, curl_sockaddr* address) {
        auto& transfer = *static_cast<Transfer*>(self);
        if (!transfer.allow_private && is_private_address(address->addr)) {
            transfer.refused = show_address(address->addr);
            return CURL_SOCKET_BAD;
        }
        transfer.attempted = true;
        return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    }

    // Note where the head of the answer ends; those of answers before the last one (1xx) do not count.
    static std::size_t take_header(char* bytes, std::size_t, std::size_t size, void* self) {
        auto& transfer = *static_cast<Transfer*>(self);
        long status = 0;
        curl_easy_getinfo(transfer.easy.get(), CURLINFO_RESPONSE_CODE, &status);
        const std::string_view line(bytes, size);
        if ((line == "\r\n" || line == "\n") && status >= 200) transfer.answered = true;
        return size;
    }

    // Keep the beginning of the answer; nobody reads more.
    static std::size_t take_response(char* bytes, std::size_t, std::size_t size, void* self) {
        auto& transfer = *static_cast<Transfer*>(self);
        auto& response = transfer.response;
        response.append(bytes, std::min(size, transfer.max_response - response.size()));
        return response.size() < transfer.max_response ? size : 0;
    }
};

HttpOptions read_http_options(const relay::Settings& settings, std::int64_t default_concurrency) {
    HttpOptions options;
    options.connect_timeout = settings.duration("connect_timeout", std::chrono::seconds(10));
    options.timeout = settings.duration("timeout", std::chrono::seconds(30));
    if (options.timeout.count() == 0) settings.refuse("timeout", "must not be zero");
    const auto concurrent = settings.number("max_concurrent", default_concurrency);
    if (concurrent < 1 || concurrent > 1000) settings.refuse("max_concurrent", "must be between 1 and 1000");
    options.max_concurrent = static_cast<std::size_t>(concurrent);
    options.proxy = settings.text("proxy", "");
    options.tls = read_tls(settings, false);
    return options;
}

HttpTransfers::HttpTransfers(HttpOptions options)
    : options_(std::move(options)), multi_((initialise_curl(), curl_multi_init()), curl_multi_cleanup) {
    if (!multi_) throw Error("libcurl: out of memory");
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(options_.max_concurrent));
}

HttpTransfers::~HttpTransfers() {
    for (auto& [easy, transfer] : running_) curl_multi_remove_handle(multi_.get(), easy);
}

void HttpTransfers::set_common(Transfer& transfer, const std::string& url) const {
    CURL* easy = transfer.easy.get();
    curl_easy_reset(easy);
    transfer.allow_private = options_.allow_private;
    transfer.max_response = options_.max_response;
    transfer.refused.clear();
    transfer.attempted = false;
    transfer.answered = false;
    transfer.error[0] = '\0';
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, options_.proxy.c_str());
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer.error);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count()));
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, Transfer::open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &transfer);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, options_.tls.verify ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, options_.tls.verify ? 2L : 0L);
    if (!options_.tls.ca.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options_.tls.ca.c_str());
    if (!options_.tls.cert.empty()) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, options_.tls.cert.c_str());
        curl_easy_setopt(easy, CURLOPT_SSLKEY, options_.tls.key.c_str());
    }
}

void HttpTransfers::start(HttpRequest request) {
    std::unique_ptr<Transfer> transfer;
    if (spare_.empty()) {
        transfer = std::make_unique<Transfer>();
    } else {
        transfer = std::move(spare_.back());
        spare_.pop_back();
    }
    transfer->request = std::move(request);
    transfer->response.clear();
    set_common(*transfer, transfer->request.url);
    CURL* easy = transfer->easy.get();
    transfer->headers.reset();
    // An upload begins at once; nobody is asked whether it may.
    curl_slist* list = curl_slist_append(nullptr, "Expect:");
    for (const auto& header : transfer->request.headers) list = curl_slist_append(list, header.c_str());
    const SigningKeys* keys = transfer->request.keys.get();
    if (keys != nullptr && !keys->session_token.empty())
        list = curl_slist_append(list, ("x-amz-security-token: " + keys->session_token).c_str());
    transfer->headers.reset(list);
    const std::string_view body = transfer->request.own_body.empty()
                                      ? transfer->request.body
                                      : std::string_view(transfer->request.own_body);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.empty() ? "" : body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, Transfer::take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer.get());
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, Transfer::take_response);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer.get());
    if (keys != nullptr) {
        curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, options_.sigv4.c_str());
        curl_easy_setopt(easy, CURLOPT_USERNAME, keys->access_key.c_str());
        curl_easy_setopt(easy, CURLOPT_PASSWORD, keys->secret_key.c_str());
    }
    curl_multi_add_handle(multi_.get(), easy);
    running_.emplace(easy, std::move(transfer));
    int still = 0;
    curl_multi_perform(multi_.get(), &still);
}

HttpResponse HttpTransfers::finish(Transfer& transfer, CURLcode result) const {
    HttpResponse response;
    response.id = transfer.request.id;
    curl_easy_getinfo(transfer.easy.get(), CURLINFO_RESPONSE_CODE, &response.status);
    response.body = std::move(transfer.response);
    curl_off_t seconds = 0;
    curl_easy_getinfo(transfer.easy.get(), CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > 0) response.retry_after = std::chrono::seconds(std::min<curl_off_t>(seconds, 24 * 3600));
    // We cut an answer off ourselves when it is too long; its status stands.
    if (result == CURLE_OK || (result == CURLE_WRITE_ERROR && response.status != 0)) return response;
    if (options_.status_is_enough && transfer.answered) return response;
    response.status = 0;
    response.error = transfer.error[0] != '\0' ? transfer.error : curl_easy_strerror(result);
    long reason = 0;
    curl_easy_getinfo(transfer.easy.get(), CURLINFO_OS_ERRNO, &reason);
    if (reason != 0) response.error += ": " + std::generic_category().message(static_cast<int>(reason));
    // Somebody who was asked and answers what is no HTTP gives the same code as an address of another
    // protocol.
    long asked = 0;
    curl_easy_getinfo(transfer.easy.get(), CURLINFO_REQUEST_SIZE, &asked);
    const bool reached = transfer.attempted || asked > 0;
    if (result == CURLE_URL_MALFORMAT || (result == CURLE_UNSUPPORTED_PROTOCOL && !reached))
        response.hopeless = HttpResponse::Hopeless::bad_url;
    if (!transfer.refused.empty() && !transfer.attempted) {
        response.hopeless = HttpResponse::Hopeless::refused_address;
        response.error = "refused to connect to " + transfer.refused + ", which is no public address";
    }
    return response;
}

void HttpTransfers::collect(std::vector<HttpResponse>& responses, std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const std::size_t before = responses.size();
    while (!running_.empty()) {
        int still = 0;
        curl_multi_perform(multi_.get(), &still);
        int left = 0;
        while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
            if (message->msg != CURLMSG_DONE) continue;
            const CURLcode result = message->data.result;
            CURL* easy = message->easy_handle;
            const auto found = running_.find(easy);
            curl_multi_remove_handle(multi_.get(), easy);
            responses.push_back(finish(*found->second, result));
            found->second->request = {};
            spare_.push_back(std::move(found->second));
            running_.erase(found);
        }
        const auto remaining =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (responses.size() > before || remaining.count() <= 0 || woken_.exchange(false)) return;
        curl_multi_poll(multi_.get(), nullptr, 0,
                        static_cast<int>(std::min<std::int64_t>(remaining.count(), 1000)), nullptr);
    }
}

void HttpTransfers::wake() {
    woken_ = true;
    curl_multi_wakeup(multi_.get());
}

void HttpTransfers::ask_head(const std::string& url) const {
    Transfer transfer;
    set_common(transfer, url);
    curl_easy_setopt(transfer.easy.get(), CURLOPT_NOBODY, 1L);
    curl_easy_setopt(transfer.easy.get(), CURLOPT_TIMEOUT_MS,
                     static_cast<long>(options_.connect_timeout.count()));
    const CURLcode result = curl_easy_perform(transfer.easy.get());
    if (result != CURLE_OK) throw ConnectionError(finish(transfer, result).error);
}

}  // namespace baton::wire
