#pragma once
// A message as AMQP 1.0 writes it, both ways.
//
// Ours is durable and has one data section. message-id is the event's id, group-id its key, subject its type,
// creation-time when it happened; headers are application properties.

#include <proton/message.h>

#include <memory>
#include <string>
#include <vector>

#include "event/event.hpp"
#include "intake/incoming.hpp"

namespace baton::brokers {

// What is wrong with the message, so that it can never be sent; empty when nothing is.
std::string flaw_of_amqp1_message(const Message& message);

class Amqp1Codec {
  public:
    Amqp1Codec() : message_(pn_message(), pn_message_free) {}

    std::string encode(const Message& message);
    // Fill in what the bytes say; texts are kept in the batch, and so are the bytes. What is no message comes
    // as its bytes.
    intake::Incoming decode(std::string bytes, intake::BrokerBatch& batch);

  private:
    void decode_properties(intake::BrokerBatch& batch, intake::Incoming& incoming);
    void decode_annotations(intake::BrokerBatch& batch, intake::Incoming& incoming);

    std::unique_ptr<pn_message_t, decltype(&pn_message_free)> message_;
};

}  // namespace baton::brokers
