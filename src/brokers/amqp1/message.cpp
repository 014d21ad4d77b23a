#include "brokers/amqp1/message.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "brokers/amqp1/sections.hpp"
#include "event/headers.hpp"
#include "event/json.hpp"

namespace baton::brokers {

namespace {

pn_bytes_t bytes_of(std::string_view text) {
    return pn_bytes(text.size(), text.data());
}

std::string_view view_of(pn_bytes_t bytes) {
    return bytes.size == 0 ? std::string_view("") : std::string_view(bytes.start, bytes.size);
}

// ActiveMQ Artemis takes properties that begin so for orders: to drop a message as a duplicate, say.
bool is_order(const Header& header) {
    return begins_with(header.name, "_AMQ");
}

std::string text_of(pn_data_t* data, bool inside);

// What is inside of the list or map that the data stands at, as JSON.
std::string inner_text_of(pn_data_t* data, bool is_map) {
    std::string out(1, is_map ? '{' : '[');
    pn_data_enter(data);
    for (std::size_t i = 0; pn_data_next(data); ++i) {
        const bool is_name = is_map && i % 2 == 0;
        if (i > 0) out += is_map && !is_name ? ':' : ',';
        const std::string text = text_of(data, !is_name);
        if (is_name)
            append_json_string(out, text);
        else
            out += text;
    }
    pn_data_exit(data);
    return out + (is_map ? '}' : ']');
}

// What is behind the name that a publisher gave to the type of a value.
std::string described_text_of(pn_data_t* data, bool inside) {
    pn_data_enter(data);
    const bool there = pn_data_next(data) && pn_data_next(data);
    std::string text = there ? text_of(data, inside) : inside ? "null" : "";
    pn_data_exit(data);
    return text;
}

std::string uuid_text(pn_uuid_t uuid) {
    std::string out;
    for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
        out += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
    }
    return out;
}

std::string quoted(std::string_view text, bool inside) {
    if (!inside) return std::string(text);
    std::string out;
    append_json_string(out, text);
    return out;
}

// Write the value that the data stands at as text; what is inside of lists and maps as JSON.
std::string text_of(pn_data_t* data, bool inside) {
    switch (pn_data_type(data)) {
        case PN_STRING:
            return quoted(view_of(pn_data_get_string(data)), inside);
        case PN_SYMBOL:
            return quoted(view_of(pn_data_get_symbol(data)), inside);
        case PN_BINARY:
            return quoted(view_of(pn_data_get_binary(data)), inside);
        case PN_UUID:
            return quoted(uuid_text(pn_data_get_uuid(data)), inside);
        case PN_BOOL:
            return pn_data_get_bool(data) ? "true" : "false";
        case PN_UBYTE:
            return std::to_string(pn_data_get_ubyte(data));
        case PN_BYTE:
            return std::to_string(pn_data_get_byte(data));
        case PN_USHORT:
            return std::to_string(pn_data_get_ushort(data));
        case PN_SHORT:
            return std::to_string(pn_data_get_short(data));
        case PN_UINT:
            return std::to_string(pn_data_get_uint(data));
        case PN_INT:
            return std::to_string(pn_data_get_int(data));
        case PN_CHAR:
            return std::to_string(pn_data_get_char(data));
        case PN_ULONG:
            return std::to_string(pn_data_get_ulong(data));
        case PN_LONG:
            return std::to_string(pn_data_get_long(data));
        case PN_TIMESTAMP:
            return std::to_string(pn_data_get_timestamp(data));
        case PN_FLOAT:
            return fmt::format("{}", pn_data_get_float(data));
        case PN_DOUBLE:
            return fmt::format("{}", pn_data_get_double(data));
        case PN_LIST:
        case PN_ARRAY:
            return inner_text_of(data, false);
        case PN_MAP:
            return inner_text_of(data, true);
        case PN_DESCRIBED:
            return described_text_of(data, inside);
        default:
            return inside ? "null" : "";
    }
}

std::string id_text(pn_msgid_t id) {
    switch (id.type) {
        case PN_STRING:
        case PN_BINARY:
            return std::string(view_of(id.u.as_bytes));
        case PN_ULONG:
            return std::to_string(id.u.as_ulong);
        case PN_UUID:
            return uuid_text(id.u.as_uuid);
        default:
            return {};
    }
}

// Walk over the pairs of a map: `take` gets each name, with the data at its value.
template <class Take>
void for_each_pair(pn_data_t* data, const Take& take) {
    pn_data_rewind(data);
    if (!pn_data_next(data) || pn_data_type(data) != PN_MAP) return;
    pn_data_enter(data);
    while (pn_data_next(data)) {
        std::string name = text_of(data, false);
        if (!pn_data_next(data)) break;
        take(std::move(name));
    }
    pn_data_exit(data);
}

// Read a value that is written as AMQP writes it; nothing when it cannot be read.
std::optional<std::string> text_of(std::string_view written) {
    const std::unique_ptr<pn_data_t, decltype(&pn_data_free)> data(pn_data(16), pn_data_free);
    if (pn_data_decode(data.get(), written.data(), written.size()) != static_cast<ssize_t>(written.size()))
        return std::nullopt;
    pn_data_rewind(data.get());
    return pn_data_next(data.get()) ? text_of(data.get(), false) : "";
}

// The body: the bytes of all data sections, the values of all sequences as a JSON list, the text of a value,
// any other value as JSON. Nothing when it cannot be read.
std::optional<std::string> body_of(const std::vector<Amqp1Section>& sections) {
    std::string body;
    std::string elements;
    bool is_list = false;
    for (const auto& section : sections) {
        if (!section.is_body()) continue;
        if (section.kind == Amqp1Section::data) {
            body += section.binary();
            continue;
        }
        const auto text = text_of(section.content);
        if (!text) return std::nullopt;
        if (section.kind == Amqp1Section::value) {
            body = *text;
            continue;
        }
        if (!text->starts_with('[')) return std::nullopt;
        is_list = true;
        if (!elements.empty() && text->size() > 2) elements += ',';
        elements.append(*text, 1, text->size() - 2);
    }
    return is_list ? "[" + elements + "]" : body;
}

}  // namespace

