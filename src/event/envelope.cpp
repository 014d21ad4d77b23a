#include "event/envelope.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "base/text.hpp"
#include "event/headers.hpp"
#include "event/json.hpp"
#include "event/trace.hpp"

namespace baton {

namespace {

constexpr std::string_view json_type = "application/json";
constexpr std::string_view cloudevents_type = "application/cloudevents+json; charset=utf-8";

std::string_view content_type_of(const Event& event) {
    if (event.content_type) return *event.content_type;
    switch (event.payload_kind) {
        case PayloadKind::json:
            return json_type;
        case PayloadKind::text:
            return "text/plain; charset=utf-8";
        case PayloadKind::bytes:
            return "application/octet-stream";
    }
    return {};
}

// Return the event's trace context: its own, else the one in its headers, else one made of its trace id, else
// nothing.
std::string traceparent_of(const Event& event, const Headers& headers) {
    if (event.traceparent) return std::string(*event.traceparent);
    if (const Header* given = find_header(headers, "traceparent")) return given->value;
    return event.trace_id ? make_traceparent(*event.trace_id, event.event_id) : std::string();
}

// The optional fields that a message tells about, by the name that they have in JSON.
template <class Take>
void for_each_field(const Event& event, const Take& take) {
    const auto offer = [&](const char* name, const Field& value) {
        if (value) take(name, *value);
    };
    offer("aggregate_type", event.aggregate_type);
    offer("aggregate_id", event.aggregate_id);
    offer("tenant_id", event.tenant_id);
    offer("schema_version", event.schema_version);
    offer("correlation_id", event.correlation_id);
    offer("causation_id", event.causation_id);
    offer("idempotency_key", event.idempotency_key);
}

// Write the members of a JSON object one by one.
class ObjectWriter {
  public:
    explicit ObjectWriter(std::string& out) : out_(out) { out_ += '{'; }
    void text(std::string_view name, std::string_view value) {
        begin(name);
        append_json_string(out_, value);
    }
    void json(std::string_view name, std::string_view value) {
        begin(name);
        append_json_line(out_, value);
    }
    void base64(std::string_view name, std::string_view bytes) {
        begin(name);
        out_ += '"';
        append_base64(out_, bytes);
        out_ += '"';
    }
    // The payload under `name`, or under name_base64 when it is bytes.
    void payload(const std::string& name, const Event& event) {
        if (!event.payload) return;
        if (event.payload_kind == PayloadKind::json)
            json(name, *event.payload);
        else if (event.payload_kind == PayloadKind::text)
            text(name, *event.payload);
        else
            base64(name + "_base64", *event.payload);
    }
    void end() { out_ += '}'; }

  private:
    void begin(std::string_view name) {
        if (!first_) out_ += ',';
        first_ = false;
        append_json_string(out_, name);
        out_ += ':';
    }

    std::string& out_;
    bool first_ = true;
};

// Encode as the HTTP and NATS bindings want it: everything but printable ASCII, and space, quote and percent.
std::string percent_encoded(std::string_view value) {
    std::string out;
    for (const char c : value) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte > 0x20 && byte < 0x7F && c != '"' && c != '%')
            out += c;
        else
            append_percent(out, c);
    }
    return out;
}

