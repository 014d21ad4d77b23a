#include "brokers/kafka/sink.hpp"

#include <array>
#include <bit>
#include <chrono>
#include <set>
#include <unordered_map>

#include "brokers/kafka/batches.hpp"
#include "brokers/kafka/client.hpp"
#include "brokers/kafka/openings.hpp"
#include "brokers/lease_is_over.hpp"
#include "event/headers.hpp"

namespace baton::brokers {

namespace {

using relay::Verdict;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Delivery rests on these: users cannot change them.
constexpr std::array<KafkaProperty, 8> fixed{{
    {"enable.idempotence", "true"},
    {"acks", "all"},
    {"request.required.acks", "all"},
    {"message.timeout.ms", "0"},
    {"delivery.timeout.ms", "0"},
    {"retries", "2147483647"},
    {"message.send.max.retries", "2147483647"},
    {"enable.gapless.guarantee", "true"},
}};

// Better for a relay than the library's own; users may change them. The pipeline bounds what is in flight, so
// the library's limits only have to be out of the way.
constexpr std::array<KafkaProperty, 9> defaults{{
    {"batch.size", "1000000"},
    {"client.id", "baton"},
    {"linger.ms", "0"},
    {"partitioner", "murmur2_random"},
    {"queue.buffering.max.kbytes", "2097151"},
    {"queue.buffering.max.messages", "0"},
    {"reconnect.backoff.max.ms", "2000"},
    {"socket.keepalive.enable", "true"},
    {"topic.metadata.refresh.interval.ms", "10000"},  // how long a topic that is made late goes unnoticed
}};

struct Options {
    KafkaProperties properties;
    std::string topic;  // when it is the same for every event
    milliseconds connect_timeout{};
    std::size_t max_message_bytes = 0;
    std::size_t batch_bytes = 0;
};

// Whose fault an error is.
Verdict verdict_on(rd_kafka_resp_err_t error) {
    switch (error) {
        case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
        case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
        case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
        case RD_KAFKA_RESP_ERR_INVALID_RECORD:
        case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
        case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
        case RD_KAFKA_RESP_ERR__INVALID_ARG:
            return Verdict::rejected;
        case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
        case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
        case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
        case RD_KAFKA_RESP_ERR__AUTHENTICATION:
            return Verdict::shut;
        default:
            return Verdict::retry;
    }
}

class KafkaSink final : public relay::Sink {
  public:
    explicit KafkaSink(Options options) : options_(std::move(options)), batches_(options_.batch_bytes) {}
    ~KafkaSink() override { close(); }
    KafkaSink(const KafkaSink&) = delete;
    KafkaSink& operator=(const KafkaSink&) = delete;

    relay::SinkTraits traits() const override {
        return {.keeps_order_after_failure = true, .max_message_bytes = options_.max_message_bytes};
    }

    void check() override;
    void send(std::span<const Message> messages) override;
    void collect(std::vector<relay::Delivery>& deliveries, milliseconds patience) override;
    std::string trouble() override { return trouble_; }

  private:
    void open();
    void close();
    void restart();
    void end_draining();
    rd_kafka_topic_t* topic(const std::string& name);
    rd_kafka_resp_err_t produce(const Message& message);
    void take(const Message& message);
    void hand_over(const Message& message);
    void end_opening(std::uint64_t ticket, bool delivered, const std::string& words);
    void report(std::uint64_t ticket, rd_kafka_resp_err_t error, const char* topic);
    void suspect(std::uint64_t ticket, const std::string& words);
    bool is_known_written(const rd_kafka_message_t& message);

    static void on_delivery(rd_kafka_t*, const rd_kafka_message_t* message, void* self);
    static void on_error(rd_kafka_t* producer, int error, const char* reason, void* self);

