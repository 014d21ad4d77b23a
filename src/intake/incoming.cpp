#include "intake/incoming.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "event/envelope.hpp"
#include "event/json.hpp"
#include "event/trace.hpp"
#include "intake/message_ids.hpp"
#include "wire/encoding.hpp"

namespace baton::intake {

namespace {

// Why a message cannot be read. The words hold nothing of the message itself.
struct Malformed {
    std::string why;
};

// Find a member's value as it is written; the last one where a name is there twice, as in jsonb.
Field member(std::string_view object, std::string_view name) {
    Field found;
    for (const auto& [key, value] : json_members(object))
        if (key == name) found = value;
    return found;
}

// The headers that become something of their own, and are written again by whoever sends the event on.
constexpr std::array<std::string_view, 3> taken_headers{"content-type", "partition-key", "nats-msg-id"};

}  // namespace

// One message on its way to an event.
class Decoder::Reading {
  public:
    Reading(const Decoder& decoder, const Incoming& message, BrokerBatch& batch)
        : decoder_(decoder), message_(message), batch_(batch) {}

    Event read() {
        begin();
        try {
            read_content();
            fill_from_headers();
            fill_from_settings();
            event_.event_id = find_id();
        } catch (const Malformed& malformed) {
            const std::string_view place = event_.source_id;
            event_ = Event();
            begin(place);
            event_.event_id = as_id(std::string(place));
            event_.payload_kind = PayloadKind::bytes;
            event_.payload = message_.body;
            event_.malformed = batch_.keep(malformed.why + " (" + std::string(place) + ")");
        }
        event_.headers = write_headers();
        return event_;
    }

  private:
    void begin(std::string_view place = {}) {
        event_.from_broker = true;
        event_.source_id = place.empty() ? batch_.keep(decoder_.place_of(message_)) : place;
        if (!message_.topic.empty() && is_text(message_.topic)) event_.topic = message_.topic;
        event_.occurred_at = message_.time.value_or(
            std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()));
        Field type = header("content-type");
        if (!message_.content_type.empty()) type = message_.content_type;
        if (type && !type->empty() && is_text(*type)) event_.content_type = type;
    }

    Field header(std::string_view name) const {
        for (const auto& header : message_.headers)
            if (same_name(header.name, name)) return header.value;
        return std::nullopt;
    }

    // A CloudEvents attribute, by whichever binding it came.
    Field attribute(std::string_view name) {
        for (const std::string_view prefix :
             {decoder_.binding_.prefix, std::string_view("ce_"), std::string_view("ce-"),
              std::string_view("cloudEvents_"), std::string_view("cloudEvents:")}) {
            const auto found = header(std::string(prefix).append(name));
            if (!found) continue;
            if (found->find('%') == std::string_view::npos || !decoder_.binding_.percent_encode) return found;
            return batch_.keep(percent_decoded(*found));
        }
        return std::nullopt;
    }

    static void set_text(Field& field, const Field& value, const char* what) {
        if (field || !value) return;
        if (!is_text(*value)) throw Malformed{std::string("the ") + what + " is not text"};
        field = value;
    }

    void read_content() {
        std::string kind = decoder_.envelope_;
        const std::string type(event_.content_type.value_or(""));
        if (kind == "auto")
            kind = same_name(type.substr(0, type.find_first_of("; ")), "application/cloudevents+json")
                       ? "cloudevents-structured"
                   : attribute("specversion") ? "cloudevents"
                                              : "raw";
        if (kind == "json") return read_envelope();
        if (kind == "cloudevents-structured") return read_structured();
        if (kind == "cloudevents") read_attributes();
        read_body();
    }

    void need_object(std::string_view body) {
        if (!is_json(body)) throw Malformed{"the body is not JSON"};
        members_ = json_members(body);
        if (members_.empty()) throw Malformed{"the body is no envelope"};
    }

    Field written(std::string_view name) const {
        Field found;
        for (const auto& [key, value] : members_)
            if (key == name) found = value;
        return found && *found == "null" ? Field() : found;
    }

    // A member as text: strings without their quotes, everything else as it is written.
    Field text_of(Field value) {
        if (!value || !value->starts_with('"')) return value;
        return batch_.keep(nlohmann::json::parse(*value).get<std::string>());
    }
    Field text_member(std::string_view name) { return text_of(written(name)); }

