#pragma once
// How an event is put into a message.
//
//   raw                     the payload as it is; the other fields of the event become headers
//   json                    one JSON object with everything
//   cloudevents             CloudEvents 1.0, binary mode: the payload as it is, attributes in headers
//   cloudevents-structured  CloudEvents 1.0, structured mode: one JSON object of type
//   application/cloudevents+json
//
// In all four kinds the event's own headers become headers of the message.

#include <optional>
#include <string>
#include <string_view>

#include "event/event.hpp"
#include "event/header_reader.hpp"
#include "event/template.hpp"
#include "event/time_text.hpp"

namespace baton {

enum class EnvelopeKind { raw, json, cloudevents, cloudevents_structured };

// How a broker's binding of CloudEvents writes attributes as headers.
struct HeaderBinding {
    std::string_view prefix = "ce-";
    bool percent_encode = false;  // for headers that carry ASCII only
};

class Envelope {
  public:
    struct Options {
        EnvelopeKind kind = EnvelopeKind::raw;
        // The CloudEvents source, a URI reference. It may be a template; the values are percent-encoded.
        std::string source = "/baton/{aggregate_type|events}";
        bool metadata = true;  // raw: write the fields of the event into headers
        HeaderBinding binding;
    };

    // Throws UsageError when the options contradict each other.
    explicit Envelope(Options options);

    // Read the name of a kind. Throws UsageError, which lists the kinds.
    static EnvelopeKind kind_of(std::string_view name);

    // Fill in key, body, content type and headers. The router fills in id and destination. A body that is not
    // the payload itself is written into `storage`: the message is valid as long as neither the event nor
    // `storage` moves. Throws RenderError when the event cannot take this form. One thread at a time.
    void render(const Event& event, Message& message, std::string& storage) const;

  private:
    void render_raw(const Event& event, Message& message) const;
    void render_json(const Event& event, Message& message, std::string& storage) const;
    void render_binary(const Event& event, Message& message) const;
    void render_structured(const Event& event, Message& message, std::string& storage) const;

    Options options_;
    Template source_;
    mutable HeaderReader header_reader_;
};

}  // namespace baton
