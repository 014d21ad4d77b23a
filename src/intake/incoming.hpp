#pragma once
// A message as a broker's library gave it, and how it becomes an event.
//
// An inbox recognises a redelivery by the event's id. The id comes from the first of these that exists:
// id_header or id_field where the settings name one; the broker's own id (Nats-Msg-Id, the message_id
// property, a header message-id or event-id); the id in the envelope; the message's place in the broker; a
// digest of the message. A CloudEvents id is unique only together with its source, so source and id together
// make the event's id, unless the id is a UUID or a ULID. A digest replaces an id that is too long for an
// index.
//
// A message that cannot be read becomes a malformed event with the bytes, the reason, and the message's place
// as id. So the message is kept once, and does not take the id of a better copy.
//
//   envelope    "auto" | "raw" | "json" | "cloudevents" | "cloudevents-structured"; auto: by content type and
//               headers (baton's own json envelope looks like any JSON, so it has to be named)
//   format      "auto" | "json" | "text" | "bytes", of a raw body; auto: by content type, else by the bytes
//   id_header, id_field, type_header, type_field, key_header, key_field
//               where id, event type and key are: a header, or a member of a JSON body ("order.id")
//   missing_id  "position" | "malformed": what becomes of a message without id; default: position, or
//   malformed
//               when id_header or id_field is set
//   id_form     "text" | "uuid": for inboxes whose ids are UUIDs, every other id becomes a UUID
//   event_type  the event type of messages that have none

#include <deque>
#include <string>
#include <vector>

#include "event/envelope.hpp"
#include "event/event.hpp"
#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::intake {

struct IncomingHeader {
    std::string_view name;
    std::string_view value;
};

// The time that a broker gives. Nothing when it lies before 1970 or after the year 9999: nobody meant such a
// time.
template <class Unit>
std::optional<Timestamp> broker_time(Unit since_1970) {
    constexpr auto end = std::chrono::sys_days(std::chrono::year(10000) / 1 / 1).time_since_epoch();
    constexpr auto far = std::chrono::duration_cast<std::chrono::seconds>(end);
    if (since_1970 <= Unit(0) || std::chrono::floor<std::chrono::seconds>(since_1970) >= far)
        return std::nullopt;
    return Timestamp(std::chrono::floor<std::chrono::microseconds>(since_1970));
}

// A broker's message. Views live as long as the batch into which the message is put.
struct Incoming {
    Field body;  // nothing: the broker has messages without a body
    std::vector<IncomingHeader> headers;
    std::string_view content_type;  // where the broker has a property for this
    Field key;                      // likewise
    Field message_id;               // likewise
    std::string_view topic;         // topic, subject, routing key, stream or queue
    std::string position;           // the same at every redelivery, and never used again; empty: none
    std::optional<Timestamp> time;  // when the broker got the message
};

// Events from a broker, and the texts that were made for them. A subclass owns the library's messages.
struct BrokerBatch : relay::Batch {
    std::deque<std::string> texts;

    std::string_view keep(std::string text) { return texts.emplace_back(std::move(text)); }
};

class Decoder {
  public:
    // Read the settings above. `broker` is the type of the source: ids that are made of positions begin with
    // it.
    Decoder(const relay::Settings& settings, std::string broker, HeaderBinding binding);

    // Append the message to the batch as an event. No content of a message makes this throw.
    void decode(const Incoming& message, BrokerBatch& batch) const;

  private:
    enum class Format { automatic, json, text, bytes };
    // Where a value is found: in a header or in a member of the body. Both are empty when the settings name
    // none.
    struct Place {
        std::string header;
        std::vector<std::string> path;
        bool named() const { return !header.empty() || !path.empty(); }
    };
    class Reading;

    static Place read_place(const relay::Settings& settings, const std::string& what);
    std::string place_of(const Incoming& message) const;

    std::string broker_;
    HeaderBinding binding_;
    std::string envelope_;
    Format format_ = Format::automatic;
    Place id_, type_, key_;
    bool id_needed_ = false;
    bool uuids_ = false;
    std::string event_type_;
};

}  // namespace baton::intake
