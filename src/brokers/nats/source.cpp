#include "brokers/nats/source.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "brokers/nats/consumer.hpp"
#include "brokers/nats/form.hpp"
#include "brokers/nats/message.hpp"
#include "brokers/nats/session.hpp"
#include "intake/broker_feed.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds pull_time = 5000ms;
// Not at once: the server would deliver the first one to a request of ours that is still out.
constexpr const char* later = R"(-NAK {"delay":200000000})";

struct Options {
    NatsOptions server;
    NatsConsumerOptions consumer;
    bool create_consumer = true;
    intake::BrokerFeed::Pace pace;
};

using MessagePtr = std::unique_ptr<natsMsg, decltype(&natsMsg_Destroy)>;

struct NatsBatch final : intake::BrokerBatch {
    std::vector<natsMsg*> messages;
    std::vector<std::uint64_t> sequences;

    ~NatsBatch() override {
        events.clear();
        for (auto* message : messages) natsMsg_Destroy(message);
    }
};

// What the library's thread puts down for the reader's.
struct Arrivals {
    std::mutex mutex;
    std::deque<natsMsg*> messages;
    int wake_fd = -1;

    ~Arrivals() {
        for (auto* message : messages) natsMsg_Destroy(message);
        if (wake_fd >= 0) ::close(wake_fd);
    }
    void put(natsMsg* message) {
        {
            const std::lock_guard lock(mutex);
            messages.push_back(message);
        }
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto ignored = ::write(wake_fd, &one, sizeof one);
    }
    natsMsg* take() {
        const std::lock_guard lock(mutex);
        if (messages.empty()) return nullptr;
        natsMsg* first = messages.front();
        messages.pop_front();
        return first;
    }
};

class NatsFeed final : public intake::BrokerFeed {
  public:
    NatsFeed(const Options& options, const intake::Decoder& decoder);
    ~NatsFeed() override;
    NatsFeed(const NatsFeed&) = delete;
    NatsFeed& operator=(const NatsFeed&) = delete;

  protected:
    std::shared_ptr<intake::BrokerBatch> receive(Clock::time_point until) override;
    void acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) override;
    bool send_acknowledgements() override;
    void idle(Clock::time_point until) override;
    void leave() override;

  private:
    void pull();
    void take(NatsBatch& batch, natsMsg* message);
    void hear_status(natsMsg* message);
    void add_headers(NatsBatch& batch, natsMsg* message, std::uint64_t sequence, intake::Incoming& incoming);
    void add_stored_headers(NatsBatch& batch, std::uint64_t sequence, intake::Incoming& incoming);
    void publish(const std::string& subject, const char* word);
    void show_progress();
    void give_back();

    const Options& options_;
    const intake::Decoder& decoder_;
    NatsLink link_;
    std::shared_ptr<Arrivals> arrivals_ = std::make_shared<Arrivals>();
    natsSubscription* subscription_ = nullptr;
    std::string inbox_;
    std::size_t limit_;
    std::size_t asked_ = 0;  // messages still to come for the request that is out
    Clock::time_point asked_at_{};
    Clock::time_point pull_at_{};
    milliseconds ack_wait_{};
    Clock::time_point progress_at_;
    std::map<std::uint64_t, std::string> under_way_;  // by sequence: where to acknowledge
    std::vector<std::uint64_t> done_;
};

