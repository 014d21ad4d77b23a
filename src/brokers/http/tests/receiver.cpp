#include "brokers/http/tests/receiver.hpp"

#include <httplib.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/process.hpp"
#include "base/text.hpp"
#include "support/cluster.hpp"

namespace baton::test {

std::string WebhookRequest::header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
}

WebhookReceiver::WebhookReceiver(std::optional<Certificate> certificate)
    : certificate_(std::move(certificate)), port_(find_free_port()) {}

WebhookReceiver::~WebhookReceiver() {
    release();
    stop();
}

void WebhookReceiver::start() {
    if (certificate_)
        server_ = std::make_unique<httplib::SSLServer>(certificate_->cert.c_str(), certificate_->key.c_str());
    else
        server_ = std::make_unique<httplib::Server>();
    // Each kept connection occupies a thread.
    server_->new_task_queue = [] { return new httplib::ThreadPool(40); };
    server_->set_keep_alive_max_count(1'000'000);
    server_->set_tcp_nodelay(true);
    server_->Post(".*", [this](const httplib::Request& request, httplib::Response& response) {
        handle(request, response);
    });
    wait_until("the receiver has its port", [this] { return server_->bind_to_port("127.0.0.1", port_); });
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    wait_until("the receiver listens", [this] { return server_->is_running(); });
}

void WebhookReceiver::stop() {
    if (!server_) return;
    server_->stop();
    thread_.join();
    server_.reset();
}

void WebhookReceiver::answer_with(std::function<WebhookAnswer(const WebhookRequest&)> decide) {
    const std::lock_guard lock(mutex_);
    decide_ = std::move(decide);
}

void WebhookReceiver::hold() {
    const std::lock_guard lock(mutex_);
    holding_ = true;
}

void WebhookReceiver::release() {
    {
        const std::lock_guard lock(mutex_);
        holding_ = false;
    }
    released_.notify_all();
}

std::vector<WebhookRequest> WebhookReceiver::kept(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    std::vector<WebhookRequest> found;
    for (const auto& request : kept_)
        if (path.empty() || request.path == path) found.push_back(request);
    return found;
}

// Compute the signature anew and look for it among those that were sent.
bool WebhookReceiver::signature_holds(const WebhookRequest& request) const {
    const std::string encoded = secret_.substr(secret_.find('_') + 1);
    std::vector<unsigned char> key(encoded.size());
    int size = EVP_DecodeBlock(key.data(), reinterpret_cast<const unsigned char*>(encoded.data()),
                               static_cast<int>(encoded.size()));
    for (auto c = encoded.rbegin(); c != encoded.rend() && *c == '='; ++c) --size;
    const std::string content =
        request.header("webhook-id") + "." + request.header("webhook-timestamp") + "." + request.body;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_size = 0;
    HMAC(EVP_sha256(), key.data(), size, reinterpret_cast<const unsigned char*>(content.data()),
         content.size(), digest, &digest_size);
    unsigned char text[2 * EVP_MAX_MD_SIZE];
    const int text_size = EVP_EncodeBlock(text, digest, static_cast<int>(digest_size));
    const std::string wanted =
        "v1," + std::string(reinterpret_cast<char*>(text), static_cast<std::size_t>(text_size));
    std::istringstream sent(request.header("webhook-signature"));
    for (std::string one; sent >> one;)
        if (one == wanted)
            return std::abs(std::atoll(request.header("webhook-timestamp").c_str()) - std::time(nullptr)) <
                   300;
    return false;
}

void WebhookReceiver::handle(const httplib::Request& request, httplib::Response& response) {
    ++requests_;
    const std::size_t now = ++inside_;
    std::size_t most = most_at_once_;
    while (now > most && !most_at_once_.compare_exchange_weak(most, now)) continue;
    WebhookRequest got;
    got.path = request.path;
    got.body = request.body;
    for (const auto& [name, value] : request.headers) got.headers.emplace(lower(name), value);
    got.signed_well = !secret_.empty() && signature_holds(got);
    std::unique_lock lock(mutex_);
    if (holding_) {
        ++held_;
        released_.wait(lock, [this] { return !holding_; });
        --held_;
    }
    WebhookAnswer answer;
    if (!secret_.empty() && !got.signed_well)
        answer = {401, "the signature does not hold", {}};
    else if (decide_)
        answer = decide_(got);
    response.status = answer.status;
    response.set_content(answer.body, "text/plain");
    for (const auto& [name, value] : answer.headers) response.set_header(name, value);
    if (answer.status / 100 == 2) kept_.push_back(std::move(got));
    --inside_;
}

}  // namespace baton::test