    Options options_;
    rd_kafka_t* producer_ = nullptr;
    std::unordered_map<std::string, rd_kafka_topic_t*> topics_;
    std::vector<relay::Delivery> done_;
    std::string trouble_;
    KafkaOpenings openings_;
    // Partitions of which the broker has told a place in the log to this producer.
    std::unordered_map<const rd_kafka_topic_t*, std::vector<bool>> told_;
    KafkaBatches batches_;
    std::vector<Message> held_;  // until the next producer begins
    // Something was not taken, at all or of one topic: later ones must not overtake before that is known.
    bool refusing_ = false;
    std::set<std::string, std::less<>> shut_topics_;
    std::string why_;      // ... in words
    bool broken_ = false;  // the library has given up: begin anew
};

void KafkaSink::open() {
    KafkaConf conf = make_kafka_conf(options_.properties);
    batches_.begin();
    set_kafka_property(conf.get(), "batch.size", std::to_string(batches_.bytes()));
    if (batches_.alone()) set_kafka_property(conf.get(), "batch.num.messages", "1");
    rd_kafka_conf_set_opaque(conf.get(), this);
    rd_kafka_conf_set_dr_msg_cb(conf.get(), &KafkaSink::on_delivery);
    rd_kafka_conf_set_error_cb(conf.get(), &KafkaSink::on_error);
    producer_ = make_kafka_handle(RD_KAFKA_PRODUCER, std::move(conf));
}

// End without waiting for brokers; what was in flight is nobody's any more.
void KafkaSink::close() {
    if (producer_ == nullptr) return;
    rd_kafka_purge(producer_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    for (const auto& [name, handle] : topics_) rd_kafka_topic_destroy(handle);
    topics_.clear();
    told_.clear();
    rd_kafka_destroy(producer_);
    producer_ = nullptr;
}

// After a fatal error: report everything that is outstanding as to be sent again, then begin with a new
// producer.
void KafkaSink::restart() {
    rd_kafka_purge(producer_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    while (rd_kafka_outq_len(producer_) > 0) rd_kafka_poll(producer_, 10);
    for (const auto& message : std::exchange(held_, {}))
        done_.push_back({message.ticket, Verdict::retry, trouble_, {}});
    close();
    openings_.forget_all();
    broken_ = false;
}

// Once everything has come back, begin with a producer that makes batches again.
void KafkaSink::end_draining() {
    if (!batches_.draining() || rd_kafka_outq_len(producer_) > 0) return;
    const auto held = std::exchange(held_, {});
    restart();
    open();
    for (const auto& message : held) take(message);
}

void KafkaSink::on_delivery(rd_kafka_t*, const rd_kafka_message_t* message, void* self) {
    auto& sink = *static_cast<KafkaSink*>(self);
    const auto ticket = reinterpret_cast<std::uintptr_t>(message->_private);
    if (verdict_on(message->err) == Verdict::rejected && !sink.batches_.refused())
        return sink.suspect(ticket, rd_kafka_err2str(message->err));
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR && !sink.is_known_written(*message)) {
        constexpr const char* words = "the broker took a later message, but has not told of this one";
        sink.done_.push_back({ticket, Verdict::retry, words, {}});
        return sink.end_opening(ticket, false, words);
    }
    sink.report(ticket, message->err, rd_kafka_topic_name(message->rkt));
}

// Whether a success is the broker's word. When a message is refused for the moment and the next one is taken,
// the library concludes that the first is written, too, and reports it without a place in the log. That holds
// where the broker counts the producer's messages, and not for the first ones of a partition: of a producer
// that it does not know, a broker takes any.
bool KafkaSink::is_known_written(const rd_kafka_message_t& message) {
    auto& told = told_[message.rkt];
    const auto partition = static_cast<std::size_t>(message.partition);
    if (message.offset < 0) return partition < told.size() && told[partition];
    if (partition >= told.size()) told.resize(partition + 1);
    told[partition] = true;
    return true;
}

// The batch of a message was refused: the message goes again by itself.
void KafkaSink::suspect(std::uint64_t ticket, const std::string& words) {
    trouble_ = "a batch was refused, and its messages are sent one by one: " + words;
    broken_ = true;
    done_.push_back({ticket, Verdict::retry, trouble_, {}});
    end_opening(ticket, false, trouble_);
}

void KafkaSink::on_error(rd_kafka_t* producer, int error, const char* reason, void* self) {
    auto& sink = *static_cast<KafkaSink*>(self);
    // That all brokers are down says less than why the last one is.
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && !sink.trouble_.empty()) return;
    sink.trouble_ = std::string(rd_kafka_err2str(static_cast<rd_kafka_resp_err_t>(error))) + ": " + reason;
    if (error != RD_KAFKA_RESP_ERR__FATAL) return;
    std::array<char, 512> words{};
    rd_kafka_fatal_error(producer, words.data(), words.size());
    sink.trouble_ = words.data();
    sink.broken_ = true;
}

void KafkaSink::report(std::uint64_t ticket, rd_kafka_resp_err_t error, const char* topic) {
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        trouble_.clear();
        batches_.judged();
        done_.push_back({ticket, Verdict::delivered, {}, {}});
        end_opening(ticket, true, {});
        return;
    }
    std::string words = rd_kafka_err2str(error);
    const bool purged = error == RD_KAFKA_RESP_ERR__PURGE_QUEUE || error == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
    if (purged && !trouble_.empty()) words = trouble_;
    const Verdict verdict = verdict_on(error);
    if (verdict == Verdict::shut) {
        shut_topics_.emplace(topic);
        words = "topic " + std::string(topic) + ": " + words;
    }
    done_.push_back({ticket, verdict, words, {}});
    end_opening(ticket, false, words);
}

rd_kafka_topic_t* KafkaSink::topic(const std::string& name) {
    const auto found = topics_.find(name);
    if (found != topics_.end()) return found->second;
    rd_kafka_topic_t* handle = rd_kafka_topic_new(producer_, name.c_str(), nullptr);
    if (handle != nullptr) topics_.emplace(name, handle);
    return handle;
}

rd_kafka_resp_err_t KafkaSink::produce(const Message& message) {
    rd_kafka_topic_t* handle = topic(message.destination);
    if (handle == nullptr) return rd_kafka_last_error();
    rd_kafka_headers_t* headers = rd_kafka_headers_new(message.headers.size() + 2);
    const auto add = [headers](std::string_view name, std::string_view value) {
        rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                            static_cast<ssize_t>(value.size()));
    };
    // The message's own id has that name.
    for (const auto& header : message.headers)
        add(is_named(header, "message-id") ? "event-message-id" : header.name, header.value);
    const Header* event_id = find_header(message.headers, "event-id");
    if (event_id == nullptr || event_id->value != message.message_id) add("message-id", message.message_id);
    if (!message.content_type.empty() && find_header(message.headers, "content-type") == nullptr)
        add("content-type", message.content_type);