NatsFeed::NatsFeed(const Options& options, const intake::Decoder& decoder)
    : intake::BrokerFeed(options.pace),
      options_(options),
      decoder_(decoder),
      link_(options.server),
      limit_(std::min<std::size_t>(options.pace.batch, 100)) {
    const auto info = find_nats_consumer(link_, options.consumer, options.create_consumer);
    ack_wait_ = std::chrono::duration_cast<milliseconds>(std::chrono::nanoseconds(info->Config->AckWait));
    if (ack_wait_ <= 0ms) ack_wait_ = 30s;
    progress_at_ = Clock::now() + ack_wait_ / 3;
    arrivals_->wake_fd = ::dup(wake_fd());
    natsInbox* inbox = nullptr;
    need_nats(natsInbox_Create(&inbox), "naming an inbox");
    inbox_ = inbox;
    natsInbox_Destroy(inbox);
    // The library may call back until it says that it does so no more.
    auto* closure = new std::shared_ptr<Arrivals>(arrivals_);
    const auto status = natsConnection_Subscribe(
        &subscription_, link_.connection(), inbox_.c_str(),
        [](natsConnection*, natsSubscription*, natsMsg* message, void* to) {
            (*static_cast<std::shared_ptr<Arrivals>*>(to))->put(message);
        },
        closure);
    if (status != NATS_OK) delete closure;
    need_nats(status, "subscribing");
    natsSubscription_SetOnCompleteCB(
        subscription_, [](void* to) { delete static_cast<std::shared_ptr<Arrivals>*>(to); }, closure);
    natsSubscription_SetPendingLimits(subscription_, -1, -1);  // what is asked for bounds it
}

NatsFeed::~NatsFeed() {
    give_back();
    natsSubscription_Destroy(subscription_);
}

// Ask for the next messages, unless enough are on their way.
void NatsFeed::pull() {
    if (Clock::now() < (asked_ > 0 ? asked_at_ + pull_time + 2s : pull_at_)) return;
    const std::string subject =
        "$JS.API.CONSUMER.MSG.NEXT." + options_.consumer.stream + "." + options_.consumer.durable;
    const std::string request = "{\"batch\":" + std::to_string(limit_) + ",\"expires\":" +
                                std::to_string(std::chrono::nanoseconds(pull_time).count()) + "}";
    need_nats(natsConnection_PublishRequest(link_.connection(), subject.c_str(), inbox_.c_str(),
                                            request.data(), static_cast<int>(request.size())),
              "asking for messages");
    asked_ = limit_;
    asked_at_ = Clock::now();
}

std::shared_ptr<intake::BrokerBatch> NatsFeed::receive(Clock::time_point until) {
    if (natsConnection_IsClosed(link_.connection())) throw ConnectionError("nats: the connection was closed");
    show_progress();
    pull();
    auto batch = std::make_shared<NatsBatch>();
    natsMsg* message = arrivals_->take();
    if (message == nullptr) {
        wait(-1, 0, std::min(until, Clock::now() + 200ms));
        message = arrivals_->take();
    }
    while (message != nullptr) {
        take(*batch, message);
        message = is_full(*batch) ? nullptr : arrivals_->take();
    }
    if (batch->events.empty()) return nullptr;
    const std::size_t each = batch->bytes / batch->events.size() + 1;
    limit_ = std::clamp<std::size_t>(std::min(pace().batch_bytes / each, limit_ * 4), 1, pace().batch);
    return batch;
}

void NatsFeed::take(NatsBatch& batch, natsMsg* message) {
    const char* reply = natsMsg_GetReply(message);
    const auto standing = reply == nullptr ? std::nullopt : read_nats_standing(reply);
    if (!standing) {
        const MessagePtr destroy(message, &natsMsg_Destroy);
        return hear_status(message);
    }
    if (asked_ > 0) --asked_;
    batch.messages.push_back(message);
    batch.sequences.push_back(standing->sequence);
    under_way_[standing->sequence] = reply;
    intake::Incoming incoming;
    incoming.topic = natsMsg_GetSubject(message);
    incoming.body =
        std::string_view(natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message)));
    if (incoming.body->data() == nullptr) incoming.body = "";
    // The time tells a stream that was deleted and made anew from the old one.
    incoming.position = options_.consumer.stream + "/" + std::to_string(standing->sequence) + "@" +
                        std::to_string(standing->nanoseconds);
    incoming.time = intake::broker_time(std::chrono::nanoseconds(standing->nanoseconds));
    add_headers(batch, message, standing->sequence, incoming);
    decoder_.decode(incoming, batch);
}

