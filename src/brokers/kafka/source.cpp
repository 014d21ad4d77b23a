#include "brokers/kafka/source.hpp"

#include <algorithm>
#include <array>

#include "brokers/kafka/client.hpp"
#include "brokers/kafka/form.hpp"
#include "brokers/kafka/offsets.hpp"
#include "intake/broker_feed.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// Delivery rests on these: users cannot change them.
constexpr std::array<KafkaProperty, 4> fixed{{
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"enable.partition.eof", "false"},
    // What retention has taken is gone; what is left must not be skipped, wherever a new group begins.
    {"auto.offset.reset", "earliest"},
}};

// Better for a relay than the library's own; users may change them.
constexpr std::array<KafkaProperty, 6> defaults{{
    {"client.id", "baton"},
    {"fetch.wait.max.ms", "100"},
    {"partition.assignment.strategy", "range,roundrobin"},
    {"queued.max.messages.kbytes", "16384"},
    {"reconnect.backoff.max.ms", "2000"},
    {"socket.keepalive.enable", "true"},
}};

struct Options {
    KafkaProperties properties;
    std::vector<std::string> topics;
    bool from_end = false;
    milliseconds connect_timeout{};
    intake::BrokerFeed::Pace pace;
};

// The library's consumer. Messages must not outlive it, so every batch holds it too.
struct Consumer {
    rd_kafka_t* handle = nullptr;
    rd_kafka_queue_t* messages = nullptr;
    rd_kafka_queue_t* commits = nullptr;

    Consumer() = default;
    Consumer(const Consumer&) = delete;
    Consumer& operator=(const Consumer&) = delete;
    ~Consumer() {
        if (handle == nullptr) return;
        rd_kafka_queue_destroy(messages);
        rd_kafka_queue_destroy(commits);
        rd_kafka_destroy(handle);
    }
};

struct KafkaBatch final : intake::BrokerBatch {
    std::shared_ptr<Consumer> consumer;
    std::vector<rd_kafka_message_t*> messages;
    std::vector<KafkaOffsets::Origin> origins;

    ~KafkaBatch() override {
        events.clear();
        for (auto* message : messages) rd_kafka_message_destroy(message);
    }
};

class KafkaFeed final : public intake::BrokerFeed {
  public:
    KafkaFeed(const Options& options, const intake::Decoder& decoder);
    ~KafkaFeed() override;
    KafkaFeed(const KafkaFeed&) = delete;
    KafkaFeed& operator=(const KafkaFeed&) = delete;

  protected:
    std::shared_ptr<intake::BrokerBatch> receive(Clock::time_point until) override;
    void acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) override;
    bool send_acknowledgements() override;
    void idle(Clock::time_point until) override;
    void leave() override;
    void wake() override;

  private:
    rd_kafka_message_t* poll(milliseconds patience);
    void check_error(const rd_kafka_message_t& message);
    void add(KafkaBatch& batch, rd_kafka_message_t* message);
    void pause(bool on);
    void rebalance(rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t* partitions);
    void gain(rd_kafka_topic_partition_list_t* partitions);
    void lose(const rd_kafka_topic_partition_list_t* partitions);
    void begin_commit();
    void finish_commit(milliseconds patience);
    void close_consumer();

    static void on_rebalance(rd_kafka_t*, rd_kafka_resp_err_t what,
                             rd_kafka_topic_partition_list_t* partitions, void* self);
    static void on_error(rd_kafka_t*, int error, const char* reason, void* self);

    const Options& options_;
    const intake::Decoder& decoder_;
    std::shared_ptr<Consumer> consumer_ = std::make_shared<Consumer>();
    KafkaOffsets offsets_;
    std::vector<rd_kafka_message_t*> held_;  // came while nothing may be read
    std::optional<Clock::time_point> pressed_since_;
    bool paused_ = false;
    bool committing_ = false;
    std::mutex closing_;
    bool closed_ = false;
    std::string failure_;  // found in a callback, thrown outside of it
};

