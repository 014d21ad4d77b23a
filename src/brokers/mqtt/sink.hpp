#pragma once
// Publishes to an MQTT 5 server with QoS 1: destination = topic.
//
// Delivered means that the server answered PUBACK with success. "No matching subscribers" is success too:
// the server took the message, and who reads a topic is the server's business, not the publisher's. How
// durable that is, is the server's setting.
//
// A server refuses one message by a reason code and takes the next, so one message per key should be in
// flight (keeps_order_after_failure is false). A connection that breaks gives everything back that has no
// answer. Not authorized, or a topic name that this server does not take: the topic is shut. Packet too
// large, payload format invalid: rejected. Quota exceeded and all others: tried again. A server that hangs up
// on a packet instead of answering gets one packet at a time until the guilty one is found.
//
// No more messages are under way than the server's receive maximum allows; nothing is sent that is larger
// than the server's maximum packet size.
//
// A message carries its content type as that property, its headers as user properties, and the user
// properties "message-id" and, where there is a key, "partition-key".
//
//   topic        see relay/transform.hpp
//   client_id    the server makes one up unless this is set
//   retain       false: true leaves the last message of each topic for those who subscribe later
//   ack_timeout  10s: how long the server may be silent while something is under way
//   and what brokers/mqtt/settings.hpp knows

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_mqtt_sink(const relay::Settings& settings);

}  // namespace baton::brokers
