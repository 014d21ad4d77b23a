#include "intake/message_ids.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "wire/encoding.hpp"

namespace baton::intake {

bool is_unique_by_itself(std::string_view id) {
    const auto all = [](std::string_view text, std::string_view allowed) {
        return text.find_first_not_of(allowed) == std::string_view::npos;
    };
    if (id.size() == 26) return all(id, "0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz");
    return (id.size() == 36 && all(id, "0123456789abcdefABCDEF-")) ||
           (id.size() == 32 && all(id, "0123456789abcdefABCDEF"));
}

bool is_uuid(std::string_view id) {
    return id.size() == 36 && is_unique_by_itself(id) && id[8] == '-' && id[13] == '-' && id[18] == '-' &&
           id[23] == '-' && std::count(id.begin(), id.end(), '-') == 4;
}

std::string uuid_of(std::string_view id) {
    std::string bytes = wire::sha256(id).substr(0, 16);
    bytes[6] = static_cast<char>((bytes[6] & 0x0F) | 0x80);
    bytes[8] = static_cast<char>((bytes[8] & 0x3F) | 0x80);
    std::string text;
    append_uuid(text, bytes);
    return text;
}

std::string digest_of(const Incoming& message) {
    std::string all;
    const auto add = [&all](std::string_view part) {
        all.append(std::to_string(part.size())).append(":").append(part);
    };
    add(message.topic);
    add(message.content_type);
    add(message.key.value_or(""));
    add(message.time ? std::to_string(message.time->time_since_epoch().count()) : "");
    for (const auto& header : message.headers) {
        if (header.name.starts_with("x-")) continue;
        add(header.name);
        add(header.value);
    }
    add(message.body.value_or(""));
    return "sha256:" + to_hex(wire::sha256(all));
}

}  // namespace baton::intake