KafkaFeed::KafkaFeed(const Options& options, const intake::Decoder& decoder)
    : intake::BrokerFeed(options.pace), options_(options), decoder_(decoder) {
    KafkaConf conf = make_kafka_conf(options.properties);
    rd_kafka_conf_set_opaque(conf.get(), this);
    rd_kafka_conf_set_rebalance_cb(conf.get(), &KafkaFeed::on_rebalance);
    rd_kafka_conf_set_error_cb(conf.get(), &KafkaFeed::on_error);
    rd_kafka_t* handle = make_kafka_handle(RD_KAFKA_CONSUMER, std::move(conf));
    rd_kafka_poll_set_consumer(handle);
    consumer_->messages = rd_kafka_queue_get_consumer(handle);
    consumer_->commits = rd_kafka_queue_new(handle);
    consumer_->handle = handle;
    const auto topics = make_kafka_partitions();
    for (const auto& topic : options.topics)
        rd_kafka_topic_partition_list_add(topics.get(), topic.c_str(), RD_KAFKA_PARTITION_UA);
    const auto error = rd_kafka_subscribe(handle, topics.get());
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw Error(std::string("cannot subscribe: ") + rd_kafka_err2str(error));
}

KafkaFeed::~KafkaFeed() {
    for (auto* message : held_) rd_kafka_message_destroy(message);
    close_consumer();
}

// Leave the group, so that the others need not wait for the session's end.
void KafkaFeed::close_consumer() {
    {
        const std::lock_guard lock(closing_);
        if (std::exchange(closed_, true)) return;
    }
    rd_kafka_consumer_close(consumer_->handle);
}

void KafkaFeed::leave() {
    close_consumer();
}

void KafkaFeed::wake() {
    intake::BrokerFeed::wake();
    // A consumer that is closing would take it for the end.
    const std::lock_guard lock(closing_);
    if (!closed_) rd_kafka_queue_yield(consumer_->messages);
}

void KafkaFeed::on_rebalance(rd_kafka_t*, rd_kafka_resp_err_t what,
                             rd_kafka_topic_partition_list_t* partitions, void* self) {
    static_cast<KafkaFeed*>(self)->rebalance(what, partitions);
}

// The library connects again by itself: say what is wrong meanwhile.
void KafkaFeed::on_error(rd_kafka_t* handle, int error, const char* reason, void* self) {
    auto& feed = *static_cast<KafkaFeed*>(self);
    feed.set_trouble(std::string(rd_kafka_err2str(static_cast<rd_kafka_resp_err_t>(error))) + ": " + reason);
    if (error != RD_KAFKA_RESP_ERR__FATAL) return;
    std::array<char, 512> words{};
    rd_kafka_fatal_error(handle, words.data(), words.size());
    feed.failure_ = words.data();
}

void KafkaFeed::rebalance(rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t* partitions) {
    rd_kafka_t* handle = consumer_->handle;
    const bool step_by_step = std::string_view(rd_kafka_rebalance_protocol(handle)) == "COOPERATIVE";
    rd_kafka_error_t* error = nullptr;
    if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        gain(partitions);
        if (step_by_step)
            error = rd_kafka_incremental_assign(handle, partitions);
        else
            rd_kafka_assign(handle, partitions);
        if (paused_) rd_kafka_pause_partitions(handle, partitions);
    } else if (what == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS) {
        lose(partitions);
        if (step_by_step)
            error = rd_kafka_incremental_unassign(handle, partitions);
        else
            rd_kafka_assign(handle, nullptr);
    } else {
        offsets_.lose_all();
        rd_kafka_assign(handle, nullptr);
        failure_ = rd_kafka_err2str(what);
    }
    if (error == nullptr) return;
    failure_ = rd_kafka_error_string(error);
    rd_kafka_error_destroy(error);
}

void KafkaFeed::gain(rd_kafka_topic_partition_list_t* partitions) {
    offsets_.gain(*partitions);
    if (!options_.from_end) return;
    // Only a group that has no offset begins at the end.
    const auto error = rd_kafka_committed(consumer_->handle, partitions, 10'000);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        failure_ = std::string("cannot ask for the group's offsets: ") + rd_kafka_err2str(error);
        return;
    }
    for (int i = 0; i < partitions->cnt; ++i)
        if (partitions->elems[i].offset == RD_KAFKA_OFFSET_INVALID)
            partitions->elems[i].offset = RD_KAFKA_OFFSET_END;
}

