#include "otlp/encode.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "baton/version.hpp"

namespace baton::otlp {

namespace {

using nlohmann::json;

constexpr std::size_t longest_text = 4096;
// Bits of Span.flags: the parent is known to be of this process or not, and it is not.
constexpr unsigned knows_parent = 0x100;
constexpr unsigned parent_is_remote = 0x200;
constexpr int status_error = 2;

std::string_view cut(std::string_view text) {
    return text.substr(0, longest_text);
}

json value_of(const std::variant<std::string, std::int64_t, bool>& value) {
    if (const auto* text = std::get_if<std::string>(&value)) return {{"stringValue", cut(*text)}};
    if (const auto* number = std::get_if<std::int64_t>(&value))
        return {{"intValue", std::to_string(*number)}};
    return {{"boolValue", std::get<bool>(value)}};
}

json attribute(std::string_view name, const std::variant<std::string, std::int64_t, bool>& value) {
    return {{"key", name}, {"value", value_of(value)}};
}

std::string nanoseconds(Span::Time time) {
    return std::to_string(time.time_since_epoch().count());
}

json link_to(const TraceContext& context) {
    json made{
        {"traceId", to_text(context.trace)}, {"spanId", to_text(context.span)}, {"flags", context.flags}};
    if (!context.state.empty()) made["traceState"] = cut(context.state);
    return made;
}

json as_json(const Span& span) {
    json made{{"traceId", to_text(span.context.trace)},
              {"spanId", to_text(span.context.span)},
              {"name", cut(span.name)},
              {"kind", static_cast<int>(span.kind)},
              {"startTimeUnixNano", nanoseconds(span.start)},
              {"endTimeUnixNano", nanoseconds(std::max(span.start, span.end))},
              {"flags", span.context.flags | knows_parent | (span.remote_parent ? parent_is_remote : 0)}};
    if (span.parent.valid()) made["parentSpanId"] = to_text(span.parent);
    if (!span.context.state.empty()) made["traceState"] = cut(span.context.state);
    json& attributes = made["attributes"] = json::array();
    for (const auto& each : span.attributes) attributes.push_back(attribute(each.name, each.value));
    for (const auto& context : span.links) made["links"].push_back(link_to(context));
    if (span.error) made["status"] = {{"code", status_error}, {"message", cut(*span.error)}};
    return made;
}

}  // namespace

std::string encode(const std::map<std::string, std::string>& resource, std::span<const Span> spans) {
    json attributes = json::array();
    for (const auto& [name, value] : resource) attributes.push_back(attribute(name, value));
    json list = json::array();
    for (const auto& span : spans) list.push_back(as_json(span));
    json scope{{"scope", {{"name", "baton"}, {"version", version()}}}, {"spans", std::move(list)}};
    json request{{"resourceSpans", json::array({{{"resource", {{"attributes", std::move(attributes)}}},
                                                 {"scopeSpans", json::array({std::move(scope)})}}})}};
    return request.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::size_t rejected_spans(std::string_view answer) {
    const json read = json::parse(answer, nullptr, false);
    if (!read.is_object() || !read.contains("partialSuccess") || !read["partialSuccess"].is_object())
        return 0;
    const json count = read["partialSuccess"].value("rejectedSpans", json());
    if (count.is_number_unsigned()) return count.get<std::size_t>();
    if (!count.is_string()) return 0;
    const auto& text = count.get_ref<const std::string&>();
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? number : 0;
}

}  // namespace baton::otlp
