#include "brokers/sqs/message.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "brokers/sqs/access.hpp"
#include "wire/encoding.hpp"
#include "wire/json_answer.hpp"

namespace baton::brokers {

namespace {

using nlohmann::json;

// One message of an answer, as an event of the batch.
class MessageReader {
  public:
    MessageReader(const std::string& queue, const intake::Decoder& decoder, SqsBatch& batch)
        : queue_(queue), decoder_(decoder), batch_(batch) {}

    void read(const json& message) {
        intake::Incoming incoming;
        incoming.topic = batch_.keep(queue_.substr(queue_.rfind('/') + 1));
        incoming.position = wire::text_member(message, "MessageId");
        incoming.body = batch_.keep(wire::text_member(message, "Body"));
        if (message.is_object()) {
            read_system(message.value("Attributes", json()), incoming);
            read_attributes(message.value("MessageAttributes", json()), incoming);
        }
        decoder_.decode(incoming, batch_);
        batch_.handles.push_back(wire::text_member(message, "ReceiptHandle"));
    }

  private:
    void read_system(const json& attributes, intake::Incoming& incoming) {
        const auto sent = wire::text_member(attributes, "SentTimestamp");
        std::int64_t time = 0;
        std::from_chars(sent.data(), sent.data() + sent.size(), time);
        incoming.time = intake::broker_time(std::chrono::milliseconds(time));
        // baton's sink names the group of a message without key like the message itself.
        const auto group = wire::text_member(attributes, "MessageGroupId");
        if (queue_.ends_with(".fifo") && !group.empty() &&
            group != wire::text_member(attributes, "MessageDeduplicationId"))
            incoming.key = batch_.keep(group);
    }

    void read_attributes(const json& attributes, intake::Incoming& incoming) {
        if (!attributes.is_object()) return;
        for (const auto& [name, attribute] : attributes.items()) {
            std::string value = wire::text_member(attribute, "StringValue");
            if (wire::text_member(attribute, "DataType").starts_with("Binary"))
                value = wire::base64_decode(wire::text_member(attribute, "BinaryValue")).value_or("");
            take(name, std::move(value), incoming);
        }
    }

    void take(const std::string& name, std::string value, intake::Incoming& incoming) {
        if (name == "message_id") {
            incoming.message_id = batch_.keep(std::move(value));
        } else if (name == "content_type") {
            incoming.content_type = batch_.keep(std::move(value));
        } else if (name == "partition_key") {
            incoming.key = batch_.keep(std::move(value));
        } else if (name == "body_encoding" && value == "empty") {
            incoming.body = std::string_view("");
        } else if (name == "body_encoding" && value == "base64") {
            if (auto bytes = wire::base64_decode(*incoming.body))
                incoming.body = batch_.keep(std::move(*bytes));
        } else if (const json more = name == "headers" ? json::parse(value, nullptr, false) : json();
                   more.is_object()) {
            for (const auto& [inner, text] : more.items())
                if (text.is_string()) add_header(inner, text.get<std::string>(), incoming);
        } else {
            add_header(name, std::move(value), incoming);
        }
    }

    void add_header(const std::string& name, std::string value, intake::Incoming& incoming) {
        incoming.headers.push_back({batch_.keep(name), batch_.keep(std::move(value))});
    }

    const std::string& queue_;
    const intake::Decoder& decoder_;
    SqsBatch& batch_;
};

}  // namespace

void read_sqs_messages(const json& answer, const std::string& queue, const intake::Decoder& decoder,
                       SqsBatch& batch) {
    if (!answer.is_object() || !answer.contains("Messages") || !answer["Messages"].is_array()) return;
    MessageReader reader(queue, decoder, batch);
    for (const auto& message : answer["Messages"]) reader.read(message);
}

}  // namespace baton::brokers
