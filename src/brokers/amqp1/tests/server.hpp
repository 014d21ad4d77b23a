#pragma once

#include <map>
#include <optional>
#include <set>

#include "brokers/amqp1/settings.hpp"
#include "support/broker.hpp"
#include "support/certificate.hpp"

namespace baton::test {

// ActiveMQ Artemis from its Maven jars. It makes queues by itself, but for "not-there" and addresses that
// begin with "missing.", and everybody has all rights but those that deny() takes away. Throws Unavailable
// when the jars can be had neither from the cache nor from the network.
class ArtemisServer final : public Broker {
  public:
    ArtemisServer();
    // Who may come with which password, besides the auditor; read at every start.
    std::map<std::string, std::string> users;
    // Speak TLS on a second port with this certificate, where it also lets those in who show the same
    // certificate. Set it before start().
    std::optional<Certificate> certificate;
    int tls_port() const { return tls_port_; }

    std::string url() const { return "amqp://127.0.0.1:" + std::to_string(port()); }
    // How the auditor comes there.
    brokers::Amqp1Server straight() const;

    // Nobody but the auditor may send to this address, until allow().
    void deny(const std::string& address);
    void allow(const std::string& address);
    // Make a queue that is not there.
    void add_queue(const std::string& address);
    // How many messages the queue holds, those included that a reader has and has not settled.
    std::size_t held(const std::string& queue) const;
    // The queue that refuses messages beyond the first few, until it is read.
    static std::string small_address() { return "small.queue"; }

  protected:
    Command command() override;
    bool ready() override;
    void choose_ports() override;

  private:
    void write_users() const;
    void write_broker() const;
    // Wait until a change of the settings is heard.
    void wait_until_heard(const std::string& address, bool allowed) const;

    std::filesystem::path jars_;
    int tls_port_ = 0;
    std::set<std::string> denied_;
    std::set<std::string> queues_;
};

}  // namespace baton::test
