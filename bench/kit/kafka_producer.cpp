#include <librdkafka/rdkafka.h>

#include <array>
#include <stdexcept>

#include "kit/producer.hpp"

namespace baton::bench {

namespace {

rd_kafka_t* open(const std::string& brokers) {
    rd_kafka_conf_t* conf = rd_kafka_conf_new();
    std::array<char, 256> error{};
    const auto set = [&](const char* name, const char* value) {
        rd_kafka_conf_set(conf, name, value, error.data(), error.size());
    };
    set("bootstrap.servers", brokers.c_str());
    set("enable.idempotence", "true");
    set("acks", "all");
    set("linger.ms", "0");
    set("batch.size", "1000000");
    rd_kafka_conf_set_dr_msg_cb(conf, [](rd_kafka_t*, const rd_kafka_message_t* message, void*) {
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) ++*static_cast<long*>(message->_private);
    });
    rd_kafka_t* producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error.data(), error.size());
    if (producer == nullptr) throw std::runtime_error(error.data());
    return producer;
}

class KafkaProducer final : public Producer {
  public:
    KafkaProducer(const std::string& brokers, const std::string& topic)
        : producer_(open(brokers)), topic_(rd_kafka_topic_new(producer_, topic.c_str(), nullptr)) {}
    ~KafkaProducer() override {
        rd_kafka_topic_destroy(topic_);
        rd_kafka_destroy(producer_);
    }
    KafkaProducer(const KafkaProducer&) = delete;
    KafkaProducer& operator=(const KafkaProducer&) = delete;

    void send(const Message& message, long times) override {
        long acknowledged = 0;
        for (long i = 0; i < times;) {
            rd_kafka_headers_t* headers = rd_kafka_headers_new(message.headers.size());
            for (const auto& header : message.headers)
                rd_kafka_header_add(headers, header.name.data(), static_cast<ssize_t>(header.name.size()),
                                    header.value.data(), static_cast<ssize_t>(header.value.size()));
            const std::string key = "k" + std::to_string(i % 10000);
            std::array<rd_kafka_vu_t, 6> fields{};
            fields[0].vtype = RD_KAFKA_VTYPE_RKT;
            fields[0].u.rkt = topic_;
            fields[1].vtype = RD_KAFKA_VTYPE_KEY;
            fields[1].u.mem = {const_cast<char*>(key.data()), key.size()};
            fields[2].vtype = RD_KAFKA_VTYPE_VALUE;
            fields[2].u.mem = {const_cast<char*>(message.body.data()), message.body.size()};
            fields[3].vtype = RD_KAFKA_VTYPE_HEADERS;
            fields[3].u.headers = headers;
            fields[4].vtype = RD_KAFKA_VTYPE_OPAQUE;
            fields[4].u.ptr = &acknowledged;
            fields[5].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
            fields[5].u.i = RD_KAFKA_MSG_F_COPY;
            rd_kafka_error_t* refusal = rd_kafka_produceva(producer_, fields.data(), fields.size());
            const bool refused = refusal != nullptr;
            rd_kafka_error_destroy(refusal);
            if (!refused) {
                ++i;
                if (i % 100 == 0) rd_kafka_poll(producer_, 0);
            } else {
                rd_kafka_headers_destroy(headers);
                rd_kafka_poll(producer_, 10);
            }
        }
        while (acknowledged < times) rd_kafka_poll(producer_, 10);
    }

  private:
    rd_kafka_t* producer_;
    rd_kafka_topic_t* topic_;
};

}  // namespace

std::unique_ptr<Producer> make_kafka_producer(const std::string& brokers, const std::string& topic) {
    return std::make_unique<KafkaProducer>(brokers, topic);
}

void create_kafka_topic(const std::string& brokers, const std::string& topic) {
    rd_kafka_t* admin = open(brokers);
    rd_kafka_queue_t* queue = rd_kafka_queue_new(admin);
    std::array<char, 256> error{};
    rd_kafka_NewTopic_t* wanted = rd_kafka_NewTopic_new(topic.c_str(), 3, 1, error.data(), error.size());
    rd_kafka_CreateTopics(admin, &wanted, 1, nullptr, queue);
    rd_kafka_event_t* answer = rd_kafka_queue_poll(queue, 30000);
    const bool failed = answer == nullptr || rd_kafka_event_error(answer) != RD_KAFKA_RESP_ERR_NO_ERROR;
    if (answer != nullptr) rd_kafka_event_destroy(answer);
    rd_kafka_NewTopic_destroy(wanted);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(admin);
    if (failed) throw std::runtime_error("kafka did not create the topic");
}

}  // namespace baton::bench