    std::array<rd_kafka_vu_t, 6> parts{};
    const auto bytes = [](rd_kafka_vu_t& part, rd_kafka_vtype_t type, std::string_view view) {
        part.vtype = type;
        part.u.mem.ptr = const_cast<char*>(view.data());  // copied by the library, see the flag
        part.u.mem.size = view.size();
    };
    parts[0].vtype = RD_KAFKA_VTYPE_RKT;
    parts[0].u.rkt = handle;
    bytes(parts[1], RD_KAFKA_VTYPE_VALUE, message.body);
    bytes(parts[2], RD_KAFKA_VTYPE_KEY, message.key.empty() ? std::string_view{} : message.key);
    parts[3].vtype = RD_KAFKA_VTYPE_OPAQUE;
    parts[3].u.ptr = std::bit_cast<void*>(static_cast<std::uintptr_t>(message.ticket));
    parts[4].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
    parts[4].u.i = RD_KAFKA_MSG_F_COPY;
    parts[5].vtype = RD_KAFKA_VTYPE_HEADERS;
    parts[5].u.headers = headers;
    rd_kafka_error_t* error = rd_kafka_produceva(producer_, parts.data(), parts.size());
    if (error == nullptr) return RD_KAFKA_RESP_ERR_NO_ERROR;
    const rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    rd_kafka_headers_destroy(headers);
    return code;
}

void KafkaSink::send(std::span<const Message> messages) {
    try {
        if (broken_) restart();
        if (producer_ == nullptr) open();
        rd_kafka_poll(producer_, 0);
    } catch (const std::exception& error) {
        why_ = error.what();
        refusing_ = true;
    }
    for (const auto& message : messages) take(message);
    if (producer_ != nullptr) rd_kafka_poll(producer_, 0);
}

