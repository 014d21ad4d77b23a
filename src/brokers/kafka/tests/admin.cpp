#include "brokers/kafka/tests/admin.hpp"

#include <array>
#include <functional>

#include "baton/error.hpp"

namespace baton::test {

namespace {

constexpr int patience_ms = 30'000;

using Words = std::array<char, 512>;

// Ask as an administrator and wait for the answer.
void ask(const std::string& broker, const std::function<void(rd_kafka_t*, rd_kafka_queue_t*)>& request) {
    Words words{};
    rd_kafka_conf_t* conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", broker.c_str(), words.data(), words.size());
    rd_kafka_t* admin = rd_kafka_new(RD_KAFKA_PRODUCER, conf, words.data(), words.size());
    rd_kafka_queue_t* answers = rd_kafka_queue_new(admin);
    request(admin, answers);
    rd_kafka_event_t* answer = rd_kafka_queue_poll(answers, patience_ms);
    std::string failure = answer == nullptr ? "no answer" : "";
    if (answer != nullptr && rd_kafka_event_error(answer) != RD_KAFKA_RESP_ERR_NO_ERROR)
        failure = rd_kafka_event_error_string(answer);
    if (answer != nullptr) rd_kafka_event_destroy(answer);
    rd_kafka_queue_destroy(answers);
    rd_kafka_destroy(admin);
    if (!failure.empty()) throw Error("kafka: " + failure);
}

}  // namespace

void grant(const std::string& broker, const char* user, rd_kafka_AclOperation_t what) {
    Words words{};
    rd_kafka_AclBinding_t* rule =
        rd_kafka_AclBinding_new(RD_KAFKA_RESOURCE_TOPIC, "*", RD_KAFKA_RESOURCE_PATTERN_LITERAL, user, "*",
                                what, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, words.data(), words.size());
    ask(broker, [&rule](rd_kafka_t* admin, rd_kafka_queue_t* answers) {
        rd_kafka_CreateAcls(admin, &rule, 1, nullptr, answers);
        rd_kafka_AclBinding_destroy(rule);
    });
}

void alter_topic(const std::string& broker, const std::string& topic, const char* name, const char* value) {
    rd_kafka_ConfigResource_t* change = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.c_str());
    if (*value != '\0') rd_kafka_ConfigResource_set_config(change, name, value);
    ask(broker, [&change](rd_kafka_t* admin, rd_kafka_queue_t* answers) {
        rd_kafka_AlterConfigs(admin, &change, 1, nullptr, answers);
        rd_kafka_ConfigResource_destroy(change);
    });
}

}  // namespace baton::test
