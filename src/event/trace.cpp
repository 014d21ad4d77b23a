#include "event/trace.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace baton {

namespace {

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

// FNV-1a: stable across runs and machines, which std::hash does not promise.
std::uint64_t hash(std::string_view text) {
    std::uint64_t value = 14695981039346656037ULL;
    for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return value;
}

}  // namespace

std::string_view trace_id_of(std::string_view traceparent) {
    return is_traceparent(traceparent) ? traceparent.substr(3, 32) : std::string_view();
}

std::string make_traceparent(std::string_view trace_id, std::string_view event_id) {
    if (is_traceparent(trace_id)) return std::string(trace_id);
    std::string digits;
    for (const char c : trace_id) {
        if (c == '-') continue;
        digits += c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    if (digits.size() != 32 || !is_lower_hex(digits) || is_zero(digits)) return {};
    std::uint64_t span = hash(event_id);
    if (span == 0) span = 1;
    constexpr std::string_view alphabet = "0123456789abcdef";
    std::array<char, 16> text{};
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = alphabet[span >> (60 - 4 * i) & 0xFU];
    return "00-" + digits + "-" + std::string(text.data(), text.size()) + "-01";
}

}  // namespace baton
