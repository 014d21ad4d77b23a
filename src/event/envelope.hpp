#pragma once
// How an event is put into a message.
//
//   raw                     the payload as it is; what else is known goes into headers
//   json                    one JSON object with everything
//   cloudevents             CloudEvents 1.0, binary mode: the payload as it is, attributes in headers
//   cloudevents-structured  CloudEvents 1.0, structured mode: one JSON object of type
//   application/cloudevents+json
//
// The event's own headers travel as headers in each of them.

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
        // The CloudEvents source, a URI reference; may be a template, whose values are percent-encoded.
        std::string source = "/baton/{aggregate_type|events}";
        bool metadata = true;  // raw: write what is known of the event into headers
        HeaderBinding binding;
    };

    // Throws UsageError when the options cannot be.
    explicit Envelope(Options options);

    // Read a kind by its name above; throws UsageError naming those that exist.
    static EnvelopeKind kind_of(std::string_view name);

    // Fill in key, body, content type and headers; id and destination are the router's. A body that is not
    // the payload itself is written into `storage`: the message is good as long as neither the event nor
    // `storage` moves. Throws RenderError when the event cannot be put into this form. One thread at a time.
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
