#include "conformance/kafka_reader.hpp"

#include <librdkafka/rdkafka.h>

#include <memory>

#include "support/cluster.hpp"

namespace baton::test {

namespace {

using Handle = std::unique_ptr<rd_kafka_t, decltype(&rd_kafka_destroy)>;

Handle connect(rd_kafka_type_t type, const std::string& brokers, const std::string& group = "reader") {
    char error[512];
    rd_kafka_conf_t* conf = rd_kafka_conf_new();
    for (const auto& [name, value] : std::map<std::string, std::string>{{"bootstrap.servers", brokers}}) {
        if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error, sizeof error) != RD_KAFKA_CONF_OK)
            throw Error(error);
    }
    if (type == RD_KAFKA_CONSUMER) rd_kafka_conf_set(conf, "group.id", group.c_str(), error, sizeof error);
    rd_kafka_conf_set_log_cb(conf, [](const rd_kafka_t*, int, const char*, const char*) {});
    rd_kafka_t* handle = rd_kafka_new(type, conf, error, sizeof error);
    if (handle == nullptr) throw Error(error);
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
    out.id = out.headers["message-id"];
    return out;
}

// Read one partition from its beginning to the end that it has now.
void read_partition(rd_kafka_t* consumer, const std::string& topic, int partition,
                    std::vector<Received>& out) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    // A new or recovering partition has no leader for a moment.
    wait_until("partition " + std::to_string(partition) + " of " + topic + " tells its end", [&] {
        return rd_kafka_query_watermark_offsets(consumer, topic.c_str(), partition, &low, &high, 5000) ==
               RD_KAFKA_RESP_ERR_NO_ERROR;
    });
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

void create_topic(const std::string& brokers, const std::string& topic, int partitions,
                  const std::map<std::string, std::string>& settings) {
    const Handle admin = connect(RD_KAFKA_PRODUCER, brokers);
    char error[512];
    rd_kafka_NewTopic_t* made = rd_kafka_NewTopic_new(topic.c_str(), partitions, 1, error, sizeof error);
    for (const auto& [name, value] : settings)
        rd_kafka_NewTopic_set_config(made, name.c_str(), value.c_str());
    rd_kafka_queue_t* queue = rd_kafka_queue_new(admin.get());
    rd_kafka_CreateTopics(admin.get(), &made, 1, nullptr, queue);
    rd_kafka_event_t* event = rd_kafka_queue_poll(queue, 60'000);
    std::string failure = event == nullptr ? "no answer" : "";
    if (event != nullptr) {
        std::size_t count = 0;
        const auto* result = rd_kafka_event_CreateTopics_result(event);
        const auto* const* topics = rd_kafka_CreateTopics_result_topics(result, &count);
        if (count == 0)
            failure = rd_kafka_event_error_string(event);
        else if (rd_kafka_topic_result_error(topics[0]) != RD_KAFKA_RESP_ERR_NO_ERROR)
            failure = rd_kafka_topic_result_error_string(topics[0]);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewTopic_destroy(made);
    if (!failure.empty()) throw Error("cannot create topic " + topic + ": " + failure);
}

std::vector<Received> read_topic(const std::string& brokers, const std::string& topic) {
    const Handle consumer = connect(RD_KAFKA_CONSUMER, brokers);
    rd_kafka_topic_t* handle = rd_kafka_topic_new(consumer.get(), topic.c_str(), nullptr);
    const rd_kafka_metadata_t* metadata = nullptr;
    const auto error = rd_kafka_metadata(consumer.get(), 0, handle, &metadata, 30'000);
    rd_kafka_topic_destroy(handle);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw Error(rd_kafka_err2str(error));
    const int partitions = metadata->topics[0].partition_cnt;
    rd_kafka_metadata_destroy(metadata);
    std::vector<Received> messages;
    for (int partition = 0; partition < partitions; ++partition)
        read_partition(consumer.get(), topic, partition, messages);
    rd_kafka_consumer_close(consumer.get());
    return messages;
}

void produce_bare(const std::string& brokers, const std::string& topic, int partition, const std::string& key,
                  const char* body) {
    const Handle producer = connect(RD_KAFKA_PRODUCER, brokers);
    rd_kafka_topic_t* handle = rd_kafka_topic_new(producer.get(), topic.c_str(), nullptr);
    const int failed = rd_kafka_produce(handle, partition, RD_KAFKA_MSG_F_COPY, const_cast<char*>(body),
                                        body == nullptr ? 0 : std::char_traits<char>::length(body),
                                        key.data(), key.size(), nullptr);
    rd_kafka_topic_destroy(handle);
    if (failed != 0 || rd_kafka_flush(producer.get(), 30'000) != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw Error("cannot produce to " + topic);
}

std::size_t kafka_lag(const std::string& brokers, const std::string& topic, const std::string& group) {
    const Handle consumer = connect(RD_KAFKA_CONSUMER, brokers, group);
    std::size_t lag = 0;
    wait_until("the broker tells the group's offsets", [&] {
        const rd_kafka_metadata_t* metadata = nullptr;
        rd_kafka_topic_t* handle = rd_kafka_topic_new(consumer.get(), topic.c_str(), nullptr);
        const auto error = rd_kafka_metadata(consumer.get(), 0, handle, &metadata, 5000);
        rd_kafka_topic_destroy(handle);
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
        const int partitions = metadata->topics[0].partition_cnt;
        rd_kafka_metadata_destroy(metadata);
        rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(partitions);
        for (int i = 0; i < partitions; ++i) rd_kafka_topic_partition_list_add(list, topic.c_str(), i);
        bool good = rd_kafka_committed(consumer.get(), list, 5000) == RD_KAFKA_RESP_ERR_NO_ERROR;
        lag = 0;
        for (int i = 0; good && i < partitions; ++i) {
            std::int64_t low = 0;
            std::int64_t high = 0;
            good = rd_kafka_query_watermark_offsets(consumer.get(), topic.c_str(), i, &low, &high, 5000) ==
                   RD_KAFKA_RESP_ERR_NO_ERROR;
            const std::int64_t committed = list->elems[i].offset;
            lag += static_cast<std::size_t>(high - (committed < 0 ? low : committed));
        }
        rd_kafka_topic_partition_list_destroy(list);
        return good;
    });
    return lag;
}

}  // namespace baton::test
