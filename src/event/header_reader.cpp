#include "event/header_reader.hpp"

#include <simdjson.h>

#include <algorithm>

#include "event/headers.hpp"

namespace baton {

struct HeaderReader::Memory {
    simdjson::dom::parser parser;
    std::string text;  // with the room behind it that the parser wants
};

HeaderReader::HeaderReader() : memory_(std::make_unique<Memory>()) {}
HeaderReader::~HeaderReader() = default;
HeaderReader::HeaderReader(const HeaderReader&) : HeaderReader() {}
HeaderReader& HeaderReader::operator=(const HeaderReader&) {
    return *this;
}

void HeaderReader::append(Headers& headers, std::string_view json_object) {
    if (json_object.empty() || json_object == "{}") return;
    const std::size_t before = headers.size();
    if (append_usual(headers, json_object)) return;
    headers.shorten(before);
    append_headers(headers, json_object);
}

// False when there is something unusual in it: a fraction, a list, an object, a name that comes twice, or
// what is no JSON object.
bool HeaderReader::append_usual(Headers& headers, std::string_view json_object) {
    constexpr std::size_t usual_members = 32;
    auto& [parser, text] = *memory_;
    text.reserve(json_object.size() + simdjson::SIMDJSON_PADDING);
    text = json_object;
    simdjson::dom::object members;
    if (parser.parse(text.data(), text.size(), false).get(members) != simdjson::SUCCESS) return false;
    if (members.size() > usual_members) return false;
    const std::size_t first = headers.size();
    for (const auto& [name, value] : members) {
        if (std::any_of(headers.data() + first, headers.data() + headers.size(),
                        [name = name](const Header& other) { return other.name == name; }))
            return false;
        if (value.is_string())
            headers.add(name, std::string_view(value));
        else if (value.is_int64())
            headers.add(name, std::to_string(std::int64_t(value)));
        else if (value.is_bool())
            headers.add(name, bool(value) ? "true" : "false");
        else
            return false;
    }
    return true;
}

}  // namespace baton
