#include "wire/json_lines.hpp"

#include "event/json.hpp"

namespace baton::wire {

namespace {

// JSON that the server wrote needs no second look.
bool body_is_json(const Message& message) {
    if (!is_json_type(message.content_type) || message.body.empty()) return false;
    const bool from_server = message.event != nullptr && message.event->payload_kind == PayloadKind::json &&
                             message.event->payload && message.event->payload->data() == message.body.data();
    return from_server || is_json(message.body);
}

void append_member(std::string& out, const char* name, std::string_view value) {
    out += ",\"";
    out += name;
    out += "\":";
    append_json_string(out, value);
}

}  // namespace

void append_json_line_of(std::string& out, const Message& message) {
    if (message.enveloped && is_json_type(message.content_type)) {
        append_json_line(out, message.body);
        out += '\n';
        return;
    }
    out += "{\"id\":";
    append_json_string(out, message.message_id);
    append_member(out, "destination", message.destination);
    if (!message.key.empty()) append_member(out, "key", message.key);
    out += ",\"headers\":{";
    bool first = true;
    for (const auto& header : message.headers) {
        if (!first) out += ',';
        first = false;
        append_json_string(out, header.name);
        out += ':';
        append_json_string(out, header.value);
    }
    out += '}';
    if (!message.content_type.empty()) append_member(out, "content_type", message.content_type);
    if (body_is_json(message)) {
        out += ",\"body\":";
        append_json_line(out, message.body);
    } else if (is_utf8(message.body)) {
        append_member(out, "body_text", message.body);
    } else {
        out += ",\"body_base64\":\"";
        append_base64(out, message.body);
        out += '"';
    }
    out += "}\n";
}

}  // namespace baton::wire
