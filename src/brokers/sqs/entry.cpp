#include "brokers/sqs/entry.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "event/json.hpp"
#include "wire/encoding.hpp"

namespace baton::brokers {

namespace {

using nlohmann::json;

constexpr std::size_t max_attributes = 10;

std::string to_text(const json& value, bool ascii) {
    return value.dump(-1, ' ', ascii, json::error_handler_t::replace);
}

// True when SQS takes this as a group or deduplication id.
bool is_fifo_id(std::string_view id) {
    return !id.empty() && id.size() <= 128 &&
           std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

std::string fifo_id(std::string_view id) {
    return is_fifo_id(id) ? std::string(id) : to_hex(wire::sha256(id));
}

// True when SQS takes this as an attribute's name and we do not use it ourselves.
bool is_free_name(const std::string& name) {
    constexpr std::string_view own[] = {"message_id", "content_type", "partition_key", "body_encoding",
                                        "headers"};
    if (std::find(std::begin(own), std::end(own), name) != std::end(own)) return false;
    if (name.empty() || name.size() > 256 || name.front() == '.' || name.back() == '.') return false;
    if (name.find("..") != std::string::npos) return false;
    const std::string lowered = lower(name);
    if (lowered.starts_with("aws.") || lowered.starts_with("amazon.")) return false;
    return std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.');
    });
}

// The attributes of one entry and their size.
class Attributes {
  public:
    // Add one; what SQS does not take is kept for the attribute "headers".
    void add(const std::string& name, std::string_view value, bool native) {
        if (native && is_sqs_text(value) && !made_.contains(name)) {
            made_[name] = {{"DataType", "String"}, {"StringValue", value}};
            bytes_ += name.size() + value.size() + 6;
        } else {
            rest_[name] = value;
        }
    }
    std::size_t count() const { return made_.size(); }
    // Close with what did not fit.
    json finish() {
        if (!rest_.empty()) add("headers", to_text(rest_, true), true);
        return std::move(made_);
    }
    std::size_t bytes() const { return bytes_; }

  private:
    json made_ = json::object();
    json rest_ = json::object();
    std::size_t bytes_ = 0;
};

void add_headers(Attributes& attributes, const Headers& headers) {
    const auto fits = [](const Header& header) {
        return is_free_name(header.name) && is_sqs_text(header.value);
    };
    const auto odd =
        static_cast<std::size_t>(std::count_if(headers.begin(), headers.end(), std::not_fn(fits)));
    const std::size_t room = max_attributes - attributes.count();
    // One place is for "headers" as soon as anything has to go there.
    const bool all_native = odd == 0 && headers.size() <= room;
    std::size_t native = all_native ? room : room - 1;
    for (const auto& header : headers) {
        const bool goes_native = native > 0 && fits(header);
        attributes.add(header.name, header.value, goes_native);
        if (goes_native) --native;
    }
}

}  // namespace

bool is_sqs_text(std::string_view text) {
    if (text.empty() || !is_utf8(text)) return false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const auto byte = static_cast<unsigned char>(text[at]);
        if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') return false;
        // U+FFFE and U+FFFF are not XML's characters.
        if (byte == 0xEF && at + 2 < text.size() && static_cast<unsigned char>(text[at + 1]) == 0xBF &&
            static_cast<unsigned char>(text[at + 2]) >= 0xBE)
            return false;
    }
    return true;
}

SqsEntry make_entry(const Message& message, const std::string& queue_url) {
    SqsEntry entry;
    entry.ticket = message.ticket;
    entry.queue_url = queue_url;
    std::string encoded;
    std::string_view body = message.body;
    Attributes attributes;
    attributes.add("message_id", message.message_id, true);
    if (!message.content_type.empty()) attributes.add("content_type", message.content_type, true);
    if (!message.key.empty()) attributes.add("partition_key", message.key, true);
    if (body.empty()) {
        attributes.add("body_encoding", "empty", true);
        body = "-";
    } else if (!is_sqs_text(body)) {
        attributes.add("body_encoding", "base64", true);
        encoded = wire::base64_encode(body);
        body = encoded;
    }
    add_headers(attributes, message.headers);
    json members{{"MessageAttributes", attributes.finish()}, {"MessageBody", body}};
    if (queue_url.ends_with(".fifo")) {
        members["MessageGroupId"] =
            fifo_id(message.key.empty() ? std::string_view(message.message_id) : message.key);
        members["MessageDeduplicationId"] = fifo_id(message.message_id);
    }
    entry.bytes = attributes.bytes() + body.size();
    entry.json = to_text(members, false);
    return entry;
}

}  // namespace baton::brokers
