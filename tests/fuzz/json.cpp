// JSON that is written piece by piece and taken apart without a tree.

#include "event/json.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "event/headers.hpp"
#include "event/template.hpp"
#include "event/trace.hpp"
#include "fuzz.hpp"
#include "wire/encoding.hpp"

using namespace baton;
using fuzz::require;
using nlohmann::json;

namespace {

void write_string(std::string_view text) {
    std::string written;
    append_json_string(written, text);
    require(is_json(written), "a string that was written is JSON");
    if (is_utf8(text)) require(json::parse(written).get<std::string>() == text, "and reads as what it was");
}

void take_apart(std::string_view text) {
    const auto members = json_members(text);  // must end, whatever the text is
    if (!is_json(text)) return;
    const json tree = json::parse(text);
    std::string line;
    append_json_line(line, text);
    require(line.find('\n') == std::string::npos && json::parse(line) == tree, "one line is the same JSON");
    if (!tree.is_object()) {
        require(members.empty(), "only an object has members");
        return;
    }
    std::map<std::string, json> last;
    for (const auto& [name, value] : members) {
        require(is_json(value), "a member's value is JSON");
        last[name] = json::parse(value);
    }
    require(json(last) == tree, "the members are those of the object");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text_of(data, size);
    write_string(text);
    take_apart(text);
    is_json_type(text);
    const std::string parent = make_traceparent(text, text);
    require(parent.empty() || parent.size() == 55 || parent == text, "a traceparent has its length");
    try {
        Headers headers;
        append_headers(headers, text);
        for (const auto& header : headers) require(is_utf8(header.value), "a header is text");
    } catch (const RenderError&) {
    }
    return 0;
}
