#include "brokers/http/sink.hpp"

#include <deque>
#include <unordered_map>

#include "brokers/fixed_destination.hpp"
#include "brokers/http/message.hpp"
#include "brokers/lease_is_over.hpp"

namespace baton::brokers {

namespace {

using relay::Delivery;
using relay::milliseconds;
using relay::Verdict;

struct HttpSettings {
    std::string url;  // where messages go that name none
    bool batched = false;
    std::size_t batch_size = 1;
    std::size_t batch_bytes = 0;
    std::size_t max_message_bytes = 0;
};

bool is_http(std::string_view url) {
    return url.starts_with("http://") || url.starts_with("https://");
}

HttpSettings read_settings(const relay::Settings& settings) {
    HttpSettings read;
    read.url = fixed_destination(settings, "url", false);
    if (!read.url.empty() && !is_http(read.url))
        settings.refuse("url", "must begin with http:// or https://");
    const std::string mode = settings.text("mode", "single");
    if (mode != "single" && mode != "batch")
        settings.refuse("mode", "is \"" + mode + "\"", "write single or batch");
    read.batched = mode == "batch";
    read.batch_size = settings.count("batch_size", 100);
    read.batch_bytes = settings.count("batch_bytes", 1 << 20);
    const auto bytes = settings.number("max_message_bytes", 0);
    if (bytes < 0) settings.refuse("max_message_bytes", "must not be negative", "0 sets no limit");
    read.max_message_bytes = static_cast<std::size_t>(bytes);
    return read;
}

wire::HttpOptions read_options(const relay::Settings& settings) {
    wire::HttpOptions options = wire::read_http_options(settings, 16);
    options.allow_private = settings.boolean("allow_private", false);
    options.status_is_enough = true;
    if (!options.proxy.empty() && !options.allow_private)
        settings.refuse("proxy", "hides the addresses that are connected to",
                        "with allow_private = true it is the proxy that refuses private addresses");
    return options;
}

HttpComposer read_composer(const relay::Settings& settings) {
    std::vector<Header> extra;
    for (const auto& [name, value] : settings.table("headers")) {
        if (name != encode_header_name(name)) settings.refuse("headers." + name, "is no name of a header");
        if (value.find_first_of("\r\n") != std::string::npos)
            settings.refuse("headers." + name, "has more than one line");
        extra.push_back({name, value});
    }
    try {
        return {WebhookSigner(settings.list("secret")), std::move(extra)};
    } catch (const relay::SettingsError&) {
        throw;
    } catch (const UsageError& error) {
        settings.refuse("secret", std::string("cannot be used: ") + error.what(), error.hint());
    }
}

// Whose fault an answer is. Redirects are not followed, so an endpoint that has moved takes nothing.
Verdict verdict_on(const wire::HttpResponse& response) {
    const long status = response.status;
    if (status == 0) {
        using Hopeless = wire::HttpResponse::Hopeless;
        if (response.hopeless == Hopeless::no) return Verdict::retry;
        return response.hopeless == Hopeless::bad_url ? Verdict::rejected : Verdict::shut;
    }
    if (status >= 200 && status < 300) return Verdict::delivered;
    if (status >= 300 && status < 400) return Verdict::shut;
    switch (status) {
        case 401:  // who are you?
        case 402:
        case 403:
        case 404:
        case 405:  // no POST here
        case 407:
        case 410:  // gone for good
        case 421:
        case 426:
        case 451:
            return Verdict::shut;
        case 408:
        case 425:
        case 429:
            return Verdict::retry;
        default:
            return status >= 500 ? Verdict::retry : Verdict::rejected;
    }
}

class HttpSink final : public relay::Sink {
  public:
    HttpSink(HttpSettings settings, wire::HttpOptions options, HttpComposer composer)
        : settings_(std::move(settings)),
          concurrency_(options.max_concurrent),
          transfers_(std::move(options)),
          composer_(std::move(composer)) {}

    relay::SinkTraits traits() const override {
        return {.max_message_bytes = settings_.max_message_bytes,
                .preferred_batch = concurrency_ * (settings_.batched ? settings_.batch_size : 4)};
    }
    void check() override;
    void send(std::span<const Message> messages) override;
    void collect(std::vector<Delivery>& deliveries, milliseconds patience) override;

  private:
    void start_waiting();
    std::vector<HttpMessage> next_group();
    void take(wire::HttpResponse response);