std::string flaw_of_amqp1_message(const Message& message) {
    const auto flaw_of = [](const std::string& what, std::string_view text) {
        return is_text(text) ? std::string() : what + " is not UTF-8, or has a zero in it";
    };
    std::string flaw = flaw_of("the message id", message.message_id);
    if (flaw.empty()) flaw = flaw_of("the key", message.key);
    if (flaw.empty()) flaw = flaw_of("the content type", message.content_type);
    for (const auto& header : message.headers) {
        if (flaw.empty()) flaw = flaw_of("the name of a header", header.name);
        if (flaw.empty()) flaw = flaw_of("header \"" + header.name + "\"", header.value);
    }
    return flaw;
}

std::string Amqp1Codec::encode(const Message& message) {
    pn_message_t* out = message_.get();
    pn_message_clear(out);
    pn_message_set_durable(out, true);
    pn_message_set_inferred(out, true);  // the body is a data section
    pn_msgid_t id{};
    id.type = PN_STRING;
    id.u.as_bytes = bytes_of(message.message_id);
    pn_message_set_id(out, id);
    if (!message.content_type.empty())
        pn_message_set_content_type(out, std::string(message.content_type).c_str());
    if (!message.key.empty()) pn_message_set_group_id(out, std::string(message.key).c_str());
    if (message.event != nullptr && message.event->event_type && is_text(*message.event->event_type))
        pn_message_set_subject(out, std::string(*message.event->event_type).c_str());
    if (message.event != nullptr && message.event->occurred_at != Timestamp{})
        pn_message_set_creation_time(
            out, std::chrono::floor<std::chrono::milliseconds>(message.event->occurred_at.time_since_epoch())
                     .count());
    std::size_t estimate = message.body.size() + message.message_id.size() + message.key.size() + 512;
    if (!message.headers.empty()) {
        pn_data_t* properties = pn_message_properties(out);
        pn_data_put_map(properties);
        pn_data_enter(properties);
        for (std::size_t i = 0; i < message.headers.size(); ++i) {
            const Header& header = message.headers[i];
            if (comes_again(message.headers, i)) continue;
            pn_data_put_string(properties, bytes_of(is_order(header) ? "event-" + header.name : header.name));
            pn_data_put_string(properties, bytes_of(header.value));
            estimate += header.name.size() + header.value.size() + 32;
        }
        pn_data_exit(properties);
    }
    pn_data_put_binary(pn_message_body(out), bytes_of(message.body));
    std::string bytes(estimate, '\0');
    for (;;) {
        std::size_t size = bytes.size();
        const int result = pn_message_encode(out, bytes.data(), &size);
        if (result == 0) {
            bytes.resize(size);
            return bytes;
        }
        if (result != PN_OVERFLOW) throw Error("amqp1: a message cannot be written");
        bytes.resize(bytes.size() * 2);
    }
}

