#pragma once
// Whether a pipeline wants an event, and to which destinations the event goes.

#include <string>
#include <string_view>
#include <vector>

#include "event/event.hpp"
#include "event/template.hpp"

namespace baton {

// What a destination of a broker may look like. No destination may be empty.
struct DestinationRules {
    // Says what is wrong with a destination; null when nothing is.
    const char* (*flaw_of)(std::string_view destination) = nullptr;
    // Values are percent-encoded, and a comma is a character like any other.
    bool is_url = false;
};

// For destinations that are web addresses.
extern const DestinationRules url_rules;

// Empty lists let everything through. Patterns know * (any characters) and ? (one); a leading ! excludes.
struct Filter {
    std::vector<std::string> tenants;
    std::vector<std::string> topics;
    std::vector<std::string> event_types;

    bool wants(const Event& event) const;
};

// Cut several templates at the commas between them.
std::vector<std::string> split_destinations(std::string_view text);

class Router {
  public:
    // `destination` is one template, or several separated by commas: the event goes to each. An event whose
    // topic holds commas goes to each of its topics. Throws UsageError.
    Router(std::string_view destination, DestinationRules rules = {}, Filter filter = {});

    bool wants(const Event& event) const { return filter_.wants(event); }
    // Find the event's destinations, each once. Throws RenderError when there is none, or when one breaks the
    // rules.
    void route(const Event& event, Reused<std::string>& destinations) const;

  private:
    void add(const Template& made, const Event& event, Field topic, Reused<std::string>& destinations) const;

    std::vector<Template> templates_;
    DestinationRules rules_;
    Filter filter_;
};

// Name a message of an event. The second, third ... message gets an id of its own, so that a broker that
// drops copies keeps all of them.
void write_message_id(std::string& id, const Event& event, std::string_view destination,
                      std::size_t destinations);

bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace baton
