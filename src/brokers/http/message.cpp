#include "brokers/http/message.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "event/json.hpp"
#include "wire/encoding.hpp"

namespace baton::brokers {

namespace {

constexpr std::string_view cloud_event_type = "application/cloudevents+json";

// True for headers that frame the request or that this sink sets itself.
bool is_reserved(const std::string& lowered) {
    constexpr std::array<std::string_view, 18> names{
        "authorization",    "connection", "content-encoding", "content-length",
        "content-type",     "cookie",     "expect",           "host",
        "idempotency-key",  "keep-alive", "partition-key",    "proxy-authorization",
        "proxy-connection", "te",         "trailer",          "transfer-encoding",
        "upgrade",          "user-agent"};
    return lowered.starts_with("webhook-") || std::find(names.begin(), names.end(), lowered) != names.end();
}

void add_header(wire::HttpRequest& request, const std::string& name, const std::string& value) {
    // libcurl's way to send a header without a value; "Name:" would remove it.
    request.headers.push_back(value.empty() ? name + ";" : name + ": " + value);
}

void add_message_header(wire::HttpRequest& request, const Header& header) {
    std::string name = encode_header_name(header.name);
    const std::string lowered = lower(name);
    if (name.empty() || is_reserved(lowered)) name = "event-" + name;
    add_header(request, name, encode_header_value(header.value, lowered.starts_with("ce-")));
}

// Quote text as JSON.
std::string quote(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void append_element(std::string& out, const HttpMessage& message) {
    out += R"({"id":)" + quote(message.message_id);
    if (!message.key.empty()) out += R"(,"key":)" + quote(message.key);
    if (!message.content_type.empty()) out += R"(,"content_type":)" + quote(message.content_type);
    out += R"(,"headers":{)";
    for (std::size_t i = 0; i < message.headers.size(); ++i) {
        if (i > 0) out += ',';
        out += quote(message.headers[i].name) + ":" + quote(message.headers[i].value);
    }
    out += '}';
    if (is_json_type(message.content_type) ? nlohmann::json::accept(message.body) : is_utf8(message.body)) {
        out += R"(,"data":)";
        if (is_json_type(message.content_type))
            out += message.body;
        else
            out += quote(message.body);
    } else {
        out += R"(,"data_base64":")" + wire::base64_encode(message.body) + '"';
    }
    out += '}';
}

}  // namespace

std::string encode_header_value(std::string_view value, bool encoded_already) {
    std::string encoded;
    for (std::size_t at = 0; at < value.size(); ++at) {
        const char c = value[at];
        const auto byte = static_cast<unsigned char>(c);
        const bool edge = at == 0 || at + 1 == value.size();
        const bool plain = byte > 0x20 && byte < 0x7F && (c != '%' || encoded_already);
        if (plain || (c == ' ' && !edge))
            encoded += c;
        else
            append_percent(encoded, c);
    }
    return encoded;
}

std::string encode_header_name(std::string_view name) {
    constexpr std::string_view marks = "!#$&'*+-.^_`|~";
    std::string encoded;
    for (const char c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || marks.find(c) != std::string_view::npos)
            encoded += c;
        else
            append_percent(encoded, c);
    }
    return encoded;
}

bool is_cloud_event(const HttpMessage& message) {
    return message.content_type.substr(0, message.content_type.find(';')) == cloud_event_type;
}

// Add what tells one delivery from another, and, where there are secrets, who sent it.
void HttpComposer::add_signature(wire::HttpRequest& request, const std::string& id) const {
    const std::string sent_id = encode_header_value(id, false);
    const std::string timestamp = std::to_string(
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
    add_header(request, "webhook-id", sent_id);
    add_header(request, "webhook-timestamp", timestamp);
    add_header(request, "idempotency-key", sent_id);
    const std::string_view body =
        request.own_body.empty() ? request.body : std::string_view(request.own_body);
    if (!signer_.empty()) add_header(request, "webhook-signature", signer_.sign(sent_id, timestamp, body));
    add_header(request, "user-agent", "baton");
    for (const auto& header : extra_) add_header(request, header.name, header.value);
}

wire::HttpRequest HttpComposer::single(const HttpMessage& message) const {
    wire::HttpRequest request;
    request.url = message.url;
    request.body = message.body;
    add_header(request, "content-type",
               message.content_type.empty() ? "application/octet-stream"
                                            : encode_header_value(message.content_type, false));
    if (!message.key.empty()) add_header(request, "partition-key", encode_header_value(message.key, false));
    for (const auto& header : message.headers) add_message_header(request, header);
    add_signature(request, message.message_id);
    return request;
}

wire::HttpRequest HttpComposer::batch(std::span<const HttpMessage> messages) const {
    wire::HttpRequest request;
    request.url = messages.front().url;
    const bool cloud_events = is_cloud_event(messages.front());
    std::string ids;
    request.own_body = "[";
    for (const auto& message : messages) {
        if (request.own_body.size() > 1) request.own_body += ',';
        if (cloud_events)
            request.own_body += message.body;
        else
            append_element(request.own_body, message);
        ids += message.message_id;
        ids += '\0';
    }
    request.own_body += ']';
    add_header(request, "content-type",
               cloud_events ? "application/cloudevents-batch+json" : "application/json");
    // The same messages together again have the same id.
    add_signature(request, "batch_" + to_hex(wire::sha256(ids)).substr(0, 32));
    return request;
}

}  // namespace baton::brokers