// The server ends a request with words instead of messages.
void NatsFeed::hear_status(natsMsg* message) {
    const char* status = nullptr;
    const char* words = nullptr;
    natsMsgHeader_Get(message, "Status", &status);
    natsMsgHeader_Get(message, "Description", &words);
    const std::string_view code = status == nullptr ? "" : status;
    if (code == "100") return;  // a heartbeat
    asked_ = 0;
    if (code == "404" || code == "408") return;
    const std::string said = words == nullptr ? std::string(code) : words;
    if (code == "503" || said.find("Deleted") != std::string::npos)
        throw ConnectionError("nats, asking for messages: " + (code == "503" ? "no responders" : said));
    pull_at_ = Clock::now() + 50ms;  // too many are under way, say
}

void NatsFeed::add_headers(NatsBatch& batch, natsMsg* message, std::uint64_t sequence,
                           intake::Incoming& incoming) {
    const char** names = nullptr;
    int count = 0;
    if (natsMsgHeader_Keys(message, &names, &count) != NATS_OK) return;
    bool doubtful = false;
    for (int i = 0; i < count; ++i) {
        const char** values = nullptr;
        int many = 0;
        if (natsMsgHeader_Values(message, names[i], &values, &many) != NATS_OK) continue;
        for (int j = 0; j < many; ++j) {
            const std::string_view value(values[j]);
            // The library reads an empty value as the line that follows.
            const auto colon = value.find(':');
            doubtful = doubtful || (colon != std::string_view::npos && colon > 0 &&
                                    value.substr(0, colon).find(' ') == std::string_view::npos);
            incoming.headers.push_back({batch.keep(names[i]), batch.keep(std::string(value))});
        }
        std::free(values);
    }
    std::free(names);
    if (doubtful) add_stored_headers(batch, sequence, incoming);
    for (const auto& header : incoming.headers)
        if (header.name == "Nats-Msg-Id") incoming.message_id = header.value;
}

// Take the headers from the stream itself, where the library may have misread them.
void NatsFeed::add_stored_headers(NatsBatch& batch, std::uint64_t sequence, intake::Incoming& incoming) {
    const std::string subject = "$JS.API.STREAM.MSG.GET." + options_.consumer.stream;
    const std::string request = "{\"seq\":" + std::to_string(sequence) + "}";
    natsMsg* raw = nullptr;
    need_nats(
        natsConnection_Request(&raw, link_.connection(), subject.c_str(), request.data(),
                               static_cast<int>(request.size()), options_.server.connect_timeout.count()),
        "reading a message's headers");
    const MessagePtr answer(raw, &natsMsg_Destroy);
    const auto headers = read_stored_headers(
        {natsMsg_GetData(raw), static_cast<std::size_t>(natsMsg_GetDataLength(raw))}, batch);
    if (headers) incoming.headers = *headers;
}

void NatsFeed::publish(const std::string& subject, const char* word) {
    need_nats(natsConnection_PublishString(link_.connection(), subject.c_str(), word), "answering a message");
}

void NatsFeed::acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) {
    const auto& own = static_cast<const NatsBatch&>(batch);
    done_.insert(done_.end(), own.sequences.begin() + static_cast<std::ptrdiff_t>(from),
                 own.sequences.begin() + static_cast<std::ptrdiff_t>(to));
}

bool NatsFeed::send_acknowledgements() {
    std::string last;
    for (const auto sequence : done_) {
        const auto found = under_way_.find(sequence);
        if (found == under_way_.end()) continue;  // came twice, and the other one was first
        if (!last.empty()) publish(last, "+ACK");
        last = std::move(found->second);
        under_way_.erase(found);
    }
    done_.clear();
    if (last.empty()) return true;
    // The server's answer to the last one says that it has heard those before.
    natsMsg* answer = nullptr;
    need_nats(natsConnection_RequestString(&answer, link_.connection(), last.c_str(), "+ACK",
                                           pace().ack_timeout.count()),
              "acknowledging");
    natsMsg_Destroy(answer);
    return true;
}