    void set_bytes(const Field& base64) {
        const auto bytes = wire::base64_decode(text_of(base64).value_or(""));
        if (!bytes) throw Malformed{"the payload is not base64"};
        event_.payload_kind = PayloadKind::bytes;
        event_.payload = batch_.keep(*bytes);
    }

    // baton's own envelope, as its sinks write it.
    void read_envelope() {
        need_object(message_.body.value_or(""));
        event_.content_type.reset();
        envelope_id_ = text_member("id");
        if (!envelope_id_) throw Malformed{"the envelope has no id"};
        set_text(event_.event_type, text_member("type"), "event type");
        set_text(event_.aggregate_type, text_member("aggregate_type"), "aggregate type");
        set_text(event_.aggregate_id, text_member("aggregate_id"), "aggregate id");
        set_text(event_.tenant_id, text_member("tenant_id"), "tenant id");
        set_text(event_.schema_version, text_member("schema_version"), "schema version");
        set_text(event_.correlation_id, text_member("correlation_id"), "correlation id");
        set_text(event_.causation_id, text_member("causation_id"), "causation id");
        set_text(event_.idempotency_key, text_member("idempotency_key"), "idempotency key");
        set_text(event_.trace_id, text_member("trace_id"), "trace id");
        if (const auto key = text_member("key"); key && !key->empty())
            set_text(event_.partition_key, key, "key");
        if (const auto time = read_rfc3339(text_member("occurred_at").value_or("")))
            event_.occurred_at = *time;
        if (const auto headers = written("headers")) envelope_headers_ = *headers;
        if (const auto bytes = written("payload_base64")) return set_bytes(bytes);
        event_.payload_kind = PayloadKind::json;
        event_.payload = written("payload");
    }

    void read_structured() {
        need_object(message_.body.value_or(""));
        const auto type = text_member("datacontenttype");
        event_.content_type.reset();
        if (type && is_text(*type)) event_.content_type = type;
        take_attributes([this](std::string_view name) { return text_member(name); });
        if (const auto bytes = written("data_base64")) return set_bytes(bytes);
        const auto data = written("data");
        const bool json = !type || is_json_type(*type);
        event_.payload_kind = json ? PayloadKind::json : PayloadKind::text;
        event_.payload = json ? data : text_of(data);
    }

    void read_attributes() {
        take_attributes([this](std::string_view name) { return attribute(name); });
    }

    template <class Find>
    void take_attributes(const Find& find) {
        const Field id = find("id");
        const Field source = find("source");
        const Field type = find("type");
        if (!find("specversion") || !id || id->empty() || !source || !type)
            throw Malformed{"the CloudEvents attributes specversion, id, source and type are not all there"};
        envelope_id_ =
            is_unique_by_itself(*id) ? *id : batch_.keep(std::string(*source) + "#" + std::string(*id));
        set_text(event_.event_type, type, "event type");
        set_text(event_.aggregate_id, find("subject"), "subject");
        set_text(event_.partition_key, find("partitionkey"), "partition key");
        set_text(event_.aggregate_type, find("aggregatetype"), "aggregate type");
        set_text(event_.tenant_id, find("tenantid"), "tenant id");
        set_text(event_.schema_version, find("schemaversion"), "schema version");
        set_text(event_.correlation_id, find("correlationid"), "correlation id");
        set_text(event_.causation_id, find("causationid"), "causation id");
        set_text(event_.idempotency_key, find("idempotencykey"), "idempotency key");
        if (const auto time = read_rfc3339(find("time").value_or(""))) event_.occurred_at = *time;
        traceparent_ = find("traceparent");
        tracestate_ = find("tracestate");
    }

    // A body that is the payload itself.
    void read_body() {
        event_.payload = message_.body;
        const std::string_view body = message_.body.value_or("");
        const std::string_view type = event_.content_type.value_or("");
        Format format = decoder_.format_;
        if (format == Format::automatic && !type.empty())
            format = is_json_type(type)                      ? Format::json
                     : same_name(type.substr(0, 5), "text/") ? Format::text
                                                             : Format::bytes;
        if (format == Format::json && body.empty()) {
            event_.payload.reset();
        } else if (format == Format::json) {
            if (!is_json(body)) throw Malformed{"the body is not JSON"};
        } else if (format == Format::text) {
            if (!is_utf8(body)) throw Malformed{"the body is not UTF-8 text"};
        } else if (format == Format::automatic) {
            format = is_json(body) ? Format::json : is_utf8(body) ? Format::text : Format::bytes;
        }
        event_.payload_kind = format == Format::json   ? PayloadKind::json
                              : format == Format::text ? PayloadKind::text
                                                       : PayloadKind::bytes;
    }

