#include "event/headers.hpp"

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "event/json.hpp"
#include "event/template.hpp"

namespace baton {

namespace {

// A number keeps all of its digits, as it does in the database: a double would not. Of a name that comes
// twice, the last one counts.
std::string_view as_written(std::string_view json_object, std::string_view name) {
    std::string_view found;
    for (const auto& [key, value] : json_members(json_object))
        if (key == name) found = value;
    return found;
}

}  // namespace

void append_headers(Headers& headers, std::string_view json_object) {
    if (json_object.empty() || json_object == "{}") return;
    if (!is_json(json_object)) throw RenderError("the event's headers are no JSON object");
    const auto object = nlohmann::json::parse(json_object);
    if (object.is_null()) return;
    if (!object.is_object()) throw RenderError("the event's headers are no JSON object");
    for (const auto& [name, value] : object.items()) {
        if (value.is_null()) continue;
        if (value.is_number_float())
            headers.add(name, as_written(json_object, name));
        else
            headers.add(name, value.is_string() ? value.get_ref<const std::string&>() : value.dump());
    }
}

bool begins_with(std::string_view name, std::string_view beginning) {
    return same_name(name.substr(0, beginning.size()), beginning);
}

bool is_named(const Header& header, std::string_view name) {
    return same_name(header.name, name);
}

bool comes_again(const Headers& headers, std::size_t place) {
    for (std::size_t i = place + 1; i < headers.size(); ++i)
        if (headers[i].name == headers[place].name) return true;
    return false;
}

const Header* find_header(const Headers& headers, std::string_view name) {
    for (const auto& header : headers)
        if (is_named(header, name)) return &header;
    return nullptr;
}

}  // namespace baton
