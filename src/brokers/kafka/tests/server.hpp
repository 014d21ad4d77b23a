#pragma once

#include "support/broker.hpp"

namespace baton::test {

// Kafka in KRaft mode from its Maven jars. Throws Unavailable when they can be had neither from the cache nor
// from the network.
class KafkaServer final : public Broker {
  public:
    KafkaServer();
    // The second listener tells clients to come back through this port: a proxy's. Set it before start().
    int advertised_proxy_port = 0;
    int proxied_port() const { return proxied_port_; }
    // Lines of server.properties; set them before start().
    std::vector<std::string> settings;
    // Those by which the second listener wants this password of the user "relay", over this protocol.
    static std::vector<std::string> password_settings(const std::string& protocol,
                                                      const std::string& password);

  protected:
    Command command() override;
    bool ready() override;
    void choose_ports() override;
    void prepare() override;

  private:
    void write_properties() const;
    std::vector<std::string> java(const std::string& main_class) const;

    std::filesystem::path jars_;
    int proxied_port_ = 0;
    int controller_port_ = 0;
};

}  // namespace baton::test
