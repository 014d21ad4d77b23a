#pragma once

#include <map>

#include "relay/settings.hpp"
#include "support/broker.hpp"

namespace baton::test {

// Neo4j's community edition from its Maven jars, with everything but HTTP and Bolt switched off. Throws
// Unavailable when the jars can be had neither from the cache nor from the network.
class Neo4jServer final : public Broker {
  public:
    Neo4jServer();

    std::string url() const { return "http://127.0.0.1:" + std::to_string(port()); }
    // Let somebody in with this password only; also those who were there before.
    void admit(const std::string& user, const std::string& password) const;
    // How the auditor comes there.
    relay::Settings straight() const;

  protected:
    Command command() override;
    bool ready() override;
    void choose_ports() override;

  private:
    std::filesystem::path jars_;
    int bolt_port_ = 0;
};

}  // namespace baton::test
