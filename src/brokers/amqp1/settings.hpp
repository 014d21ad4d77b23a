#pragma once
// Where an AMQP 1.0 broker is and how to come to it, as sink and source are told.
//
//   url              "amqp://user:password@host:5672", amqps:// for TLS (port 5671)
//   username, password, tls_*
//   sasl             "plain" | "external" | "anonymous" | "none"; plain where there is a user name, external
//                    where there is a certificate of our own and no user name, else anonymous
//   kind             "queue" | "topic" | "any": what an address has to be. A broker that makes addresses by
//                    itself makes this; any leaves the choice to the broker
//   connect_timeout  5s
//   keep_alive       60s: how long the broker may be silent; 0 for any time

#include <chrono>
#include <string>

#include "relay/settings.hpp"
#include "wire/byte_stream.hpp"

namespace baton::brokers {

struct Amqp1Server {
    std::string host;
    int port = 5672;
    wire::TlsSettings tls;
    std::string mechanism;  // of SASL; empty for none
    std::string user;
    std::string password;
    std::string capability;  // of addresses; empty for any
    std::chrono::milliseconds connect_timeout{};
    std::chrono::milliseconds keep_alive{};

    std::string place() const { return host + ":" + std::to_string(port); }
};

Amqp1Server read_amqp1_server(const relay::Settings& settings);

}  // namespace baton::brokers