intake::Incoming Amqp1Codec::decode(std::string bytes, intake::BrokerBatch& batch) {
    intake::Incoming incoming;
    pn_message_t* in = message_.get();
    pn_message_clear(in);
    const auto sections = read_amqp1_sections(bytes);
    auto body = sections ? body_of(*sections) : std::nullopt;
    // The engine aborts the process over no bytes at all.
    if (!body || bytes.empty() || pn_message_decode(in, bytes.data(), bytes.size()) != 0) {
        incoming.body = batch.keep(std::move(bytes));
        incoming.content_type = "application/octet-stream";
        return incoming;
    }
    incoming.body = batch.keep(std::move(*body));
    decode_properties(batch, incoming);
    decode_annotations(batch, incoming);
    return incoming;
}

void Amqp1Codec::decode_properties(intake::BrokerBatch& batch, intake::Incoming& incoming) {
    pn_message_t* in = message_.get();
    for_each_pair(pn_message_properties(in), [&](std::string name) {
        const auto value = batch.keep(text_of(pn_message_properties(in), false));
        incoming.headers.push_back({batch.keep(std::move(name)), value});
    });
    if (std::string id = id_text(pn_message_get_id(in)); !id.empty())
        incoming.message_id = batch.keep(std::move(id));
    if (const char* type = pn_message_get_content_type(in); type != nullptr && *type != '\0')
        incoming.content_type = batch.keep(type);
    if (const char* group = pn_message_get_group_id(in); group != nullptr && *group != '\0')
        incoming.key = batch.keep(group);
    incoming.time = intake::broker_time(std::chrono::milliseconds(pn_message_get_creation_time(in)));
    const auto add = [&](const char* name, std::string value) {
        if (value.empty()) return;
        for (const auto& header : incoming.headers)
            if (header.name == name) return;
        incoming.headers.push_back({name, batch.keep(std::move(value))});
    };
    const auto text = [](const char* value) { return std::string(value != nullptr ? value : ""); };
    add("event-type", text(pn_message_get_subject(in)));
    add("correlation-id", id_text(pn_message_get_correlation_id(in)));
    add("content-encoding", text(pn_message_get_content_encoding(in)));
    add("reply-to", text(pn_message_get_reply_to(in)));
    add("user-id", std::string(view_of(pn_message_get_user_id(in))));
}

// Azure Service Bus numbers the messages of an entity, and names partitions.
void Amqp1Codec::decode_annotations(intake::BrokerBatch& batch, intake::Incoming& incoming) {
    pn_data_t* annotations = pn_message_annotations(message_.get());
    for_each_pair(annotations, [&](const std::string& name) {
        if (name == "x-opt-sequence-number") incoming.position = text_of(annotations, false);
        if (name == "x-opt-partition-key" && !incoming.key)
            incoming.key = batch.keep(text_of(annotations, false));
    });
}

}  // namespace baton::brokers