// Commit what is settled of partitions that go to somebody else, and forget what is under way.
void KafkaFeed::lose(const rd_kafka_topic_partition_list_t* partitions) {
    if (rd_kafka_assignment_lost(consumer_->handle) == 0) {
        take_notes();
        const auto deadline = Clock::now() + std::min(pace().ack_timeout, milliseconds(5000));
        while (!offsets_.all_committed() && Clock::now() < deadline) {
            begin_commit();
            finish_commit(100ms);
        }
    }
    offsets_.lose(*partitions);
}

void KafkaFeed::begin_commit() {
    if (committing_) return;
    const auto list = offsets_.uncommitted();
    if (list->cnt == 0) return;
    const auto error =
        rd_kafka_commit_queue(consumer_->handle, list.get(), consumer_->commits, nullptr, nullptr);
    committing_ = error == RD_KAFKA_RESP_ERR_NO_ERROR;
    if (!committing_) set_trouble(std::string("cannot commit: ") + rd_kafka_err2str(error));
}

// Take the broker's answer to a commit. What it refused is tried again, unless it is ours no more.
void KafkaFeed::finish_commit(milliseconds patience) {
    if (!committing_) return;
    rd_kafka_event_t* event = rd_kafka_queue_poll(consumer_->commits, static_cast<int>(patience.count()));
    if (event == nullptr) return;
    committing_ = false;
    const auto error = rd_kafka_event_error(event);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        set_trouble(std::string("cannot commit: ") + rd_kafka_err2str(error));
    else if (const auto* answer = rd_kafka_event_topic_partition_list(event); answer != nullptr)
        offsets_.note_committed(*answer);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) set_trouble({});
    rd_kafka_event_destroy(event);
}

bool KafkaFeed::send_acknowledgements() {
    finish_commit(0ms);
    begin_commit();
    finish_commit(20ms);
    return offsets_.all_committed() && !committing_;
}

void KafkaFeed::acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) {
    const auto& own = static_cast<const KafkaBatch&>(batch);
    for (std::size_t i = from; i < to; ++i) offsets_.settle(*own.messages[i], own.origins[i]);
}

// Stop or go on fetching, without leaving the group.
void KafkaFeed::pause(bool on) {
    if (on == paused_) return;
    paused_ = on;
    const auto list = offsets_.partitions();
    if (on)
        rd_kafka_pause_partitions(consumer_->handle, list.get());
    else
        rd_kafka_resume_partitions(consumer_->handle, list.get());
}

// Give the library its turn; returns a message that is one, if there is one.
rd_kafka_message_t* KafkaFeed::poll(milliseconds patience) {
    rd_kafka_message_t* message = rd_kafka_consumer_poll(
        consumer_->handle, static_cast<int>(std::max<milliseconds::rep>(patience.count(), 0)));
    if (!failure_.empty()) {
        if (message != nullptr) rd_kafka_message_destroy(message);
        throw ConnectionError("kafka: " + failure_);
    }
    if (message == nullptr || message->err == RD_KAFKA_RESP_ERR_NO_ERROR) return message;
    const std::unique_ptr<rd_kafka_message_t, decltype(&rd_kafka_message_destroy)> destroy(
        message, &rd_kafka_message_destroy);
    check_error(*message);
    return nullptr;
}

void KafkaFeed::check_error(const rd_kafka_message_t& message) {
    const std::string words = rd_kafka_message_errstr(&message);
    set_trouble(words);
    switch (message.err) {
        case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
        case RD_KAFKA_RESP_ERR__AUTHENTICATION:
        case RD_KAFKA_RESP_ERR__FATAL:
            throw ConnectionError("kafka: " + words);
        default:
            return;  // the library tries again
    }
}

std::shared_ptr<intake::BrokerBatch> KafkaFeed::receive(Clock::time_point until) {
    pressed_since_.reset();
    pause(false);
    auto batch = std::make_shared<KafkaBatch>();
    batch->consumer = consumer_;
    std::vector<rd_kafka_message_t*> held;
    held.swap(held_);
    for (auto* message : held) add(*batch, message);
    if (batch->events.empty()) {
        const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
        if (auto* message = poll(left)) add(*batch, message);
    }
    while (!batch->messages.empty() && !is_full(*batch)) {
        rd_kafka_message_t* message = poll(0ms);
        if (message == nullptr) break;
        add(*batch, message);
    }
    if (batch->events.empty()) return nullptr;
    set_trouble({});
    return batch;
}

