#include "brokers/kafka/source.hpp"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <array>
#include <map>

#include "brokers/kafka/form.hpp"
#include "intake/broker_feed.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// Delivery rests on these: users cannot change them.
constexpr std::array<std::pair<const char*, const char*>, 4> fixed{{
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"enable.partition.eof", "false"},
    // What retention has taken is gone; what is left must not be skipped, wherever a new group begins.
    {"auto.offset.reset", "earliest"},
}};

// Better for a relay than the library's own; users may change them.
constexpr std::array<std::pair<const char*, const char*>, 6> defaults{{
    {"client.id", "baton"},
    {"fetch.wait.max.ms", "100"},
    {"partition.assignment.strategy", "range,roundrobin"},
    {"queued.max.messages.kbytes", "16384"},
    {"reconnect.backoff.max.ms", "2000"},
    {"socket.keepalive.enable", "true"},
}};

struct Options {
    std::map<std::string, std::string> properties;
    std::vector<std::string> topics;
    bool from_end = false;
    milliseconds connect_timeout{};
    intake::BrokerFeed::Pace pace;
};

using Conf = std::unique_ptr<rd_kafka_conf_t, decltype(&rd_kafka_conf_destroy)>;
using PartitionList =
    std::unique_ptr<rd_kafka_topic_partition_list_t, decltype(&rd_kafka_topic_partition_list_destroy)>;

PartitionList make_list() {
    return {rd_kafka_topic_partition_list_new(8), &rd_kafka_topic_partition_list_destroy};
}

// Set one property; returns the library's complaint, or nothing.
std::string set_property(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
    std::array<char, 512> error{};
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error.data(), error.size()) == RD_KAFKA_CONF_OK)
        return {};
    return error.data();
}

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

// Where a message came from, and in which of our ownerships of that partition.
struct Origin {
    std::uint64_t ownership;
    std::int64_t offset;
};

struct KafkaBatch final : intake::BrokerBatch {
    std::shared_ptr<Consumer> consumer;
    std::vector<rd_kafka_message_t*> messages;
    std::vector<Origin> origins;

    ~KafkaBatch() override {
        events.clear();
        for (auto* message : messages) rd_kafka_message_destroy(message);
    }
};

using Partition = std::pair<std::string, std::int32_t>;

struct Owned {
    std::uint64_t ownership = 0;
    std::int64_t settled = RD_KAFKA_OFFSET_INVALID;    // the offset behind the last settled message
    std::int64_t committed = RD_KAFKA_OFFSET_INVALID;  // ... of which the broker knows
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
    bool all_committed() const;
    void close_consumer();
    Owned* owned(const rd_kafka_message_t& message);

    static void on_rebalance(rd_kafka_t*, rd_kafka_resp_err_t what,
                             rd_kafka_topic_partition_list_t* partitions, void* self);
    static void on_error(rd_kafka_t*, int error, const char* reason, void* self);

    const Options& options_;
    const intake::Decoder& decoder_;
    std::shared_ptr<Consumer> consumer_ = std::make_shared<Consumer>();
    std::map<Partition, Owned> owned_;
    std::uint64_t ownerships_ = 0;
    std::vector<rd_kafka_message_t*> held_;  // came while nothing may be read
    std::optional<Clock::time_point> pressed_since_;
    bool paused_ = false;
    bool committing_ = false;
    std::mutex closing_;
    bool closed_ = false;
    std::string failure_;  // found in a callback, thrown outside of it
};

Conf make_conf(const Options& options) {
    Conf conf(rd_kafka_conf_new(), &rd_kafka_conf_destroy);
    for (const auto& [name, value] : options.properties)
        if (const auto complaint = set_property(conf.get(), name, value); !complaint.empty())
            throw Error(complaint);
    rd_kafka_conf_set_log_cb(conf.get(), [](const rd_kafka_t*, int, const char*, const char*) {});
    return conf;
}

rd_kafka_t* make_handle(Conf conf) {
    std::array<char, 512> error{};
    rd_kafka_t* handle = rd_kafka_new(RD_KAFKA_CONSUMER, conf.get(), error.data(), error.size());
    if (handle == nullptr) throw Error("cannot make a kafka consumer: " + std::string(error.data()));
    [[maybe_unused]] const auto* owned_by_handle = conf.release();
    return handle;
}

