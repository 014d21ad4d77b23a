#pragma once
// Reads topics of an MQTT 5 server through a session that the server keeps: QoS 1, one client id.
//
// PUBACK follows settling, in the order of reading. What was read and not acknowledged is sent again by the
// server, before everything later, to whoever connects with the client id next.
//
// The session belongs to the client id, and a server lets one connection have it: relays that run the same
// pipeline share the client id, one of them reads, and what it leaves unacknowledged the next one gets. A
// relay whose session was taken over, or whose connection ended twice within `standby`, stands by for that
// time before it takes the session again, so that two relays do not throw each other out all the time. Relays
// with client ids of their own share the work through a shared subscription ($share/GROUP/TOPIC); order then
// holds for none, and what the session of a relay that is gone for good holds is lost with it.
//
// A message is known by its user property message-id or event-id or its CloudEvents attributes. One without
// is known by its packet id as long as this process lives: sent again to another process it is another
// message, because two that are alike may both be meant.
//
//   topics, topic    what to subscribe to; filters with + and #. A topic that leaves the list stays
//                    subscribed until the session ends
//   client_id        "baton-PIPELINE"
//   session_expiry   168h: how long the server keeps the session while nobody is connected
//   receive_maximum  1000: how many messages are under way without acknowledgement
//   standby          30s
//   and what brokers/mqtt/settings.hpp, intake/incoming.hpp and intake/broker_feed.hpp know

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_mqtt_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
