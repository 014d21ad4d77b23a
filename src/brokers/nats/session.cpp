#include "brokers/nats/session.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <regex>
#include <sstream>

#include "baton/error.hpp"
#include "event/headers.hpp"
#include "wire/access_refused.hpp"

namespace baton::brokers {

using std::chrono::milliseconds;

std::string without_source_positions(std::string_view words) {
    static const std::regex position(R"(\(\w+\.c:\d+\):? ?)");
    return std::regex_replace(std::string(words), position, "");
}

std::string nats_words(natsStatus status) {
    const char* last = nats_GetLastError(nullptr);
    const std::string more = last == nullptr ? "" : without_source_positions(last);
    std::string text = natsStatus_GetText(status);
    return more.empty() || more == text ? text : text + ": " + more;
}

namespace {

void need(natsStatus status, const std::string& what) {
    if (status == NATS_OK) return;
    const std::string words = "cannot " + what + ": " + nats_words(status);
    if (status == NATS_CONNECTION_AUTH_FAILED || status == NATS_NOT_PERMITTED)
        throw wire::AccessRefused(words);
    throw ConnectionError(words);
}

void set_login(natsOptions* made, const NatsOptions& options) {
    if (!options.username.empty())
        need(natsOptions_SetUserInfo(made, options.username.c_str(), options.password.c_str()),
             "set the user");
    if (!options.token.empty()) need(natsOptions_SetToken(made, options.token.c_str()), "set the token");
    if (!options.credentials.empty())
        need(natsOptions_SetUserCredentialsFromFiles(made, options.credentials.c_str(), nullptr),
             "use the credentials");
    if (!options.tls_ca.empty())
        need(natsOptions_LoadCATrustedCertificates(made, options.tls_ca.c_str()), "load " + options.tls_ca);
    if (!options.tls_cert.empty())
        need(natsOptions_LoadCertificatesChain(made, options.tls_cert.c_str(), options.tls_key.c_str()),
             "load " + options.tls_cert);
    bool tls = !options.tls_ca.empty() || !options.tls_cert.empty();
    for (const auto& url : options.urls) tls = tls || url.starts_with("tls://");
    if (tls) need(natsOptions_SetSecure(made, true), "turn TLS on");
}

}  // namespace

NatsOptions read_nats_server(const relay::Settings& settings) {
    NatsOptions options;
    std::istringstream urls(settings.text("url", "nats://localhost:4222"));
    for (std::string url; std::getline(urls, url, ',');) options.urls.push_back(url);
    options.username = settings.text("username", "");
    options.password = settings.text("password", "");
    options.token = settings.text("token", "");
    options.credentials = settings.text("credentials", "");
    options.tls_ca = settings.text("tls_ca", "");
    options.tls_cert = settings.text("tls_cert", "");
    options.tls_key = settings.text("tls_key", "");
    if (options.tls_cert.empty() != options.tls_key.empty())
        settings.refuse(options.tls_cert.empty() ? "tls_key" : "tls_cert", "stands alone",
                        "set both tls_cert and tls_key");
    options.connect_timeout = settings.duration("connect_timeout", std::chrono::seconds(5));
    options.heartbeat = settings.duration("heartbeat", std::chrono::seconds(10));
    return options;
}

NatsOptionsPtr make_nats_options(const NatsOptions& options) {
    natsOptions* raw = nullptr;
    need(natsOptions_Create(&raw), "make options");
    NatsOptionsPtr made(raw, &natsOptions_Destroy);
    std::vector<const char*> urls;
    for (const auto& url : options.urls) urls.push_back(url.c_str());
    need(natsOptions_SetServers(raw, urls.data(), static_cast<int>(urls.size())), "understand the url");
    need(natsOptions_SetName(raw, "baton"), "set the name");
    need(natsOptions_SetAllowReconnect(raw, false), "turn reconnecting off");
    need(natsOptions_SetTimeout(raw, options.connect_timeout.count()), "set the time limit");
    need(natsOptions_SetPingInterval(raw, options.heartbeat.count()), "set the heartbeat");
    need(natsOptions_SetMaxPingsOut(raw, 2), "set the heartbeat");
    // A write that blocks must not block the sink for ever.
    need(natsOptions_SetWriteDeadline(raw, options.ack_timeout.count()), "set the write deadline");
    set_login(raw, options);
    return made;
}

// What the library's threads may touch. They know it by a number: a callback that comes late finds nothing
// under it.
struct NatsSession::Shared {
    std::mutex mutex;
    std::condition_variable changed;
    struct Flight {
        std::uint64_t ticket;
        std::string subject;
        std::uint64_t number;  // a message's address may be that of an earlier one
    };
    struct Due {
        std::chrono::steady_clock::time_point time;
        natsMsg* message;
        std::uint64_t number;
    };
    std::unordered_map<natsMsg*, Flight> flying;
    // When an answer is overdue. The library could tell, but then it remembers every message until that time,
    // answered or not.
    std::deque<Due> due;
    std::uint64_t flights = 0;
    std::vector<NatsAnswer> answers;
    std::set<std::string> forbidden;  // subjects
    std::string error;
    bool closed = false;
    std::uintptr_t id = 0;

