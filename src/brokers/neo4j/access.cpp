#include "brokers/neo4j/access.hpp"

#include "baton/error.hpp"
#include "event/json.hpp"
#include "wire/access_refused.hpp"
#include "wire/encoding.hpp"
#include "wire/json_answer.hpp"
#include "wire/url.hpp"

namespace baton::brokers {

using nlohmann::json;
using std::chrono::milliseconds;

std::string neo4j_name(std::string_view name) {
    std::string quoted = "`";
    for (const char letter : name) quoted += letter == '`' ? std::string("``") : std::string(1, letter);
    return quoted + "`";
}

std::optional<Neo4jComplaint> Neo4jComplaint::read(const wire::HttpResponse& response) {
    Neo4jComplaint complaint;
    complaint.status = response.status;
    if (response.status == 0) {
        complaint.message = response.error;
        return complaint;
    }
    const json answer = json::parse(response.body, nullptr, false);
    const bool success = response.status >= 200 && response.status < 300;
    if (success && answer.is_object() && answer.contains("data") && !answer.contains("errors"))
        return std::nullopt;
    if (answer.is_object() && answer.contains("errors") && answer["errors"].is_array() &&
        !answer["errors"].empty()) {
        complaint.code = wire::text_member(answer["errors"][0], "code");
        complaint.message = wire::text_member(answer["errors"][0], "message");
    } else {
        complaint.message = "the answer is none of Neo4j's Query API";
        if (success) complaint.status = 502;  // somebody else's answer, or a part of one
    }
    return complaint;
}

std::string Neo4jComplaint::words() const {
    if (status == 0) return message;
    std::string text = code.empty() || code == "N/A" ? "HTTP " + std::to_string(status) : code;
    if (!message.empty()) text += ": " + message.substr(0, 1000);
    if (status == 404 && code.empty()) text += " (Neo4j has it since 5.23)";
    return text;
}

bool Neo4jComplaint::is_refusal() const {
    return status == 401 || status == 403 || status == 404 || status == 405 || status == 407 ||
           (status >= 300 && status < 400) || code.starts_with("Neo.ClientError.Security.") ||
           code.starts_with("Neo.ClientError.Database.");
}

bool Neo4jComplaint::passes() const {
    return status == 0 || status >= 500 || status == 408 || status == 429 ||
           code.starts_with("Neo.TransientError.") || code.starts_with("Neo.DatabaseError.") ||
           code.starts_with("Neo.ClientError.Cluster.") || code.starts_with("Neo.ClientError.Transaction.");
}

bool Neo4jComplaint::is_index_in_the_way() const {
    return code == "Neo.ClientError.Schema.IndexWithNameAlreadyExists" ||
           code == "Neo.ClientError.Schema.IndexAlreadyExists";
}

Neo4jAccess::Neo4jAccess(const relay::Settings& settings) {
    if (settings.has("max_concurrent"))
        settings.refuse("max_concurrent", "cannot be set", "transactions follow each other, in order");
    options_ = wire::read_http_options(settings, 1);
    wire::Url url;
    try {
        url = wire::parse_url(settings.text("url", "http://localhost:7474"));
    } catch (const UsageError& error) {
        settings.refuse("url", std::string("cannot be used: ") + error.what(), error.hint());
    }
    if (url.scheme != "http" && url.scheme != "https")
        settings.refuse("url", "must begin with http:// or https://",
                        "baton speaks to Neo4j over HTTP, not over Bolt");
    if (!url.path.empty()) settings.refuse("url", "has a path", "the database has a setting of its own");
    const std::string database = settings.text("database", "neo4j");
    if (database.empty() || database.find_first_of("/?#% ") != std::string::npos)
        settings.refuse("database", "is no name of a database");
    const int port = url.port != 0 ? url.port : url.scheme == "https" ? 7473 : 7474;
    place_ = url.host + ":" + std::to_string(port);
    const std::string host = url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]";
    url_ = url.scheme + "://" + host + ":" + std::to_string(port) + "/db/" + database + "/query/v2";
    const std::string user = settings.text("username", url.user);
    const std::string password = settings.text("password", url.password);
    if (!user.empty()) login_ = "Authorization: Basic " + wire::base64_encode(user + ":" + password);
}

wire::HttpRequest Neo4jAccess::request(std::string_view statement, std::string_view parameters) const {
    wire::HttpRequest request;
    request.url = url_;
    request.headers = {"Content-Type: application/json", "Accept: application/json"};
    if (!login_.empty()) request.headers.push_back(login_);
    request.own_body.reserve(statement.size() + parameters.size() + 64);
    request.own_body += R"({"statement":)";
    append_json_string(request.own_body, statement);
    request.own_body += R"(,"parameters":)";
    request.own_body.append(parameters).append("}");
    return request;
}

json Neo4jAccess::ask(const std::string& statement, const json& parameters) const {
    wire::HttpTransfers transfers(options_);
    transfers.start(request(statement, parameters.dump()));
    std::vector<wire::HttpResponse> responses;
    while (responses.empty()) transfers.collect(responses, milliseconds(1000));
    const auto complaint = Neo4jComplaint::read(responses.front());
    if (!complaint) return json::parse(responses.front().body)["data"]["values"];
    const std::string words = "neo4j at " + place_ + ": " + complaint->words();
    if (complaint->is_refusal()) throw wire::AccessRefused(words);
    if (complaint->passes()) throw ConnectionError(words);
    throw Error(words);
}

}  // namespace baton::brokers