void KafkaFeed::add(KafkaBatch& batch, rd_kafka_message_t* message) {
    const auto origin = offsets_.origin_of(*message);
    if (!origin) return rd_kafka_message_destroy(message);  // taken away meanwhile
    batch.messages.push_back(message);
    batch.origins.push_back(*origin);
    intake::Incoming incoming;
    incoming.topic = rd_kafka_topic_name(message->rkt);
    if (message->payload != nullptr)
        incoming.body = std::string_view(static_cast<const char*>(message->payload), message->len);
    if (message->key != nullptr)
        incoming.key = std::string_view(static_cast<const char*>(message->key), message->key_len);
    rd_kafka_timestamp_type_t kind = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    const std::int64_t time = rd_kafka_message_timestamp(message, &kind);
    if (kind != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE) incoming.time = intake::broker_time(milliseconds(time));
    // The time tells a topic that was deleted and made anew from the old one.
    incoming.position = std::string(incoming.topic) + "/" + std::to_string(message->partition) + "/" +
                        std::to_string(message->offset) + "@" + std::to_string(time);
    rd_kafka_headers_t* headers = nullptr;
    if (rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const char* name = nullptr;
        const void* value = nullptr;
        std::size_t size = 0;
        for (std::size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == 0; ++i)
            incoming.headers.push_back({name, {static_cast<const char*>(value), size}});
    }
    decoder_.decode(incoming, batch);
}

// While nothing may be read: wait a moment first, because pausing throws away what was fetched.
void KafkaFeed::idle(Clock::time_point until) {
    if (!pressed_since_) pressed_since_ = Clock::now();
    if (Clock::now() < *pressed_since_ + 1s) {
        wait(-1, 0, until);
        return;
    }
    pause(true);
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (auto* message = poll(left)) held_.push_back(message);
}

class KafkaSource final : public BrokerSource {
  public:
    KafkaSource(Options options, intake::Decoder decoder)
        : options_(std::move(options)), decoder_(std::move(decoder)) {}

    std::unique_ptr<relay::Feed> open() const override {
        return std::make_unique<KafkaFeed>(options_, decoder_);
    }

    void check() const override {
        const std::unique_ptr<rd_kafka_t, decltype(&rd_kafka_destroy)> handle(
            make_kafka_handle(RD_KAFKA_CONSUMER, make_kafka_conf(options_.properties)), &rd_kafka_destroy);
        const rd_kafka_metadata_t* raw = nullptr;
        const auto error = rd_kafka_metadata(handle.get(), 1, nullptr, &raw,
                                             static_cast<int>(options_.connect_timeout.count()));
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
            throw ConnectionError("cannot reach kafka at " + options_.properties.at("bootstrap.servers") +
                                  ": " + rd_kafka_err2str(error));
        const std::unique_ptr<const rd_kafka_metadata_t, decltype(&rd_kafka_metadata_destroy)> metadata(
            raw, &rd_kafka_metadata_destroy);
        for (const auto& topic : options_.topics) {
            bool found = topic.starts_with('^');
            for (int i = 0; i < metadata->topic_cnt; ++i) found = found || metadata->topics[i].topic == topic;
            if (!found) throw Error("kafka has no topic " + topic + " that may be read");
        }
    }

  private:
    Options options_;
    intake::Decoder decoder_;
};

}  // namespace

std::unique_ptr<BrokerSource> make_kafka_source(const relay::Settings& settings, const Reader& reader) {
    Options options;
    if (settings.table("properties").contains("group.id"))
        settings.refuse("properties.group.id", "cannot be set", "set group");
    options.properties = read_kafka_properties(settings, defaults, fixed);
    options.properties["group.id"] = settings.text("group", reader.pipeline);
    options.topics = settings.list("topics");
    if (options.topics.empty())
        options.topics = {settings.text("topic")};
    else if (settings.has("topic"))
        settings.refuse("topic", "stands beside topics", "set one of them");
    const std::string start = settings.text("start", "earliest");
    if (start != "earliest" && start != "latest")
        settings.refuse("start", "is \"" + start + "\"", "write one of: earliest, latest");
    options.from_end = start == "latest";
    options.connect_timeout = settings.duration("connect_timeout", 10s);
    options.pace = intake::BrokerFeed::Pace::read(settings);
    return std::make_unique<KafkaSource>(std::move(options),
                                         intake::Decoder(settings, "kafka", kafka_form.headers));
}

}  // namespace baton::brokers