    static std::mutex& registry_mutex() {
        static std::mutex mutex;
        return mutex;
    }
    static std::map<std::uintptr_t, std::weak_ptr<Shared>>& registry() {
        static std::map<std::uintptr_t, std::weak_ptr<Shared>> sessions;
        return sessions;
    }
    static std::shared_ptr<Shared> find(void* id) {
        const std::lock_guard lock(registry_mutex());
        const auto found = registry().find(reinterpret_cast<std::uintptr_t>(id));
        return found == registry().end() ? nullptr : found->second.lock();
    }
    static std::shared_ptr<Shared> make() {
        static std::uintptr_t last = 0;
        auto made = std::make_shared<Shared>();
        const std::lock_guard lock(registry_mutex());
        made->id = ++last;
        registry()[made->id] = made;
        return made;
    }
    void forget() const {
        const std::lock_guard lock(registry_mutex());
        registry().erase(id);
    }

    // Report what has not been answered in time. Those that were answered are skipped here.
    void give_up_overdue(std::vector<NatsAnswer>& late) {
        const auto now = std::chrono::steady_clock::now();
        for (; !due.empty(); due.pop_front()) {
            const auto found = flying.find(due.front().message);
            if (found == flying.end() || found->second.number != due.front().number) continue;
            if (now < due.front().time) return;
            const Flight& flight = found->second;
            late.push_back({flight.ticket, flight.subject, NATS_TIMEOUT, 0, natsStatus_GetText(NATS_TIMEOUT),
                            forbidden.contains(flight.subject)});
            if (late.back().not_permitted) late.back().words = error;
            flying.erase(found);
        }
    }
};

NatsSession::NatsSession(const NatsOptions& options)
    : ack_timeout_(options.ack_timeout), shared_(Shared::make()) {
    void* id = std::bit_cast<void*>(shared_->id);
    try {
        const NatsOptionsPtr made = make_nats_options(options);
        need(natsOptions_SetErrorHandler(made.get(), &NatsSession::on_error, id), "listen to errors");
        need(natsOptions_SetClosedCB(made.get(), &NatsSession::on_closed, id), "listen to the end");
        need(natsConnection_Connect(&connection_, made.get()), "connect to nats");
        jsOptions settings;
        jsOptions_Init(&settings);
        settings.Wait = options.connect_timeout.count();
        settings.PublishAsync.MaxPending = 1 << 30;  // the pipeline bounds what is in flight
        settings.PublishAsync.AckHandler = &NatsSession::on_ack;
        settings.PublishAsync.AckHandlerClosure = id;
        need(natsConnection_JetStream(&jetstream_, connection_, &settings), "use JetStream");
    } catch (...) {
        shared_->forget();
        natsConnection_Destroy(connection_);
        throw;
    }
}

NatsSession::~NatsSession() {
    shared_->forget();
    natsConnection_Close(connection_);
    jsCtx_Destroy(jetstream_);
    natsConnection_Destroy(connection_);
}

void NatsSession::on_ack(jsCtx*, natsMsg* message, jsPubAck*, jsPubAckErr* error, void* id) {
    if (const auto shared = Shared::find(id)) {
        const std::lock_guard lock(shared->mutex);
        if (const auto found = shared->flying.find(message); found != shared->flying.end()) {
            NatsAnswer answer{found->second.ticket, found->second.subject, NATS_OK, 0, {}, false};
            if (error != nullptr) {
                answer.status = error->Err;
                answer.code = static_cast<int>(error->ErrCode);
                answer.words = error->ErrText != nullptr && *error->ErrText != '\0'
                                   ? error->ErrText
                                   : natsStatus_GetText(error->Err);
                answer.not_permitted = shared->forbidden.contains(answer.subject);
                if (answer.not_permitted) answer.words = shared->error;
            }
            shared->flying.erase(found);
            shared->answers.push_back(std::move(answer));
            shared->changed.notify_one();
        }
    }
    natsMsg_Destroy(message);
}

// Remember what the server complains about: a publish that is not permitted gets no other answer.
void NatsSession::on_error(natsConnection* connection, natsSubscription*, natsStatus status, void* id) {
    const auto shared = Shared::find(id);
    if (!shared) return;
    const char* last = nullptr;
    natsConnection_GetLastError(connection, &last);
    const std::string words =
        last != nullptr && *last != '\0' ? without_source_positions(last) : natsStatus_GetText(status);
    const std::lock_guard lock(shared->mutex);
    shared->error = words;
    const std::string marker = "ublish to \"";
    const auto begin = words.find(marker);
    if (begin == std::string::npos) return;
    const auto end = words.find('"', begin + marker.size());
    shared->forbidden.insert(words.substr(begin + marker.size(), end - begin - marker.size()));
}

void NatsSession::on_closed(natsConnection* connection, void* id) {
    const auto shared = Shared::find(id);
    if (!shared) return;
    const char* last = nullptr;
    natsConnection_GetLastError(connection, &last);
    const std::lock_guard lock(shared->mutex);
    if (last != nullptr && *last != '\0') shared->error = without_source_positions(last);
    if (shared->error.empty()) shared->error = "the connection was closed";
    shared->closed = true;
    shared->changed.notify_one();
}

natsStatus NatsSession::publish(const Message& message) {
    natsMsg* made = nullptr;
    natsStatus status = natsMsg_Create(&made, message.destination.c_str(), nullptr, message.body.data(),
                                       static_cast<int>(message.body.size()));
    const auto set = [&](const char* name, const std::string& value) {
        if (status == NATS_OK) status = natsMsgHeader_Set(made, name, value.c_str());
    };
    // The server obeys headers of its own: one of them empties the stream.
    for (const auto& header : message.headers)
        if (begins_with(header.name, "Nats-"))
            set(("event-" + header.name).c_str(), header.value);
        else
            set(header.name.c_str(), header.value);
    set("Nats-Msg-Id", message.message_id);
    if (!message.key.empty()) set("partition-key", std::string(message.key));
    if (!message.content_type.empty() && find_header(message.headers, "content-type") == nullptr)
        set("content-type", std::string(message.content_type));
    if (status != NATS_OK) {
        natsMsg_Destroy(made);
        return status;
    }
    natsMsg* const name = made;
    {
        const std::lock_guard lock(shared_->mutex);
        const std::uint64_t number = ++shared_->flights;
        shared_->flying[name] = {message.ticket, message.destination, number};
        shared_->due.push_back({std::chrono::steady_clock::now() + ack_timeout_, name, number});
    }
    status = js_PublishMsgAsync(jetstream_, &made, nullptr);
    if (status != NATS_OK) {
        const std::lock_guard lock(shared_->mutex);
        shared_->flying.erase(name);
    }
    natsMsg_Destroy(made);  // null when the library has taken it
    return status;
}

void NatsSession::write_out() {
    // It has no call for this but the one that also waits for the server's pong. What fails here fails again
    // where it is told: in the answers.
    natsConnection_FlushTimeout(connection_, 20);
}

NatsSession::Taken NatsSession::take(milliseconds patience) {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_for(lock, patience,
                              [this] { return !shared_->answers.empty() || shared_->closed; });
    std::vector<NatsAnswer> answers = std::move(shared_->answers);
    shared_->answers.clear();
    shared_->give_up_overdue(answers);
    if (shared_->closed) {
        for (const auto& [message, flight] : shared_->flying)
            answers.push_back(
                {flight.ticket, flight.subject, NATS_CONNECTION_CLOSED, 0, shared_->error, false});
        shared_->flying.clear();
    }
    return {std::move(answers), shared_->closed};
}

std::string NatsSession::last_error() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->error;
}

