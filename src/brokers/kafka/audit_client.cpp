#include "brokers/kafka/audit_client.hpp"

#include <librdkafka/rdkafka.h>

#include <memory>
#include <thread>

#include "baton/error.hpp"

namespace baton::brokers {

namespace {

using Handle = std::unique_ptr<rd_kafka_t, decltype(&rd_kafka_destroy)>;

Handle connect(rd_kafka_type_t type, KafkaProperties properties, const std::string& group = "baton-audit") {
    char error[512];
    rd_kafka_conf_t* conf = rd_kafka_conf_new();
    if (type == RD_KAFKA_CONSUMER) {
        properties["group.id"] = group;
        properties["enable.auto.commit"] = "false";
        properties["fetch.wait.max.ms"] = "20";
    }
    for (const auto& [name, value] : properties)
        if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error, sizeof error) != RD_KAFKA_CONF_OK) {
            rd_kafka_conf_destroy(conf);
            throw Error(std::string("kafka: ") + error);
        }
    rd_kafka_conf_set_log_cb(conf, [](const rd_kafka_t*, int, const char*, const char*) {});
    rd_kafka_t* handle = rd_kafka_new(type, conf, error, sizeof error);
    if (handle == nullptr) {
        rd_kafka_conf_destroy(conf);
        throw Error(std::string("kafka: ") + error);
    }
    if (type == RD_KAFKA_CONSUMER) rd_kafka_poll_set_consumer(handle);
    return {handle, &rd_kafka_destroy};
}

Received received(const rd_kafka_message_t& message) {
    Received out;
    out.body.assign(static_cast<const char*>(message.payload), message.len);
    if (message.key != nullptr) out.key.assign(static_cast<const char*>(message.key), message.key_len);
    rd_kafka_headers_t* headers = nullptr;
    if (rd_kafka_message_headers(&message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const char* name = nullptr;
        const void* value = nullptr;
        std::size_t size = 0;
        for (std::size_t i = 0;
             rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; ++i)
            out.headers[name] = std::string(static_cast<const char*>(value), size);
    }
    // Only what "event-id" does not say is said again as "message-id".
    const auto named = out.headers.find("message-id");
    out.id = named != out.headers.end() ? named->second : out.headers["event-id"];
    return out;
}

// The first offset of a partition and the one after its last.
std::pair<std::int64_t, std::int64_t> find_ends(rd_kafka_t* consumer, const std::string& topic,
                                                int partition) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    // A new or recovering partition has no leader for a moment.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
        const auto said =
            rd_kafka_query_watermark_offsets(consumer, topic.c_str(), partition, &low, &high, 5000);
        if (said == RD_KAFKA_RESP_ERR_NO_ERROR) return {low, high};
        if (std::chrono::steady_clock::now() > deadline)
            throw Error("partition " + std::to_string(partition) + " of " + topic +
                        " does not tell its end: " + rd_kafka_err2str(said));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

// Read one partition from its beginning to the end that it has now.
void read_partition(rd_kafka_t* consumer, const std::string& topic, int partition,
                    std::vector<Received>& out) {
    const auto [low, high] = find_ends(consumer, topic, partition);
    if (low == high) return;
    rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic.c_str(), partition)->offset = low;
    rd_kafka_assign(consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    for (std::int64_t next = low; next < high;) {
        rd_kafka_message_t* message = rd_kafka_consumer_poll(consumer, 30'000);
        if (message == nullptr) throw Error("the messages of " + topic + " do not come");
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            out.push_back(received(*message));
            next = message->offset + 1;
        }
        rd_kafka_message_destroy(message);
    }
}

}  // namespace

namespace {

// Wait for the answer to an administrative request; returns why it failed, empty when it did not.
template <class Read>
std::string await_answer(rd_kafka_queue_t* queue, const Read& read) {
    rd_kafka_event_t* event = rd_kafka_queue_poll(queue, 60'000);
    if (event == nullptr) return "no answer";
    std::size_t count = 0;
    const rd_kafka_topic_result_t* const* topics = read(event, &count);
    std::string failure;
    if (count == 0)
        failure = rd_kafka_event_error_string(event);
    else if (rd_kafka_topic_result_error(topics[0]) != RD_KAFKA_RESP_ERR_NO_ERROR)
        failure = rd_kafka_topic_result_error_string(topics[0]);
    rd_kafka_event_destroy(event);
    return failure;
}

int count_partitions(rd_kafka_t* consumer, const std::string& topic) {
    rd_kafka_topic_t* handle = rd_kafka_topic_new(consumer, topic.c_str(), nullptr);
    const rd_kafka_metadata_t* metadata = nullptr;
    const auto error = rd_kafka_metadata(consumer, 0, handle, &metadata, 30'000);
    rd_kafka_topic_destroy(handle);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw Error(rd_kafka_err2str(error));
    const int partitions = metadata->topics[0].partition_cnt;
    rd_kafka_metadata_destroy(metadata);
    return partitions;
}

}  // namespace

void create_topic(const KafkaProperties& properties, const std::string& topic, int partitions,
                  const std::map<std::string, std::string>& settings) {
    const Handle admin = connect(RD_KAFKA_PRODUCER, properties);
    char error[512];
    rd_kafka_NewTopic_t* made = rd_kafka_NewTopic_new(topic.c_str(), partitions, -1, error, sizeof error);
    if (made == nullptr) throw Error("cannot create topic " + topic + ": " + error);
    for (const auto& [name, value] : settings)
        rd_kafka_NewTopic_set_config(made, name.c_str(), value.c_str());
    rd_kafka_queue_t* queue = rd_kafka_queue_new(admin.get());
    rd_kafka_CreateTopics(admin.get(), &made, 1, nullptr, queue);
    const std::string failure = await_answer(queue, [](rd_kafka_event_t* event, std::size_t* count) {
        return rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), count);
    });
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewTopic_destroy(made);
    if (!failure.empty()) throw Error("cannot create topic " + topic + ": " + failure);
}

