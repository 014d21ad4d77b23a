#include "base/text.hpp"

#include <algorithm>
#include <cstdint>

namespace baton {

namespace {

// Not those of <cctype>, which follow the process's locale.
char lower_letter(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_letter_or_digit(char c) {
    const char small = lower_letter(c);
    return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9');
}

// The value of a hexadecimal digit, or 16.
std::size_t digit_value(char c) {
    return std::min<std::size_t>(std::string_view("0123456789abcdef").find(lower_letter(c)), 16);
}

}  // namespace

std::size_t utf8_length(std::string_view bytes, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    const unsigned char first = byte(at);
    if (first < 0x80) return 1;
    std::size_t length = 0;
    std::uint32_t code = 0;
    if (first >= 0xC2 && first < 0xE0)
        length = 2, code = first & 0x1FU;
    else if (first >= 0xE0 && first < 0xF0)
        length = 3, code = first & 0x0FU;
    else if (first >= 0xF0 && first < 0xF5)
        length = 4, code = first & 0x07U;
    if (length == 0 || at + length > bytes.size()) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(at + i) & 0xC0U) != 0x80U) return 0;
        code = code << 6U | (byte(at + i) & 0x3FU);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

bool is_utf8(std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t length = utf8_length(bytes, at);
        if (length == 0) return false;
        at += length;
    }
    return true;
}

bool is_text(std::string_view bytes) {
    return bytes.find('\0') == std::string_view::npos && is_utf8(bytes);
}

std::string lower(std::string_view text) {
    std::string lowered(text);
    std::transform(lowered.begin(), lowered.end(), lowered.begin(), lower_letter);
    return lowered;
}

bool same_name(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return lower_letter(x) == lower_letter(y); });
}

void append_hex(std::string& out, std::string_view bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    for (const char c : bytes) {
        out += digits[static_cast<unsigned char>(c) >> 4U];
        out += digits[static_cast<unsigned char>(c) & 0xFU];
    }
}

std::string to_hex(std::string_view bytes) {
    std::string text;
    text.reserve(bytes.size() * 2);
    append_hex(text, bytes);
    return text;
}

void append_uuid(std::string& out, std::string_view bytes) {
    append_hex(out, bytes.substr(0, 4));
    for (const std::size_t at : {4U, 6U, 8U}) {
        out += '-';
        append_hex(out, bytes.substr(at, 2));
    }
    out += '-';
    append_hex(out, bytes.substr(10, 6));
}

void append_base64(std::string& out, std::string_view bytes) {
    constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const auto byte = [&](std::size_t i) {
        return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : std::uint32_t{0};
    };
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        const std::uint32_t group = byte(at) << 16U | byte(at + 1) << 8U | byte(at + 2);
        out += alphabet[group >> 18U & 63U];
        out += alphabet[group >> 12U & 63U];
        out += at + 1 < bytes.size() ? alphabet[group >> 6U & 63U] : '=';
        out += at + 2 < bytes.size() ? alphabet[group & 63U] : '=';
    }
}

void append_percent(std::string& out, char byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    out += '%';
    out += digits[static_cast<unsigned char>(byte) >> 4U];
    out += digits[static_cast<unsigned char>(byte) & 0xFU];
}

void append_url_escaped(std::string& out, std::string_view value) {
    for (const char c : value) {
        if (is_letter_or_digit(c) || c == '-' || c == '.' || c == '_' || c == '~')
            out += c;
        else
            append_percent(out, c);
    }
}

std::string percent_decoded(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const bool digits = text[at] == '%' && at + 2 < text.size() && digit_value(text[at + 1]) < 16 &&
                            digit_value(text[at + 2]) < 16;
        if (!digits) {
            out += text[at];
            continue;
        }
        out += static_cast<char>(digit_value(text[at + 1]) * 16 + digit_value(text[at + 2]));
        at += 2;
    }
    return out;
}

}  // namespace baton