std::size_t NatsSession::max_payload() const {
    return static_cast<std::size_t>(std::max<std::int64_t>(natsConnection_GetMaxPayload(connection_), 0));
}

std::vector<std::string> NatsSession::streams_of(const std::string& subject) {
    jsOptions options;
    jsOptions_Init(&options);
    options.Stream.Info.SubjectsFilter = subject.c_str();
    jsStreamNamesList* names = nullptr;
    jsErrCode code{};
    const natsStatus status = js_StreamNames(&names, jetstream_, &options, &code);
    std::vector<std::string> found;
    for (int i = 0; names != nullptr && i < names->Count; ++i) found.emplace_back(names->List[i]);
    jsStreamNamesList_Destroy(names);
    if (status != NATS_NOT_FOUND) need(status, "ask for the streams of " + subject);
    return found;
}

bool NatsSession::has_stream(const std::string& name) {
    jsStreamInfo* info = nullptr;
    jsErrCode code{};
    const natsStatus status = js_GetStreamInfo(&info, jetstream_, name.c_str(), nullptr, &code);
    jsStreamInfo_Destroy(info);
    if (status != NATS_NOT_FOUND) need(status, "look for the stream " + name);
    return status == NATS_OK;
}

void NatsSession::create_stream(const NatsOptions& options) {
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    std::vector<const char*> subjects;
    for (const auto& subject : options.stream_subjects) subjects.push_back(subject.c_str());
    config.Name = options.stream.c_str();
    config.Subjects = subjects.data();
    config.SubjectsLen = static_cast<int>(subjects.size());
    if (has_stream(options.stream)) return;
    jsErrCode code{};
    need(js_AddStream(nullptr, jetstream_, &config, nullptr, &code), "create the stream " + options.stream);
}

void NatsSession::check_jetstream() {
    jsAccountInfo* info = nullptr;
    jsErrCode code{};
    const natsStatus status = js_GetAccountInfo(&info, jetstream_, nullptr, &code);
    jsAccountInfo_Destroy(info);
    if (status == NATS_NO_RESPONDERS) throw Error("the server has no JetStream: start it with --jetstream");
    need(status, "use JetStream");
}

}  // namespace baton::brokers