// Let a message go, or wait for the first one of its key.
void KafkaSink::take(const Message& message) {
    if (batches_.draining()) return held_.push_back(message);
    if (refusing_ || message.key.empty()) return hand_over(message);
    switch (openings_.enter(message)) {
        case KafkaOpenings::Turn::waits:
            return;
        case KafkaOpenings::Turn::goes:
        case KafkaOpenings::Turn::opens:
            return hand_over(message);
    }
}

// The first one of a key has come back: those behind it go, or come back too.
void KafkaSink::end_opening(std::uint64_t ticket, bool delivered, const std::string& words) {
    for (const auto& message : openings_.end(ticket, delivered)) {
        if (delivered)
            hand_over(message);
        else
            done_.push_back({message.ticket, Verdict::retry, words, {}});
    }
}

// Give a message to the library, unless one before it was not taken.
void KafkaSink::hand_over(const Message& message) {
    if (!refusing_ && !may_send()) {
        refusing_ = true;
        why_ = lease_is_over;
    }
    if (refusing_ || broken_ || shut_topics_.contains(message.destination)) {
        done_.push_back({message.ticket, Verdict::retry, why_.empty() ? trouble_ : why_, {}});
        end_opening(message.ticket, false, done_.back().error);
        return;
    }
    const rd_kafka_resp_err_t error = produce(message);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
    refusing_ = verdict_on(error) == Verdict::retry;
    why_ = rd_kafka_err2str(error);
    broken_ = broken_ || error == RD_KAFKA_RESP_ERR__FATAL;
    report(message.ticket, error, message.destination.c_str());
}

void KafkaSink::collect(std::vector<relay::Delivery>& deliveries, milliseconds patience) {
    const auto end = Clock::now() + patience;
    if (producer_ != nullptr) {
        rd_kafka_poll(producer_, 0);
        end_draining();
        while (done_.empty() && !broken_) {
            const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
            if (left.count() <= 0) break;
            rd_kafka_poll(producer_, static_cast<int>(left.count()));
        }
        if (broken_) restart();
    }
    std::move(done_.begin(), done_.end(), std::back_inserter(deliveries));
    done_.clear();
    shut_topics_.clear();
    why_.clear();
    refusing_ = false;
}

void KafkaSink::check() {
    if (producer_ == nullptr) open();
    rd_kafka_topic_t* handle = options_.topic.empty() ? nullptr : topic(options_.topic);
    const rd_kafka_metadata_t* metadata = nullptr;
    const auto error = rd_kafka_metadata(producer_, 0, handle, &metadata,
                                         static_cast<int>(options_.connect_timeout.count()));
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        rd_kafka_poll(producer_, 0);
        throw ConnectionError("cannot reach kafka at " + options_.properties.at("bootstrap.servers") + ": " +
                              (trouble_.empty() ? rd_kafka_err2str(error) : trouble_));
    }
    std::string words;
    if (handle != nullptr && metadata->topic_cnt == 1 &&
        metadata->topics[0].err != RD_KAFKA_RESP_ERR_NO_ERROR)
        words = rd_kafka_err2str(metadata->topics[0].err);
    rd_kafka_metadata_destroy(metadata);
    if (!words.empty()) throw Error("cannot produce to topic " + options_.topic + ": " + words);
}

}  // namespace

std::unique_ptr<relay::Sink> make_kafka_sink(const relay::Settings& settings) {
    Options options;
    options.properties = read_kafka_properties(settings, defaults, fixed);
    const std::string topic = settings.text("topic", "");
    if (topic.find_first_of("{,") == std::string::npos) options.topic = topic;
    options.connect_timeout = settings.duration("connect_timeout", std::chrono::seconds(10));
    const auto limit = options.properties.find("message.max.bytes");
    options.max_message_bytes = limit == options.properties.end() ? 1'000'000 : std::stoul(limit->second);
    options.batch_bytes = std::stoul(options.properties.at("batch.size"));
    return std::make_unique<KafkaSink>(std::move(options));
}

}  // namespace baton::brokers
