#include "event/trace.hpp"

#include <algorithm>
#include <cstdint>

namespace baton {

namespace {

constexpr std::string_view digits = "0123456789abcdef";

bool is_lower_hex(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) {
    return text.find_first_not_of('0') == std::string_view::npos;
}

// Tell whether it is version-traceid-parentid-flags as the recommendation has it; version ff is forbidden,
// and only later versions than 00 may be longer.
bool is_traceparent(std::string_view text) {
    if (text.size() < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
    const auto version = text.substr(0, 2);
    const auto trace = text.substr(3, 32);
    const auto parent = text.substr(36, 16);
    if (!is_lower_hex(version) || !is_lower_hex(trace) || !is_lower_hex(parent) ||
        !is_lower_hex(text.substr(53, 2)))
        return false;
    if (version == "ff" || is_zero(trace) || is_zero(parent)) return false;
    return text.size() == 55 || (version != "00" && text[55] == '-');
}

// Up to 16 digits in lower case.
std::uint64_t number_of(std::string_view hex) {
    std::uint64_t value = 0;
    for (const char c : hex) value = value << 4U | digits.find(c);
    return value;
}

void append_digits(std::string& out, std::uint64_t value) {
    for (int shift = 60; shift >= 0; shift -= 4) out += digits[value >> static_cast<unsigned>(shift) & 0xFU];
}

// FNV-1a: stable across runs and machines, which std::hash does not promise.
std::uint64_t hash(std::string_view text, std::uint64_t value = 14695981039346656037ULL) {
    for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return value;
}

// Spread over all bits, as samplers by ratio want it (the last step of splitmix64).
std::uint64_t spread(std::uint64_t value) {
    value = (value ^ value >> 30U) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ value >> 27U) * 0x94d049bb133111ebULL;
    return value ^ value >> 31U;
}

}  // namespace

std::string to_text(TraceId id) {
    std::string out;
    append_digits(out, id.high);
    append_digits(out, id.low);
    return out;
}

std::string to_text(SpanId id) {
    std::string out;
    append_digits(out, id.value);
    return out;
}

std::optional<TraceContext> read_traceparent(std::string_view traceparent, std::string_view tracestate) {
    if (!is_traceparent(traceparent)) return std::nullopt;
    TraceContext context;
    context.trace = {number_of(traceparent.substr(3, 16)), number_of(traceparent.substr(19, 16))};
    context.span = {number_of(traceparent.substr(36, 16))};
    context.flags = static_cast<std::uint8_t>(number_of(traceparent.substr(53, 2)));
    context.state = tracestate;
    return context;
}

std::string write_traceparent(const TraceContext& context) {
    std::string out = "00-";
    append_digits(out, context.trace.high);
    append_digits(out, context.trace.low);
    out += '-';
    append_digits(out, context.span.value);
    out += '-';
    out += digits[context.flags >> 4U];
    out += digits[context.flags & 0xFU];
    return out;
}

std::string_view trace_id_of(std::string_view traceparent) {
    return is_traceparent(traceparent) ? traceparent.substr(3, 32) : std::string_view();
}

TraceId read_trace_id(std::string_view text) {
    std::string plain;
    for (const char c : text) {
        if (c == '-') continue;
        plain += c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    if (plain.size() != 32 || !is_lower_hex(plain)) return {};
    return {number_of(std::string_view(plain).substr(0, 16)), number_of(std::string_view(plain).substr(16))};
}

SpanId publish_span_of(std::string_view event_id) {
    return {std::max<std::uint64_t>(hash(event_id), 1)};
}

TraceId own_trace_of(std::string_view event_id, std::string_view place) {
    const std::uint64_t value = hash(event_id, spread(hash(place)));
    return {spread(value), std::max<std::uint64_t>(spread(value + 0x9e3779b97f4a7c15ULL), 1)};
}

std::string make_traceparent(std::string_view trace_id, std::string_view event_id) {
    if (is_traceparent(trace_id)) return std::string(trace_id);
    const TraceId trace = read_trace_id(trace_id);
    if (!trace.valid()) return {};
    return write_traceparent({.trace = trace, .span = publish_span_of(event_id), .flags = 1});
}

}  // namespace baton
