#pragma once
// The way to a database of a Neo4j server, over HTTP: the Query API, which Neo4j has since 5.23.
//
//   url                 "http://localhost:7474", https:// for TLS
//   database            "neo4j"
//   username, password
//   connect_timeout 10s, timeout 30s, proxy, tls_*

#include <nlohmann/json.hpp>
#include <string>

#include "wire/http_transfers.hpp"

namespace baton::brokers {

// What Neo4j said when it did not do what it was asked.
struct Neo4jComplaint {
    long status = 0;
    std::string code;  // Neo.ClientError.Statement.SyntaxError, say
    std::string message;

    // Nothing when the answer is a success.
    static std::optional<Neo4jComplaint> read(const wire::HttpResponse& response);
    std::string words() const;
    // Nothing is taken until somebody mends login, rights, address or database.
    bool is_refusal() const;
    // The same may be taken a moment later.
    bool passes() const;
    // A constraint cannot be made because there is an index by its name or for its label.
    bool is_index_in_the_way() const;
};

class Neo4jAccess {
  public:
    // Throws SettingsError.
    explicit Neo4jAccess(const relay::Settings& settings);

    const wire::HttpOptions& options() const { return options_; }
    wire::HttpOptions& options() { return options_; }
    // A request that runs a statement in a transaction of its own. `parameters` is a JSON object as text.
    wire::HttpRequest request(std::string_view statement, std::string_view parameters) const;
    // Run a statement and wait; returns the rows. Throws AccessRefused when the server does not let us in,
    // ConnectionError when there is no answer, else Error.
    nlohmann::json ask(const std::string& statement, const nlohmann::json& parameters) const;

    const std::string& place() const { return place_; }

  private:
    wire::HttpOptions options_;
    std::string place_;  // for messages
    std::string url_;
    std::string login_;  // a header; empty for none
};

// A name within backticks, as a label or the name of a constraint.
std::string neo4j_name(std::string_view name);

}  // namespace baton::brokers
