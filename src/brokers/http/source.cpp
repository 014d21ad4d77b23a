#include "brokers/http/source.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"
#include "brokers/http/form.hpp"
#include "brokers/http/webhook_check.hpp"
#include "intake/broker_feed.hpp"
#include "wire/http_door.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

struct Options {
    std::string host;
    int port = 0;
    std::string path;
    bool below = false;  // everything below the path, too
    std::size_t max_body = 1 << 20;
    std::size_t max_pending = 100;
    std::size_t max_pending_bytes = 16 << 20;
    milliseconds answer_timeout{30'000};
    milliseconds request_timeout{30'000};
    std::string tls_cert;
    std::string tls_key;
    intake::BrokerFeed::Pace pace;

    bool takes(const std::string& given) const { return below ? given.starts_with(path) : given == path; }
};

constexpr std::array<std::string_view, 4> encodings{"identity", "gzip", "deflate", "br"};

// HTTP's own, the server's notes, and what becomes something of its own.
bool is_of_http(const std::string& name) {
    static constexpr std::array<std::string_view, 18> own{"accept",
                                                          "accept-encoding",
                                                          "connection",
                                                          "content-encoding",
                                                          "content-length",
                                                          "expect",
                                                          "host",
                                                          "keep-alive",
                                                          "transfer-encoding",
                                                          "user-agent",
                                                          "webhook-id",
                                                          "idempotency-key",
                                                          "webhook-timestamp",
                                                          "content-type",
                                                          "remote_addr",
                                                          "remote_port",
                                                          "local_addr",
                                                          "local_port"};
    return std::find(own.begin(), own.end(), name) != own.end();
}

// A request between its arrival and its answer.
struct Pending {
    std::string path;
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
    enum class State { waiting, settled, given_up } state = State::waiting;

    std::string_view header(std::string_view name) const {
        const auto found = std::find_if(headers.begin(), headers.end(),
                                        [name](const auto& header) { return header.first == name; });
        return found == headers.end() ? std::string_view() : std::string_view(found->second);
    }
};

struct HttpBatch final : intake::BrokerBatch {
    std::vector<std::shared_ptr<Pending>> requests;  // one for each event
};

class HttpFeed final : public intake::BrokerFeed {
  public:
    HttpFeed(const Options& options, const WebhookCheck& check, const intake::Decoder& decoder);
    ~HttpFeed() override { stop(); }
    HttpFeed(const HttpFeed&) = delete;
    HttpFeed& operator=(const HttpFeed&) = delete;

  protected:
    std::shared_ptr<intake::BrokerBatch> receive(Clock::time_point until) override;
    void acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) override;
    bool send_acknowledgements() override { return true; }  // acknowledging is the answer
    void leave() override { stop(); }

  private:
    void handle(const httplib::Request& request, httplib::Response& response,
                const httplib::ContentReader& reader);
    bool read_body(const httplib::Request& request, httplib::Response& response,
                   const httplib::ContentReader& reader, std::string& body) const;
    int enqueue(const std::shared_ptr<Pending>& pending);  // 0, or the status that says why not
    Pending::State await(const std::shared_ptr<Pending>& pending);
    void decode(const std::shared_ptr<Pending>& pending, HttpBatch& batch) const;
    void stop();

    const Options& options_;
    const WebhookCheck& check_;
    const intake::Decoder& decoder_;
    std::unique_ptr<wire::HttpDoor> server_;
    std::thread thread_;

    std::mutex mutex_;  // guards what follows, and the state of requests
    std::condition_variable changed_;
    std::deque<std::shared_ptr<Pending>> queue_;
    std::size_t pending_ = 0;
    std::size_t pending_bytes_ = 0;
    bool stopping_ = false;
};

void answer(httplib::Response& response, int status, const std::string& words) {
    response.status = status;
    if (status == 429 || status == 503) response.set_header("Retry-After", "1");
    if (status != 204) response.set_content(words + "\n", "text/plain; charset=utf-8");
}

HttpFeed::HttpFeed(const Options& options, const WebhookCheck& check, const intake::Decoder& decoder)
    : intake::BrokerFeed(options.pace), options_(options), check_(check), decoder_(decoder) {
    wire::DoorLimits limits;
    // Each request that waits has a thread, and some are free to say that there are too many.
    limits.threads = options_.max_pending + 16;
    limits.request_time = options_.request_timeout;
    limits.request_time_in_a_crowd = std::min<milliseconds>(options_.request_timeout, 2s);
    limits.request_bytes += 2 * options_.max_body;  // a body in pieces is longer on its way
    limits.requests = 5;
    server_ = std::make_unique<wire::HttpDoor>(limits, options_.tls_cert, options_.tls_key);
    server_->set_payload_max_length(options_.max_body);
    const auto take = [this](const httplib::Request& request, httplib::Response& response,
                             const httplib::ContentReader& reader) { handle(request, response, reader); };
    const auto refuse = [](const httplib::Request&, httplib::Response& response) {
        response.set_header("Allow", "POST");
        answer(response, 405, "messages are posted");
    };
    server_->Post(".*", take);
    server_->Get(".*", refuse);
    server_->Put(".*", refuse);
    server_->Patch(".*", refuse);
    server_->Delete(".*", refuse);
    if (server_->take_port(options_.host, options_.port) < 0)
        throw Error("cannot listen on " + options_.host + ":" + std::to_string(options_.port),
                    "another program may have the port");
    thread_ = std::thread([this] { server_->listen_after_bind(); });
}

// Let nobody wait any longer, and close the port.
void HttpFeed::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        changed_.notify_all();
    }
    while (thread_.joinable() && !server_->is_running()) std::this_thread::sleep_for(1ms);
    server_->stop();
    if (thread_.joinable()) thread_.join();
}