    void fill_from_headers() {
        set_text(event_.event_type, header("event-type"), "event type");
        set_text(event_.aggregate_type, header("aggregate-type"), "aggregate type");
        set_text(event_.aggregate_id, header("aggregate-id"), "aggregate id");
        set_text(event_.tenant_id, header("tenant-id"), "tenant id");
        set_text(event_.schema_version, header("schema-version"), "schema version");
        set_text(event_.correlation_id, header("correlation-id"), "correlation id");
        set_text(event_.causation_id, header("causation-id"), "causation id");
        // over HTTP the name without event- is the message's id
        for (const char* name : {"event-idempotency-key", "idempotency-key"})
            set_text(event_.idempotency_key, header(name), "idempotency key");
        if (const auto time = read_rfc3339(header("occurred-at").value_or(""))) event_.occurred_at = *time;
        if (!traceparent_) traceparent_ = header("traceparent");
        if (const auto id = trace_id_of(traceparent_.value_or("")); !id.empty()) event_.trace_id = id;
        set_text(event_.trace_id, header("trace-id"), "trace id");
        Field key = message_.key;
        if (!key) key = header("partition-key");
        set_key(key);
        if (!event_.aggregate_id) event_.aggregate_id = event_.partition_key;
    }

    // Keys may be anything: one that is no text is written as base64.
    void set_key(const Field& key) {
        if (event_.partition_key || !key || key->empty()) return;
        event_.partition_key = is_text(*key) ? *key : batch_.keep(wire::base64_encode(*key));
    }

    void fill_from_settings() {
        if (const auto type = find(decoder_.type_)) {
            event_.event_type.reset();
            set_text(event_.event_type, type, "event type");
        }
        if (!event_.event_type && !decoder_.event_type_.empty()) event_.event_type = decoder_.event_type_;
        if (const auto key = find(decoder_.key_)) {
            if (event_.aggregate_id == event_.partition_key) event_.aggregate_id.reset();
            event_.partition_key.reset();
            set_key(key);
            if (!event_.aggregate_id) event_.aggregate_id = event_.partition_key;
        }
    }

    Field find(const Place& place) {
        if (!place.header.empty()) return header(place.header);
        if (place.path.empty() || event_.payload_kind != PayloadKind::json || !event_.payload)
            return std::nullopt;
        Field value = event_.payload;
        for (const auto& name : place.path)
            if (value) value = member(*value, name);
        if (!value || *value == "null" || value->starts_with('{') || value->starts_with('['))
            return std::nullopt;
        return text_of(value);
    }

    std::string_view find_id() {
        Field id = find(decoder_.id_);
        if (!decoder_.id_.named()) {
            for (const Field& candidate :
                 {message_.message_id, header("message-id"), header("event-id"), envelope_id_})
                if (!id && candidate && !candidate->empty()) id = candidate;
            message_id_used_ = true;
        }
        if (!id || id->empty()) {
            if (decoder_.id_needed_) throw Malformed{"the message has no id"};
            id = event_.source_id;
        }
        if (!is_text(*id)) throw Malformed{"the id is not text"};
        return as_id(std::string(*id));
    }

    std::string_view as_id(std::string id) {
        if (id.size() > longest_id) id = "sha256:" + to_hex(wire::sha256(id));
        if (decoder_.uuids_ && !is_uuid(id)) id = uuid_of(id);
        return batch_.keep(std::move(id));
    }

    bool is_taken(std::string_view name) const {
        if (message_id_used_ && same_name(name, "message-id")) return true;
        return std::any_of(taken_headers.begin(), taken_headers.end(),
                           [name](std::string_view taken) { return same_name(name, taken); });
    }

    // Keep a trace context that came as attributes of CloudEvents: whoever goes on needs the parent's span.
    void add_trace(std::map<std::string, std::vector<std::string>>& all) const {
        if (trace_id_of(traceparent_.value_or("")).empty() || header("traceparent")) return;
        all.try_emplace("traceparent", std::vector{std::string(*traceparent_)});
        if (tracestate_ && is_text(*tracestate_) && !header("tracestate"))
            all.try_emplace("tracestate", std::vector{std::string(*tracestate_)});
    }

