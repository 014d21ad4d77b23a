#pragma once
// Reading an answer in JSON that may have another form than was promised.

#include <nlohmann/json.hpp>
#include <string>

namespace baton::wire {

// A member's text; empty where there is no such member, or where the member is no text.
inline std::string text_member(const nlohmann::json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace baton::wire
