#include "event/json.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace baton {

namespace {

bool is_plain(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

void append_escaped(std::string& out, char c) {
    constexpr std::string_view digits = "0123456789abcdef";
    switch (c) {
        case '"':
            out += "\\\"";
            break;
        case '\\':
            out += "\\\\";
            break;
        case '\n':
            out += "\\n";
            break;
        case '\r':
            out += "\\r";
            break;
        case '\t':
            out += "\\t";
            break;
        default:
            out += "\\u00";
            out += digits[static_cast<unsigned char>(c) >> 4U];
            out += digits[static_cast<unsigned char>(c) & 0xFU];
    }
}

}  // namespace

void append_json_string(std::string& out, std::string_view value) {
    out += '"';
    for (std::size_t at = 0; at < value.size();) {
        std::size_t plain = at;
        while (plain < value.size() && is_plain(value[plain])) ++plain;
        out.append(value, at, plain - at);
        at = plain;
        if (at == value.size()) break;
        const std::size_t length = utf8_length(value, at);
        if (length > 1)
            out.append(value, at, length);
        else if (length == 1)
            append_escaped(out, value[at]);
        else
            out += "\xEF\xBF\xBD";
        at += length > 0 ? length : 1;
    }
    out += '"';
}

void append_json_line(std::string& out, std::string_view json) {
    const std::size_t from = out.size();
    out += json;
    // Inside a JSON string a line break is always escaped, so any that is found stands between tokens.
    for (std::size_t at = from; at < out.size(); ++at)
        if (out[at] == '\n' || out[at] == '\r') out[at] = ' ';
}

bool is_json(std::string_view text) {
    // The library takes a zero byte for the end, whatever follows.
    return text.find('\0') == std::string_view::npos && nlohmann::json::accept(text);
}

bool is_json_type(std::string_view content_type) {
    const std::string_view type = content_type.substr(0, content_type.find(';'));
    return type == "application/json" || type.ends_with("+json");
}

namespace {

std::size_t skip_space(std::string_view text, std::size_t at) {
    return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

// Return where the string that begins at `at` has ended.
std::size_t skip_string(std::string_view text, std::size_t at) {
    for (++at; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '\\') ++at;
    return std::min(at + 1, text.size());
}

// Return where the value that begins at `at` has ended.
std::size_t skip_value(std::string_view text, std::size_t at) {
    for (int depth = 0; at < text.size();) {
        const char c = text[at];
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) return at;
        if (c == '"') {
            at = skip_string(text, at);
            continue;
        }
        if (c == '{' || c == '[') ++depth;
        if (c == '}' || c == ']') --depth;
        ++at;
    }
    return at;
}

}  // namespace

std::vector<std::pair<std::string, std::string_view>> json_members(std::string_view object) {
    std::vector<std::pair<std::string, std::string_view>> members;
    std::size_t at = skip_space(object, 0);
    if (at == object.size() || object[at] != '{') return members;
    at = skip_space(object, at + 1);
    while (at < object.size() && object[at] == '"') {
        const std::size_t name_end = skip_string(object, at);
        const auto name = nlohmann::json::parse(object.substr(at, name_end - at), nullptr, false);
        if (!name.is_string()) return members;
        at = skip_space(object, skip_space(object, name_end) + 1);
        const std::size_t end = skip_value(object, at);
        std::string_view value = object.substr(at, end - at);
        value = value.substr(0, value.find_last_not_of(" \t\r\n") + 1);
        members.emplace_back(name.get<std::string>(), value);
        at = skip_space(object, end);
        if (at < object.size() && object[at] == ',') at = skip_space(object, at + 1);
    }
    return members;
}

}  // namespace baton