KafkaFeed::KafkaFeed(const Options& options, const intake::Decoder& decoder)
    : intake::BrokerFeed(options.pace), options_(options), decoder_(decoder) {
    Conf conf = make_conf(options);
    rd_kafka_conf_set_opaque(conf.get(), this);
    rd_kafka_conf_set_rebalance_cb(conf.get(), &KafkaFeed::on_rebalance);
    rd_kafka_conf_set_error_cb(conf.get(), &KafkaFeed::on_error);
    rd_kafka_t* handle = make_handle(std::move(conf));
    rd_kafka_poll_set_consumer(handle);
    consumer_->messages = rd_kafka_queue_get_consumer(handle);
    consumer_->commits = rd_kafka_queue_new(handle);
    consumer_->handle = handle;
    const auto topics = make_list();
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
        owned_.clear();
        rd_kafka_assign(handle, nullptr);
        failure_ = rd_kafka_err2str(what);
    }
    if (error == nullptr) return;
    failure_ = rd_kafka_error_string(error);
    rd_kafka_error_destroy(error);
}

void KafkaFeed::gain(rd_kafka_topic_partition_list_t* partitions) {
    for (int i = 0; i < partitions->cnt; ++i)
        owned_[{partitions->elems[i].topic, partitions->elems[i].partition}] = {.ownership = ++ownerships_};
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
        while (!all_committed() && Clock::now() < deadline) {
            begin_commit();
            finish_commit(100ms);
        }
    }
    for (int i = 0; i < partitions->cnt; ++i)
        owned_.erase({partitions->elems[i].topic, partitions->elems[i].partition});
}

bool KafkaFeed::all_committed() const {
    return std::all_of(owned_.begin(), owned_.end(),
                       [](const auto& entry) { return entry.second.committed == entry.second.settled; });
}

void KafkaFeed::begin_commit() {
    if (committing_) return;
    const auto list = make_list();
    for (const auto& [place, mine] : owned_)
        if (mine.committed != mine.settled)
            rd_kafka_topic_partition_list_add(list.get(), place.first.c_str(), place.second)->offset =
                mine.settled;
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
    const auto* list = rd_kafka_event_topic_partition_list(event);
    for (int i = 0; error == RD_KAFKA_RESP_ERR_NO_ERROR && list != nullptr && i < list->cnt; ++i) {
        const auto& answer = list->elems[i];
        const auto found = owned_.find({answer.topic, answer.partition});
        if (found == owned_.end()) continue;
        if (answer.err == RD_KAFKA_RESP_ERR_NO_ERROR) found->second.committed = answer.offset;
    }
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) set_trouble({});
    rd_kafka_event_destroy(event);
}

bool KafkaFeed::send_acknowledgements() {
    finish_commit(0ms);
    begin_commit();
    finish_commit(20ms);
    return all_committed() && !committing_;
}

void KafkaFeed::acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) {
    const auto& own = static_cast<const KafkaBatch&>(batch);
    for (std::size_t i = from; i < to; ++i) {
        Owned* mine = owned(*own.messages[i]);
        if (mine != nullptr && mine->ownership == own.origins[i].ownership)
            mine->settled = own.origins[i].offset + 1;
    }
}

Owned* KafkaFeed::owned(const rd_kafka_message_t& message) {
    const auto found = owned_.find({rd_kafka_topic_name(message.rkt), message.partition});
    return found == owned_.end() ? nullptr : &found->second;
}

// Stop or go on fetching, without leaving the group.
void KafkaFeed::pause(bool on) {
    if (on == paused_) return;
    paused_ = on;
    const auto list = make_list();
    for (const auto& [place, mine] : owned_)
        rd_kafka_topic_partition_list_add(list.get(), place.first.c_str(), place.second);
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
    const Owned* owner = owned(*message);
    if (owner == nullptr) return rd_kafka_message_destroy(message);  // taken away meanwhile
    batch.messages.push_back(message);
    batch.origins.push_back({owner->ownership, message->offset});
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
            make_handle(make_conf(options_)), &rd_kafka_destroy);
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

void read_properties(const relay::Settings& settings, Options& options) {
    const Conf trial(rd_kafka_conf_new(), &rd_kafka_conf_destroy);
    for (const auto& [name, value] : defaults) options.properties[name] = value;
    for (const auto& [name, value] : settings.table("properties")) {
        for (const auto& [ours, needed] : fixed)
            if (name == ours && value != needed)
                settings.refuse("properties." + name, "cannot be set",
                                "baton needs it to be " + std::string(needed));
        if (name == "group.id") settings.refuse("properties." + name, "cannot be set", "set group");
        const auto complaint = set_property(trial.get(), name, value);
        if (!complaint.empty())
            settings.refuse("properties." + name, "is refused by librdkafka: " + complaint);
        options.properties[name] = value;
    }
    for (const auto& [name, value] : fixed) options.properties[name] = value;
    if (settings.has("brokers") || !options.properties.contains("bootstrap.servers"))
        options.properties["bootstrap.servers"] = settings.text("brokers");
}

}  // namespace

std::unique_ptr<BrokerSource> make_kafka_source(const relay::Settings& settings, const Reader& reader) {
    Options options;
    read_properties(settings, options);
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