// Read the body, unpacked, as far as it may go; false when the answer says why not.
bool HttpFeed::read_body(const httplib::Request& request, httplib::Response& response,
                         const httplib::ContentReader& reader, std::string& body) const {
    const auto refuse = [&response](int status, const char* words) {
        wire::HttpDoor::close_after_answer();
        answer(response, status, words);
        return false;
    };
    // The library undoes those that it knows, refuses some, and passes on what it has never heard of.
    const std::string encoding = lower(request.get_header_value("content-encoding"));
    if (!encoding.empty() && std::ranges::find(encodings, encoding) == encodings.end())
        return refuse(415, "the body's Content-Encoding cannot be undone: send it as it is");
    if (request.is_multipart_form_data())
        return refuse(415, "a form in parts is no message: send the body as it is");
    bool too_large = false;
    const bool whole = reader([&](const char* bytes, std::size_t size) {
        too_large = body.size() + size > options_.max_body;
        if (!too_large) body.append(bytes, size);
        return !too_large;
    });
    if (too_large || response.status == 413) return refuse(413, "the body is too large when it is unpacked");
    if (!whole) return refuse(response.status > 0 ? response.status : 400, "the body cannot be read");
    return true;
}

void HttpFeed::handle(const httplib::Request& request, httplib::Response& response,
                      const httplib::ContentReader& reader) {
    std::string body;
    if (!read_body(request, response, reader, body)) return;
    if (!options_.takes(request.path)) return answer(response, 404, "nothing is received here");
    auto pending = std::make_shared<Pending>();
    pending->path = request.path;
    for (const auto& [name, value] : request.headers) pending->headers.emplace_back(lower(name), value);
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    switch (check_.judge([&](std::string_view name) { return pending->header(name); }, body, now)) {
        case WebhookCheck::Answer::unreadable:
            return answer(response, 400, "webhook-id or webhook-timestamp is missing or no such thing");
        case WebhookCheck::Answer::unauthorised:
            return answer(response, 401, "the signature or the token does not hold");
        case WebhookCheck::Answer::good:
            break;
    }
    const bool named = !pending->header("webhook-id").empty() || !pending->header("idempotency-key").empty();
    if (body.empty() && !named)
        return answer(response, 400, "there is neither a body nor an id: nothing could be kept");
    pending->body = std::move(body);
    if (const int status = enqueue(pending); status != 0)
        return answer(response, status,
                      status == 429 ? "too many messages are waiting" : "the relay stops: send it again");
    switch (await(pending)) {
        case Pending::State::settled:
            return answer(response, 204, {});
        default:
            return answer(response, 503, "the message is not settled yet: send it again");
    }
}

int HttpFeed::enqueue(const std::shared_ptr<Pending>& pending) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return 503;
    if (pending_ >= options_.max_pending ||
        (pending_ > 0 && pending_bytes_ + pending->body.size() > options_.max_pending_bytes))
        return 429;
    ++pending_;
    pending_bytes_ += pending->body.size();
    queue_.push_back(pending);
    wake();
    return 0;
}

// Wait until the message is settled or there is no more use in waiting.
Pending::State HttpFeed::await(const std::shared_ptr<Pending>& pending) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, options_.answer_timeout,
                      [&] { return pending->state != Pending::State::waiting || stopping_; });
    if (pending->state == Pending::State::waiting) {
        pending->state = Pending::State::given_up;
        std::erase(queue_, pending);
    }
    --pending_;
    pending_bytes_ -= pending->body.size();
    return pending->state;
}

