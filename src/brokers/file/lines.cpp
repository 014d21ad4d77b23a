#include "brokers/file/lines.hpp"

#include <simdjson.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "baton/error.hpp"
#include "wire/encoding.hpp"

namespace baton::brokers {

namespace {

// Cut the value of "body" out of the line as it stands: a parsed one would lose its spaces.
std::string body_of(const nlohmann::json& object, const std::string& line) {
    if (object.contains("body_text")) return object["body_text"];
    if (object.contains("body_base64"))
        return wire::base64_decode(object["body_base64"].get<std::string>()).value();
    const std::string marker = ",\"body\":";
    const auto begin = line.find(marker) + marker.size();
    return line.substr(begin, line.size() - begin - 1);
}

}  // namespace

std::vector<Received> read_lines(const std::filesystem::path& path, std::vector<std::string>* others) {
    std::vector<Received> messages;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (others != nullptr && !line.starts_with("{")) {
            others->push_back(line);
            continue;
        }
        const auto object = nlohmann::json::parse(line, nullptr, false);
        if (!object.is_object()) throw Error("no JSON object: " + line.substr(0, 200));
        messages.push_back({object["id"], object.value("key", ""), body_of(object, line),
                            object["headers"].get<std::map<std::string, std::string>>()});
    }
    return messages;
}

void read_line_ids(const std::filesystem::path& path, const std::function<void(std::string_view)>& take) {
    std::ifstream file(path);
    simdjson::dom::parser parser;
    for (std::string line; std::getline(file, line);) {
        line.reserve(line.size() + simdjson::SIMDJSON_PADDING);
        std::string_view id;
        if (parser.parse(line.data(), line.size(), false)["id"].get(id) != simdjson::SUCCESS)
            throw Error("no JSON object with an id: " + line.substr(0, 200));
        take(id);
    }
}

}  // namespace baton::brokers