void delete_topic(const KafkaProperties& properties, const std::string& topic) {
    const Handle admin = connect(RD_KAFKA_PRODUCER, properties);
    rd_kafka_DeleteTopic_t* gone = rd_kafka_DeleteTopic_new(topic.c_str());
    rd_kafka_queue_t* queue = rd_kafka_queue_new(admin.get());
    rd_kafka_DeleteTopics(admin.get(), &gone, 1, nullptr, queue);
    const std::string failure = await_answer(queue, [](rd_kafka_event_t* event, std::size_t* count) {
        return rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), count);
    });
    rd_kafka_queue_destroy(queue);
    rd_kafka_DeleteTopic_destroy(gone);
    if (!failure.empty()) throw Error("cannot delete topic " + topic + ": " + failure);
}

std::vector<Received> read_topic(const KafkaProperties& properties, const std::string& topic) {
    const Handle consumer = connect(RD_KAFKA_CONSUMER, properties);
    const int partitions = count_partitions(consumer.get(), topic);
    std::vector<Received> messages;
    for (int partition = 0; partition < partitions; ++partition)
        read_partition(consumer.get(), topic, partition, messages);
    rd_kafka_consumer_close(consumer.get());
    return messages;
}

void produce_bare(const KafkaProperties& properties, const std::string& topic, int partition,
                  const std::string& key, const char* body) {
    const Handle producer = connect(RD_KAFKA_PRODUCER, properties);
    rd_kafka_topic_t* handle = rd_kafka_topic_new(producer.get(), topic.c_str(), nullptr);
    const int failed = rd_kafka_produce(handle, partition, RD_KAFKA_MSG_F_COPY, const_cast<char*>(body),
                                        body == nullptr ? 0 : std::char_traits<char>::length(body),
                                        key.data(), key.size(), nullptr);
    rd_kafka_topic_destroy(handle);
    if (failed != 0 || rd_kafka_flush(producer.get(), 30'000) != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw Error("cannot produce to " + topic);
}

std::size_t kafka_lag(const KafkaProperties& properties, const std::string& topic, const std::string& group) {
    const Handle consumer = connect(RD_KAFKA_CONSUMER, properties, group);
    const int partitions = count_partitions(consumer.get(), topic);
    rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(partitions);
    for (int i = 0; i < partitions; ++i) rd_kafka_topic_partition_list_add(list, topic.c_str(), i);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (rd_kafka_committed(consumer.get(), list, 5000) != RD_KAFKA_RESP_ERR_NO_ERROR)
        if (std::chrono::steady_clock::now() > deadline)
            throw Error("the broker does not tell the offsets of " + group);
    std::size_t lag = 0;
    for (int i = 0; i < partitions; ++i) {
        const auto [low, high] = find_ends(consumer.get(), topic, i);
        const std::int64_t committed = list->elems[i].offset;
        lag += static_cast<std::size_t>(high - (committed < 0 ? low : committed));
    }
    rd_kafka_topic_partition_list_destroy(list);
    return lag;
}

struct KafkaTail::Consumer {
    Handle handle;
};

KafkaTail::KafkaTail(const KafkaProperties& properties, const std::string& topic)
    : consumer_(new Consumer{connect(RD_KAFKA_CONSUMER, properties)}) {
    rd_kafka_t* handle = consumer_->handle.get();
    const int partitions = count_partitions(handle, topic);
    rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(partitions);
    for (int partition = 0; partition < partitions; ++partition)
        rd_kafka_topic_partition_list_add(list, topic.c_str(), partition)->offset = RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_assign(handle, list);
    rd_kafka_topic_partition_list_destroy(list);
}

KafkaTail::~KafkaTail() {
    rd_kafka_consumer_close(consumer_->handle.get());
}

std::vector<Received> KafkaTail::read(std::chrono::milliseconds patience) {
    std::vector<Received> news;
    for (;;) {
        const int wait = news.empty() ? static_cast<int>(patience.count()) : 0;
        rd_kafka_message_t* message = rd_kafka_consumer_poll(consumer_->handle.get(), wait);
        if (message == nullptr) return news;
        const bool is_message = message->err == RD_KAFKA_RESP_ERR_NO_ERROR;
        if (is_message) news.push_back(received(*message));
        rd_kafka_message_destroy(message);
        if (!is_message && news.empty()) return news;
    }
}

}  // namespace baton::brokers
