#pragma once
// Where an MQTT server is and how to come to it, as sink and source are told.
//
//   url              "mqtt://user:password@host:1883", mqtts:// for TLS (port 8883)
//   username, password, tls_*
//   connect_timeout  5s
//   keep_alive       60s, in whole seconds; 0 for none

#include <chrono>
#include <string>

#include "brokers/mqtt/packet.hpp"
#include "relay/settings.hpp"
#include "wire/byte_stream.hpp"

namespace baton::brokers {

struct MqttServer {
    std::string host;
    int port = 1883;
    wire::TlsSettings tls;
    std::chrono::milliseconds connect_timeout{};
    MqttHello hello;  // login and keep alive; the rest is the caller's
};

MqttServer read_mqtt_server(const relay::Settings& settings);

}  // namespace baton::brokers
