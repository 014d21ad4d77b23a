#pragma once
// The step between source and sink: which events a pipeline wants, what messages look like, and where they
// go.
//
// In [pipeline.sink]:    envelope = "raw" | "json" | "cloudevents" | "cloudevents-structured"
//                        (default: raw; for files json)
//                        metadata = false             raw: no headers beyond the event's own
//                        cloudevents_source = "..."
//                        the destination, under the name that the broker has for it (MessageForm)
// In [pipeline.filter]:  tenants, topics, event_types: lists of patterns

#include <string>
#include <vector>

#include "event/envelope.hpp"
#include "event/router.hpp"
#include "relay/settings.hpp"

namespace baton::relay {

// What a broker's messages look like.
struct MessageForm {
    const char* destination = nullptr;  // the setting that names where messages go; null where there is none
    DestinationRules rules = {};
    // The destination is a single thing that exists: a guess from an event would be wrong.
    bool destination_needed = false;
    HeaderBinding headers = {};
    const char* envelope = "raw";  // unless the settings name another
};

// One thread.
class Transform {
  public:
    // `filter` holds the settings below [pipeline.filter]. Throws SettingsError.
    Transform(const Settings& sink, const Settings& filter, const MessageForm& form);

    // True when the pipeline wants the event. A message that could not be read has no type and no tenant, so
    // it is always wanted.
    bool wants(const Event& event) const { return event.malformed || router_.wants(event); }
    // Append the event's messages, one per destination. The messages share a body, which may lie in
    // `storage`: neither the event nor `storage` may move while the messages are in use. The caller sets the
    // tickets. Throws RenderError when the event can never be sent.
    void render(const Event& event, Messages& messages, std::string& storage);

  private:
    Router router_;
    Envelope envelope_;
    Reused<std::string> destinations_;  // of the event at hand
};

// Mark the settings that a Transform reads as known, so that a sink made from them does not refuse them.
void know_transform_settings(const Settings& sink, const MessageForm& form);

}  // namespace baton::relay
