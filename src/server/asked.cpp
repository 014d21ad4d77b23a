#include "server/asked.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "event/json.hpp"
#include "server/problem.hpp"
#include "wire/http_door.hpp"

namespace baton::server {

using operations::Json;
using operations::Kind;
using operations::Operation;
using operations::Parameter;

namespace {

constexpr std::size_t largest_body = 1 << 20;

bool is_place(const std::string& part) {
    return part.starts_with('{');
}

std::vector<std::string> split(std::string_view text, char at) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const auto end = std::min(text.find(at, begin), text.size());
        parts.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

std::string decoded(std::string_view text) {
    std::string plain = percent_decoded(text);
    if (!is_text(plain)) throw Problem(400, "the address is not UTF-8 text", "write other bytes as %XX");
    return plain;
}

std::string query_of(const httplib::Request& request) {
    const auto mark = request.target.find('?');
    if (mark == std::string::npos) return {};
    const auto end = request.target.find('#', mark);
    return request.target.substr(mark + 1, end == std::string::npos ? end : end - mark - 1);
}

Json arguments_of_query(const httplib::Request& request) {
    Json arguments = Json::object();
    for (auto& pair : split(query_of(request), '&')) {
        if (pair.empty()) continue;
        std::ranges::replace(pair, '+', ' ');
        const auto equals = pair.find('=');
        const std::string name = decoded(pair.substr(0, equals));
        if (arguments.contains(name)) throw Problem(400, name + " is given twice");
        arguments[name] = equals == std::string::npos ? "" : decoded(pair.substr(equals + 1));
    }
    return arguments;
}

const char* wanted_by(Kind kind) {
    return kind == Kind::text || kind == Kind::time ? "a text" : operations::name_of(kind);
}

bool is_of(Kind kind, const nlohmann::json& value) {
    switch (kind) {
        case Kind::integer:
            return value.is_number_integer();
        case Kind::number:
            return value.is_number();
        case Kind::boolean:
            return value.is_boolean();
        case Kind::texts:
            return value.is_array() &&
                   std::ranges::all_of(value, [](const auto& item) { return item.is_string(); });
        default:
            return value.is_string();
    }
}

// A value of the body. JSON stays as it is written, so that a number keeps all its digits.
Json value_of(const Parameter& parameter, std::string_view written) {
    if (written == "null" && !parameter.required) return nullptr;
    if (parameter.kind == Kind::json) return std::string(written);
    const auto value = nlohmann::json::parse(written);  // objects that keep their order take quadratic time
    if (!is_of(parameter.kind, value))
        throw Problem(400, parameter.name + " is not " + wanted_by(parameter.kind), parameter.about);
    return value;
}

// The body may come from anybody: it is read in one pass, and only what a parameter takes is kept.
Json arguments_of_body(const Operation& operation, const std::string& body) {
    Json arguments = Json::object();
    if (body.empty()) return arguments;
    if (!nlohmann::json::accept(body)) throw Problem(400, "the body is not JSON", "send a JSON object");
    if (body[body.find_first_not_of(" \t\r\n")] != '{')
        throw Problem(400, "the body is not a JSON object", "send a JSON object");
    const auto parameters = operations::parameters_of(operation);
    for (const auto& [name, written] : json_members(body)) {
        const auto known = std::ranges::find(parameters, name, &Parameter::name);
        if (known == parameters.end() || operation.path.find("{" + name + "}") != std::string::npos)
            throw Problem(400, "there is no parameter \"" + name + "\" in the body");
        arguments[name] = value_of(*known, written);
    }
    return arguments;
}

}  // namespace

std::vector<std::string> path_parts(const httplib::Request& request) {
    constexpr std::string_view base = "/api/v1";
    std::string_view path(request.target);
    path = path.substr(0, path.find_first_of("?#"));
    if (!path.starts_with(base) || (path.size() > base.size() && path[base.size()] != '/'))
        throw Problem(404, "there is nothing here", "the API is below /api/v1");
    path.remove_prefix(std::min(path.size(), base.size() + 1));
    std::vector<std::string> parts;
    for (const auto& part : split(path, '/')) parts.push_back(decoded(part));
    return parts;
}

Routes::Routes() {
    for (const auto& endpoint : endpoints())
        routes_.push_back({&endpoint, split(endpoint.operation.path.substr(1), '/')});
}

// How many parts are the same word; -1 when the path is another.
int Routes::Route::fit(const std::vector<std::string>& asked) const {
    if (asked.size() != parts.size()) return -1;
    int same = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (is_place(parts[i]) ? asked[i].empty() : asked[i] != parts[i]) return -1;
        if (!is_place(parts[i])) ++same;
    }
    return same;
}

const Endpoint& Routes::find(const std::string& method, const std::vector<std::string>& parts,
                             std::string& allowed) const {
    int best = -1;
    for (const auto& route : routes_) best = std::max(best, route.fit(parts));
    if (best < 0) throw Problem(404, "there is nothing here", "GET /api/v1/openapi.json lists what there is");
    const Endpoint* found = nullptr;
    for (const auto& route : routes_) {
        if (route.fit(parts) != best) continue;
        const auto& its_method = route.endpoint->operation.method;
        allowed += (allowed.empty() ? "" : ", ") + its_method;
        if (its_method == method || (its_method == "GET" && method == "HEAD")) found = route.endpoint;
    }
    if (found == nullptr) throw Problem(405, "this cannot be done here", "what can be done: " + allowed);
    return *found;
}

Json arguments_of(const Operation& operation, const httplib::Request& request,
                  const std::vector<std::string>& parts, const std::string& body) {
    Json arguments = arguments_of_query(request);
    const bool reads = operation.method == "GET";
    if (!reads && !arguments.empty())
        throw Problem(400, "a change takes no arguments in its address", "send them in the body");
    if (!reads) arguments = arguments_of_body(operation, body);
    const auto names = split(operation.path.substr(1), '/');
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (!is_place(names[i])) continue;
        const std::string name = names[i].substr(1, names[i].size() - 2);
        if (arguments.contains(name)) throw Problem(400, name + " is given twice");
        arguments[name] = parts[i];
    }
    return arguments;
}

std::string read_body(const httplib::Request& request, const httplib::Response& response,
                      const httplib::ContentReader& reader) {
    const std::string length = request.get_header_value("Content-Length");
    const bool in_pieces = request.has_header("Transfer-Encoding");
    if (!in_pieces && (length.empty() || length == "0")) return {};
    const auto refuse = [](int status, const char* why, const char* hint) {
        wire::HttpDoor::close_after_answer();
        throw Problem(status, why, hint);
    };
    if (!is_json_type(request.get_header_value("Content-Type")))
        refuse(415, "the body is not JSON", "send it with Content-Type: application/json");
    if (!in_pieces && length.find_first_not_of("0123456789") != std::string::npos)
        refuse(400, "the length of the body is no number", "send it whole, with its length");
    if (!in_pieces && (length.size() > 7 || std::stoul(length) > largest_body))
        refuse(413, "the body has more than 1 MB", "send less at once");
    std::string body;
    bool too_large = false;
    const bool whole = reader([&](const char* bytes, std::size_t size) {
        too_large = body.size() + size > largest_body;
        if (!too_large) body.append(bytes, size);
        return !too_large;
    });
    if (too_large || response.status == 413) refuse(413, "the body has more than 1 MB", "send less at once");
    if (response.status == 415)
        refuse(415, "the body is packed in a way that is not known", "send it as it is");
    if (!whole) refuse(400, "the body cannot be read", "send it whole, with its length");
    return body;
}

}  // namespace baton::server