    // Write the headers as one JSON object. A value that is no text goes under name_base64; of a name that is
    // there several times the values make a list.
    Field write_headers() {
        std::map<std::string, std::vector<std::string>> all;
        for (const auto& header : message_.headers) {
            if (is_taken(header.name)) continue;
            const std::string name = is_text(header.name) ? std::string(header.name)
                                                          : "base64:" + wire::base64_encode(header.name);
            if (is_text(header.value))
                all[name].emplace_back(header.value);
            else
                all[name + "_base64"].push_back(wire::base64_encode(header.value));
        }
        add_trace(all);
        if (!envelope_headers_.empty() && !event_.malformed)
            for (const auto& [name, value] : json_members(envelope_headers_)) {
                const auto text = text_of(value);
                if (is_text(name) && is_text(*text)) all.try_emplace(name, std::vector{std::string(*text)});
            }
        if (all.empty()) return std::nullopt;
        std::string out;
        for (const auto& [name, values] : all) {
            out += out.empty() ? '{' : ',';
            append_json_string(out, name);
            out += values.size() > 1 ? ":[" : ":";
            for (std::size_t i = 0; i < values.size(); ++i) {
                if (i > 0) out += ',';
                append_json_string(out, values[i]);
            }
            if (values.size() > 1) out += ']';
        }
        return batch_.keep(out + "}");
    }

    const Decoder& decoder_;
    const Incoming& message_;
    BrokerBatch& batch_;
    Event event_;
    std::vector<std::pair<std::string, std::string_view>> members_;
    Field envelope_id_;
    Field traceparent_;
    Field tracestate_;
    std::string_view envelope_headers_;
    bool message_id_used_ = false;
};

Decoder::Place Decoder::read_place(const relay::Settings& settings, const std::string& what) {
    Place place;
    place.header = settings.text(what + "_header", "");
    const std::string field = settings.text(what + "_field", "");
    for (std::size_t at = 0; at <= field.size() && !field.empty();) {
        const std::size_t dot = std::min(field.find('.', at), field.size());
        place.path.push_back(field.substr(at, dot - at));
        at = dot + 1;
    }
    if (!place.header.empty() && !place.path.empty())
        settings.refuse(what + "_field", "stands beside " + what + "_header", "set one of them");
    return place;
}

Decoder::Decoder(const relay::Settings& settings, std::string broker, HeaderBinding binding)
    : broker_(std::move(broker)), binding_(binding) {
    const auto one_of = [&](const std::string& key, const std::vector<std::string>& known,
                            const std::string& fallback) {
        std::string value = settings.text(key, fallback);
        std::string list;
        for (const auto& word : known) list += (list.empty() ? "" : ", ") + word;
        if (std::find(known.begin(), known.end(), value) == known.end())
            settings.refuse(key, "is \"" + value + "\"", "write one of: " + list);
        return value;
    };
    envelope_ = one_of("envelope", {"auto", "raw", "json", "cloudevents", "cloudevents-structured"}, "auto");
    const std::string format = one_of("format", {"auto", "json", "text", "bytes"}, "auto");
    format_ = format == "json"    ? Format::json
              : format == "text"  ? Format::text
              : format == "bytes" ? Format::bytes
                                  : Format::automatic;
    id_ = read_place(settings, "id");
    type_ = read_place(settings, "type");
    key_ = read_place(settings, "key");
    id_needed_ = one_of("missing_id", {"position", "malformed"}, id_.named() ? "malformed" : "position") ==
                 "malformed";
    uuids_ = one_of("id_form", {"text", "uuid"}, "text") == "uuid";
    event_type_ = settings.text("event_type", "");
}

std::string Decoder::place_of(const Incoming& message) const {
    if (message.position.empty()) return broker_ + ":" + digest_of(message);
    const bool text = is_text(message.position);
    return broker_ + ":" + (text ? message.position : "base64:" + wire::base64_encode(message.position));
}

void Decoder::decode(const Incoming& message, BrokerBatch& batch) const {
    const std::size_t texts = batch.texts.size();
    batch.events.push_back(Reading(*this, message, batch).read());
    batch.bytes += sizeof(Event) + message.body.value_or("").size();
    for (std::size_t i = texts; i < batch.texts.size(); ++i) batch.bytes += batch.texts[i].size() + 64;
}

}  // namespace baton::intake