std::shared_ptr<intake::BrokerBatch> HttpFeed::receive(Clock::time_point until) {
    std::deque<std::shared_ptr<Pending>> arrived;
    {
        const std::lock_guard lock(mutex_);
        arrived.swap(queue_);
    }
    if (arrived.empty()) {
        wait(-1, 0, until);
        return nullptr;
    }
    auto batch = std::make_shared<HttpBatch>();
    for (const auto& pending : arrived) decode(pending, *batch);
    return batch;
}

void HttpFeed::decode(const std::shared_ptr<Pending>& pending, HttpBatch& batch) const {
    intake::Incoming incoming;
    incoming.body = pending->body;
    incoming.topic = pending->path;
    incoming.content_type = pending->header("content-type");
    for (const auto* name : {"webhook-id", "idempotency-key"})
        if (const auto id = pending->header(name); !id.empty() && !incoming.message_id)
            incoming.message_id = id;
    for (const auto& [name, value] : pending->headers) {
        if (is_of_http(name) || check_.is_secret(name)) continue;
        incoming.headers.push_back({name, value});
    }
    decoder_.decode(incoming, batch);
    batch.requests.push_back(pending);
}

void HttpFeed::acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) {
    const auto& own = static_cast<const HttpBatch&>(batch);
    const std::lock_guard lock(mutex_);
    for (std::size_t i = from; i < to; ++i)
        if (own.requests[i]->state == Pending::State::waiting)
            own.requests[i]->state = Pending::State::settled;
    changed_.notify_all();
}

class HttpSource final : public BrokerSource {
  public:
    HttpSource(Options options, WebhookCheck check, intake::Decoder decoder)
        : options_(std::move(options)), check_(std::move(check)), decoder_(std::move(decoder)) {}

    std::unique_ptr<relay::Feed> open() const override {
        return std::make_unique<HttpFeed>(options_, check_, decoder_);
    }
    // A relay that runs may have the port already, so the port is not tried.
    void check() const override {
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        hints.ai_flags = AI_PASSIVE;
        addrinfo* found = nullptr;
        if (const int error = ::getaddrinfo(options_.host.c_str(), nullptr, &hints, &found); error != 0)
            throw Error("cannot listen on " + options_.host + ": " + ::gai_strerror(error));
        ::freeaddrinfo(found);
        if (options_.tls_cert.empty()) return;
        const wire::HttpDoor trial({}, options_.tls_cert, options_.tls_key);
    }

  private:
    Options options_;
    WebhookCheck check_;
    intake::Decoder decoder_;
};

void read_listen(const relay::Settings& settings, Options& options) {
    const std::string listen = settings.text("listen");
    const auto colon = listen.rfind(':');
    options.host = listen.substr(0, colon == std::string::npos ? 0 : colon);
    const std::string port = colon == std::string::npos ? "" : listen.substr(colon + 1);
    const bool digits = !port.empty() && port.size() < 6 &&
                        std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
    options.port = digits ? std::stoi(port) : 0;
    if (options.host.empty() || options.port < 1 || options.port > 65535)
        settings.refuse("listen", "is \"" + listen + "\", which is no address to listen on",
                        "write HOST:PORT, like 0.0.0.0:8443");
    options.path = settings.text("path", "/");
    if (!options.path.starts_with('/')) settings.refuse("path", "must begin with /");
    if (options.path.ends_with("/*")) {
        options.below = true;
        options.path.pop_back();
    }
}

}  // namespace

std::unique_ptr<BrokerSource> make_http_source(const relay::Settings& settings, const Reader&) {
    Options options;
    read_listen(settings, options);
    options.max_body = settings.count("max_body", options.max_body, 1 << 30);
    options.max_pending = settings.count("max_pending", options.max_pending, 1000);
    options.max_pending_bytes = settings.count("max_pending_bytes", options.max_pending_bytes, 1 << 30);
    options.answer_timeout = settings.span("answer_timeout", options.answer_timeout);
    options.request_timeout = settings.span("request_timeout", options.request_timeout);
    options.tls_cert = settings.text("tls_cert", "");
    options.tls_key = settings.text("tls_key", "");
    if (options.tls_cert.empty() != options.tls_key.empty())
        settings.refuse(options.tls_cert.empty() ? "tls_cert" : "tls_key", "is missing",
                        "a certificate and its key go together");
    options.pace = intake::BrokerFeed::Pace::read(settings);
    options.pace.ack_interval = settings.duration("ack_interval", 0ms);  // senders wait for it
    WebhookCheck check(settings);
    return std::make_unique<HttpSource>(std::move(options), std::move(check),
                                        intake::Decoder(settings, "http", http_form.headers));
}

}  // namespace baton::brokers
