#include "brokers/neo4j/tests/server.hpp"
#include "chaos/stand_parts.hpp"

namespace baton::test {

using audit::Fault;

namespace {

class Neo4jStand final : public BrokerStand<Neo4jServer> {
  public:
    Neo4jStand() {
        begin();
        server_.admit("relay", secret_.value());
    }
    Values sink() override {
        return {{"type", "neo4j"},     {"url", "http://" + at(proxy_.port())},
                {"username", "relay"}, {"password", secret_.reference()},
                {"timeout", "3s"},     {"connect_timeout", "2s"}};
    }
    Values reader() override {
        Values values;
        for (const auto& [key, value] : server_.straight().values()) values[key] = value;
        return values;
    }
    std::vector<Fault> own_faults(Way) override {
        return {secret_.exchange([this](const std::string& value) { server_.admit("relay", value); })};
    }
};

}  // namespace

void add_neo4j_stands(StandMakers& makers) {
    makers["neo4j"] = make<Neo4jStand>;
}

}  // namespace baton::test