// A name that an extension attribute may have: letters and digits in lower case, and none of the core's own.
bool is_extension_name(std::string_view name) {
    constexpr std::array<std::string_view, 17> taken{
        "id",           "source",        "specversion", "type",        "datacontenttype", "dataschema",
        "subject",      "time",          "data",        "traceparent", "aggregatetype",   "schemaversion",
        "partitionkey", "correlationid", "causationid", "tenantid",    "idempotencykey"};
    if (name.empty() || name.size() > 20 || std::find(taken.begin(), taken.end(), name) != taken.end())
        return false;
    return std::all_of(name.begin(), name.end(),
                       [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

// An attribute may hold no control characters and no unpaired surrogates.
void check_attribute(std::string_view name, std::string_view value) {
    const bool control = std::any_of(
        value.begin(), value.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
    if (control || !is_utf8(value))
        throw RenderError("the CloudEvents attribute " + std::string(name) +
                          " may hold no control characters");
}

// Give every context attribute of the event to `take`; empty ones are left out, as the specification wants.
template <class Take>
void for_each_attribute(const Event& event, const std::string& source, const std::string& traceparent,
                        const Take& take) {
    const auto offer = [&](const char* name, std::string_view value) {
        if (value.empty()) return;
        check_attribute(name, value);
        take(name, value);
    };
    if (event.event_id.empty()) throw RenderError("the event has no id, which CloudEvents needs");
    offer("specversion", "1.0");
    offer("id", event.event_id);
    offer("source", source);
    const std::string_view type = event.event_type.value_or("");
    if (type.empty()) throw RenderError("the event has no event_type, which CloudEvents needs");
    offer("type", type);
    offer("subject", event.aggregate_id.value_or(""));
    offer("time", TimeText(event.occurred_at));
    offer("traceparent", traceparent);
    offer("partitionkey", event.key());
    offer("aggregatetype", event.aggregate_type.value_or(""));
    offer("tenantid", event.tenant_id.value_or(""));
    offer("schemaversion", event.schema_version.value_or(""));
    offer("correlationid", event.correlation_id.value_or(""));
    offer("causationid", event.causation_id.value_or(""));
    offer("idempotencykey", event.idempotency_key.value_or(""));
}

// Add a header unless one of the first `given`, which are the event's own, has that name.
void add_unless_given(Headers& headers, std::size_t given, std::string_view name, std::string_view value) {
    if (given > 0) {
        const Header* found = find_header(headers, name);
        if (found != nullptr && found < headers.data() + given) return;
    }
    headers.add(name, value);
}

// Whoever passes on the headers of a message that it handled passes on the id of that message, too. As the id
// of this event, every event but the first would be taken for a copy.
void rename_impostors(Headers& headers, const Envelope::Options& options) {
    const bool raw = options.kind == EnvelopeKind::raw && options.metadata;
    const bool binary = options.kind == EnvelopeKind::cloudevents && !options.binding.prefix.empty();
    for (auto& header : headers)
        if ((raw && is_named(header, "event-id")) ||
            (binary && begins_with(header.name, options.binding.prefix)))
            header.name.insert(0, "event-");
}

}  // namespace

EnvelopeKind Envelope::kind_of(std::string_view name) {
    if (name == "raw") return EnvelopeKind::raw;
    if (name == "json") return EnvelopeKind::json;
    if (name == "cloudevents") return EnvelopeKind::cloudevents;
    if (name == "cloudevents-structured") return EnvelopeKind::cloudevents_structured;
    throw UsageError("there is no envelope \"" + std::string(name) + "\"",
                     "envelopes are raw, json, cloudevents, cloudevents-structured");
}

Envelope::Envelope(Options options)
    : options_(std::move(options)), source_(options_.source, append_url_escaped) {
    if (options_.source.empty())
        throw UsageError("the CloudEvents source is empty", "write a URI, as in https://shop.example/orders");
    constexpr std::string_view forbidden = " \"<>\\^`\t\r\n";
    if (options_.source.find_first_of(forbidden) != std::string::npos)
        throw UsageError("the CloudEvents source \"" + options_.source + "\" is no URI reference",
                         "percent-encode white space and the like");
}

void Envelope::render(const Event& event, Message& message, std::string& storage) const {
    message.event = &event;
    message.key = event.key();
    message.headers.clear();
    message.enveloped = false;
    if (event.headers) header_reader_.append(message.headers, *event.headers);
    rename_impostors(message.headers, options_);
    if (event.traceparent)
        for (auto& header : message.headers)
            if (is_named(header, "traceparent")) header.value = *event.traceparent;
    // What could not be read can only be passed on as it is.
    switch (event.malformed ? EnvelopeKind::raw : options_.kind) {
        case EnvelopeKind::raw:
            return render_raw(event, message);
        case EnvelopeKind::json:
            return render_json(event, message, storage);
        case EnvelopeKind::cloudevents:
            return render_binary(event, message);
        case EnvelopeKind::cloudevents_structured:
            return render_structured(event, message, storage);
    }
}

void Envelope::render_raw(const Event& event, Message& message) const {
    message.body = event.payload.value_or(std::string_view{});
    message.content_type = content_type_of(event);
    const std::size_t given = message.headers.size();
    const std::string traceparent = traceparent_of(event, message.headers);
    if (!traceparent.empty()) add_unless_given(message.headers, given, "traceparent", traceparent);
    if (event.malformed) message.headers.add("malformed", *event.malformed);
    if (!options_.metadata) return;
    add_unless_given(message.headers, given, "event-id", event.event_id);
    if (event.event_type) add_unless_given(message.headers, given, "event-type", *event.event_type);
    add_unless_given(message.headers, given, "occurred-at", TimeText(event.occurred_at));
    for_each_field(event, [&](std::string name, std::string_view value) {
        std::replace(name.begin(), name.end(), '_', '-');
        add_unless_given(message.headers, given, name, value);
    });
}

void Envelope::render_json(const Event& event, Message& message, std::string& storage) const {
    const std::string traceparent = traceparent_of(event, message.headers);
    storage.clear();
    storage.reserve(event.payload.value_or("").size() + 400);
    ObjectWriter object(storage);
    object.text("id", event.event_id);
    if (event.event_type) object.text("type", *event.event_type);
    for_each_field(event, [&](const char* name, std::string_view value) { object.text(name, value); });
    if (event.topic) object.text("topic", *event.topic);
    if (!event.key().empty()) object.text("key", event.key());
    object.text("occurred_at", TimeText(event.occurred_at));
    if (event.trace_id) object.text("trace_id", *event.trace_id);
    if (event.headers) object.json("headers", *event.headers);
    object.payload("payload", event);
    object.end();
    if (!traceparent.empty())
        add_unless_given(message.headers, message.headers.size(), "traceparent", traceparent);
    message.body = storage;
    message.content_type = json_type;
    message.enveloped = true;
}

void Envelope::render_binary(const Event& event, Message& message) const {
    const std::string traceparent = traceparent_of(event, message.headers);
    const std::size_t given = message.headers.size();
    for_each_attribute(event, source_.render(event), traceparent,
                       [&](const char* name, std::string_view value) {
                           Header& header = message.headers.emplace_back();
                           header.name.assign(options_.binding.prefix).append(name);
                           if (options_.binding.percent_encode)
                               header.value = percent_encoded(value);
                           else
                               header.value.assign(value);
                       });
    if (!traceparent.empty()) add_unless_given(message.headers, given, "traceparent", traceparent);
    message.body = event.payload.value_or(std::string_view{});
    message.content_type = content_type_of(event);
}

void Envelope::render_structured(const Event& event, Message& message, std::string& storage) const {
    const std::string traceparent = traceparent_of(event, message.headers);
    const std::size_t given = message.headers.size();
    storage.clear();
    storage.reserve(event.payload.value_or("").size() + 500);
    ObjectWriter object(storage);
    for_each_attribute(event, source_.render(event), traceparent,
                       [&](const char* name, std::string_view value) { object.text(name, value); });
    for (const auto& header : message.headers) {
        if (!is_extension_name(header.name)) continue;
        check_attribute(header.name, header.value);
        object.text(header.name, header.value);
    }
    if (event.payload) object.text("datacontenttype", content_type_of(event));
    object.payload("data", event);
    object.end();
    if (!traceparent.empty()) add_unless_given(message.headers, given, "traceparent", traceparent);
    message.body = storage;
    message.content_type = cloudevents_type;
    message.enveloped = true;
}

}  // namespace baton
