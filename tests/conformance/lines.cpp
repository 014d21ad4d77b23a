#include "conformance/lines.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace baton::test {

std::string decode_base64(const std::string& text) {
    const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    unsigned group = 0;
    int bits = 0;
    for (const char c : text) {
        if (c == '=') break;
        group = group << 6U | static_cast<unsigned>(alphabet.find(c));
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes.push_back(static_cast<char>(group >> bits & 0xFFU));
        }
    }
    return bytes;
}

namespace {

// Cut the value of "body" out of the line as it stands: a parsed one would lose its spaces.
std::string body_of(const nlohmann::json& object, const std::string& line) {
    if (object.contains("body_text")) return object["body_text"];
    if (object.contains("body_base64")) return decode_base64(object["body_base64"]);
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
        if (!object.is_object()) {
            ADD_FAILURE() << "no JSON object: " << line.substr(0, 200);
            continue;
        }
        messages.push_back({object["id"], object.value("key", ""), body_of(object, line),
                            object["headers"].get<std::map<std::string, std::string>>()});
    }
    return messages;
}

}  // namespace baton::test
