#pragma once
// Events as nodes of a Neo4j database, numbered in the order in which they were applied.

#include <string>
#include <vector>

#include "brokers/neo4j/access.hpp"
#include "brokers/received.hpp"

namespace baton::brokers {

class Neo4jClient {
  public:
    explicit Neo4jClient(const relay::Settings& settings);

    // Make what the statement below needs.
    void make(const std::string& label) const;
    // The statement by which a sink with payload = "text" leaves a node of this label for each event.
    static std::string statement(const std::string& label);
    // Append what was applied after number `after`, in that order; returns the last number.
    std::int64_t read(const std::string& label, std::int64_t after, std::vector<Received>& all) const;
    // Remove the nodes of the label, of its counter and of its marks.
    void remove(const std::string& label, const std::string& marks) const;
    const Neo4jAccess& access() const { return access_; }

  private:
    Neo4jAccess access_;
};

}  // namespace baton::brokers
