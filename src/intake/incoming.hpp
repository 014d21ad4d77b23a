#pragma once
// A message as a broker's library gave it, and how it becomes an event.
//
// The id by which a redelivery is recognised comes from the first of these that is there: id_header or
// id_field where the settings name one; the broker's own (Nats-Msg-Id, the message_id property, a header
// message-id or event-id); the envelope's; else the message's place in the broker, or, where it has none, a
// digest of it. A CloudEvents id is unique only together with its source, so unless it is a UUID or a ULID
// both make the id. An id that is too long for an index becomes its digest.
//
// What cannot be read becomes a malformed event: its bytes, why, and its place as its id, so that it is kept
// once and does not take the id of a better copy.
//
//   envelope    "auto" | "raw" | "json" | "cloudevents" | "cloudevents-structured"; auto: by content type and
//               headers (baton's own json envelope looks like any JSON, so it has to be named)
//   format      "auto" | "json" | "text" | "bytes", of a raw body; auto: by content type, else what it is
//   id_header, id_field, type_header, type_field, key_header, key_field
//               where id, event type and key are: a header, or a member of a JSON body ("order.id")
//   missing_id  "position" | "malformed": what a message without id gets; malformed when id_header or
//   id_field
//               is set
//   id_form     "text" | "uuid": for inboxes whose ids are UUIDs, any other id becomes one
//   event_type  of messages that have none

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

// A time as a broker gives it; nothing when it lies before 1970 or beyond the year 9999, which nobody meant.
template <class Unit>
std::optional<Timestamp> broker_time(Unit since_1970) {
    constexpr auto end = std::chrono::sys_days(std::chrono::year(10000) / 1 / 1).time_since_epoch();
    constexpr auto far = std::chrono::duration_cast<std::chrono::seconds>(end);
    if (since_1970 <= Unit(0) || std::chrono::floor<std::chrono::seconds>(since_1970) >= far)
        return std::nullopt;
    return Timestamp(std::chrono::floor<std::chrono::microseconds>(since_1970));
}

// Views live as long as the batch that the message is put into.
struct Incoming {
    Field body;  // nothing: the broker knows a message without one
    std::vector<IncomingHeader> headers;
    std::string_view content_type;  // where the broker has a property for it
    Field key;                      // likewise
    Field message_id;               // likewise
    std::string_view topic;         // topic, subject, routing key, stream or queue
    std::string position;           // the same at every redelivery and never again used; empty: there is none
    std::optional<Timestamp> time;  // when the broker got it
};

// Events read from a broker, and the texts made for them. Subclasses own the library's messages.
struct BrokerBatch : relay::Batch {
    std::deque<std::string> texts;

    std::string_view keep(std::string text) { return texts.emplace_back(std::move(text)); }
};

class Decoder {
  public:
    // Read the settings above. `broker` names the type of source: it begins the ids made of positions.
    Decoder(const relay::Settings& settings, std::string broker, HeaderBinding binding);

    // Append the message to the batch as an event. Never throws for what a message holds.
    void decode(const Incoming& message, BrokerBatch& batch) const;

  private:
    enum class Format { automatic, json, text, bytes };
    // Where a value is found: a header, a member of the body, or neither was named.
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