// Ask for more time for what is under way.
void NatsFeed::show_progress() {
    if (Clock::now() < progress_at_) return;
    progress_at_ = Clock::now() + ack_wait_ / 3;
    for (const auto& [sequence, reply] : under_way_) publish(reply, "+WPI");
}

void NatsFeed::idle(Clock::time_point until) {
    if (natsConnection_IsClosed(link_.connection())) throw ConnectionError("nats: the connection was closed");
    show_progress();
    wait(-1, 0, until);
}

// Let the server deliver again at once what was read and is not settled.
void NatsFeed::give_back() {
    if (natsConnection_IsClosed(link_.connection())) return;
    while (natsMsg* message = arrivals_->take()) {
        const char* reply = natsMsg_GetReply(message);
        if (reply != nullptr && read_nats_standing(reply))
            natsConnection_PublishString(link_.connection(), reply, later);
        natsMsg_Destroy(message);
    }
    for (const auto& [sequence, reply] : under_way_)
        natsConnection_PublishString(link_.connection(), reply.c_str(), later);
    under_way_.clear();
    natsConnection_FlushTimeout(link_.connection(), 1000);
}

void NatsFeed::leave() {
    // Nothing more may come of a request that is out.
    natsSubscription_Unsubscribe(subscription_);
    give_back();
}

class NatsSource final : public BrokerSource {
  public:
    NatsSource(Options options, intake::Decoder decoder)
        : options_(std::move(options)), decoder_(std::move(decoder)) {}

    std::unique_ptr<relay::Feed> open() const override {
        return std::make_unique<NatsFeed>(options_, decoder_);
    }

    void check() const override {
        const NatsLink link(options_.server);
        jsStreamInfo* info = nullptr;
        jsErrCode code{};
        const auto status =
            js_GetStreamInfo(&info, link.jetstream(), options_.consumer.stream.c_str(), nullptr, &code);
        jsStreamInfo_Destroy(info);
        if (status == NATS_NOT_FOUND) throw Error("nats has no stream " + options_.consumer.stream);
        if (status == NATS_NO_RESPONDERS)
            throw Error("the server has no JetStream: start it with --jetstream");
        need_nats(status, "looking for the stream " + options_.consumer.stream);
        if (!options_.create_consumer) find_nats_consumer(link, options_.consumer, false);
    }

  private:
    Options options_;
    intake::Decoder decoder_;
};

// A name that may be a part of a subject.
void check_name(const relay::Settings& settings, const std::string& key, const std::string& name) {
    if (name.empty() || name.find_first_of(" .*>\t\r\n/\\") != std::string::npos)
        settings.refuse(key, "is \"" + name + "\"", "nats takes no spaces, dots, slashes, * or > in it");
}

}  // namespace

std::unique_ptr<BrokerSource> make_nats_source(const relay::Settings& settings, const Reader& reader) {
    Options options;
    options.server = read_nats_server(settings);
    options.consumer.stream = settings.text("stream");
    options.consumer.durable = settings.text("durable", reader.pipeline);
    check_name(settings, "stream", options.consumer.stream);
    check_name(settings, "durable", options.consumer.durable);
    options.consumer.subject = settings.text("subject", "");
    options.create_consumer = settings.boolean("create_consumer", true);
    const std::string start = settings.text("start", "earliest");
    if (start != "earliest" && start != "latest")
        settings.refuse("start", "is \"" + start + "\"", "write one of: earliest, latest");
    options.consumer.from_end = start == "latest";
    options.consumer.ack_wait = settings.duration("ack_wait", 30s);
    if (options.consumer.ack_wait < 500ms) settings.refuse("ack_wait", "must be at least 500ms");
    options.consumer.max_ack_pending = settings.number("max_ack_pending", 20'000);
    if (options.consumer.max_ack_pending < 1) settings.refuse("max_ack_pending", "must be at least 1");
    options.pace = intake::BrokerFeed::Pace::read(settings);
    options.server.ack_timeout = options.pace.ack_timeout;
    return std::make_unique<NatsSource>(std::move(options),
                                        intake::Decoder(settings, "nats", nats_form.headers));
}

}  // namespace baton::brokers