    HttpSettings settings_;
    std::size_t concurrency_;
    wire::HttpTransfers transfers_;
    HttpComposer composer_;
    std::deque<HttpMessage> waiting_;
    std::unordered_map<std::uint64_t, std::vector<HttpMessage>> flying_;
    std::uint64_t next_request_ = 1;
    std::vector<Delivery> done_;
};

void HttpSink::check() {
    // A URL made from events is not known before there is one.
    if (!settings_.url.empty()) transfers_.ask_head(settings_.url);
}

void HttpSink::send(std::span<const Message> messages) {
    for (const auto& message : messages) {
        const std::string& url = message.destination.empty() ? settings_.url : message.destination;
        if (!is_http(url)) {
            done_.push_back({message.ticket, Verdict::rejected, "\"" + url + "\" is no URL of HTTP", {}});
        } else if (settings_.max_message_bytes > 0 && message.body.size() > settings_.max_message_bytes) {
            done_.push_back({message.ticket,
                             Verdict::rejected,
                             "the body of " + std::to_string(message.body.size()) +
                                 " bytes is larger than max_message_bytes = " +
                                 std::to_string(settings_.max_message_bytes),
                             {}});
        } else {
            waiting_.push_back({message.ticket, message.message_id, url, message.key, message.body,
                                message.content_type, message.headers, false});
        }
    }
    start_waiting();
}

// Take the first waiting message, and, in batch mode, those that can go with it.
std::vector<HttpMessage> HttpSink::next_group() {
    std::vector<HttpMessage> group;
    group.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    if (!settings_.batched || group.front().alone) return group;
    const std::string url = group.front().url;
    const bool cloud_events = is_cloud_event(group.front());
    std::size_t bytes = group.front().body.size();
    while (!waiting_.empty() && group.size() < settings_.batch_size) {
        const HttpMessage& next = waiting_.front();
        bytes += next.body.size();
        if (next.alone || next.url != url || is_cloud_event(next) != cloud_events ||
            bytes > settings_.batch_bytes)
            break;
        group.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
    }
    return group;
}

void HttpSink::start_waiting() {
    if (!waiting_.empty() && !may_send()) {
        for (const auto& message : waiting_)
            done_.push_back({message.ticket, Verdict::retry, lease_is_over, {}});
        waiting_.clear();
    }
    while (!waiting_.empty() && !transfers_.full()) {
        std::vector<HttpMessage> group = next_group();
        wire::HttpRequest request =
            settings_.batched ? composer_.batch(group) : composer_.single(group.front());
        request.id = next_request_++;
        flying_.emplace(request.id, std::move(group));
        transfers_.start(std::move(request));
    }
}

// Judge an answer: it holds for every message of its request.
void HttpSink::take(wire::HttpResponse response) {
    const auto found = flying_.find(response.id);
    std::vector<HttpMessage> group = std::move(found->second);
    flying_.erase(found);
    const long status = response.status;
    const Verdict verdict = verdict_on(response);
    std::string words;
    if (verdict != Verdict::delivered) {
        words = status == 0 ? response.error : "HTTP " + std::to_string(status);
        if (status != 0 && !response.body.empty()) words += ": " + response.body.substr(0, 500);
    }
    if (verdict == Verdict::rejected && status != 0 && group.size() > 1) {
        for (auto message = group.rbegin(); message != group.rend(); ++message) {
            message->alone = true;
            waiting_.push_front(std::move(*message));
        }
        return;
    }
    const bool comes_again = verdict == Verdict::retry || verdict == Verdict::shut;
    const auto retry_after = comes_again ? response.retry_after : std::nullopt;
    for (const auto& message : group) done_.push_back({message.ticket, verdict, words, retry_after});
}

void HttpSink::collect(std::vector<Delivery>& deliveries, milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        std::vector<wire::HttpResponse> responses;
        transfers_.collect(responses, done_.empty() ? std::max(left, milliseconds(0)) : milliseconds(0));
        for (auto& response : responses) take(std::move(response));
        start_waiting();
        // A refused batch that was taken apart reports nothing yet.
        if (!done_.empty() || transfers_.idle() || left.count() <= 0) break;
    }
    std::move(done_.begin(), done_.end(), std::back_inserter(deliveries));
    done_.clear();
}

}  // namespace

std::unique_ptr<relay::Sink> make_http_sink(const relay::Settings& settings) {
    return std::make_unique<HttpSink>(read_settings(settings), read_options(settings),
                                      read_composer(settings));
}

}  // namespace baton::brokers
