#pragma once
// Text with event fields in braces: "shop.{aggregate_type}.{event_type}".
//
// {field} is replaced by the event's value. {topic|aggregate_type|orders} tries one after the other: a field
// that is missing or empty gives way to the next, and a word that is no field stands for itself. A doubled
// brace is a brace. A template with an unknown field is refused when it is made; an event that lacks a field
// that the template needs is refused when it is rendered, because guessing would send it to the wrong place.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "baton/error.hpp"
#include "event/event.hpp"

namespace baton {

// This event cannot be given its form or its destination, however often it is tried.
class RenderError : public Error {
  public:
    using Error::Error;
};

class Template {
  public:
    // Applied to the values, never to the text around them.
    using Escape = std::function<void(std::string& out, std::string_view value)>;

    Template() = default;
    // Throws UsageError naming what is wrong and which fields there are.
    explicit Template(std::string_view text, Escape escape = {});
    // Go on with another one, whose values are escaped in its own way.
    void append(Template rest);

    // Append the rendered text. `topic` stands in for the event's own. Throws RenderError.
    void render(std::string& out, const Event& event, Field topic) const;
    std::string render(const Event& event) const;

    bool uses(std::string_view field) const;
    // True when every event gives the same text.
    bool constant() const;

  private:
    using Getter = Field (*)(const Event&);
    struct Choice {
        std::string_view name;
        Getter get;
    };
    struct Part {
        std::vector<Choice> choices;         // tried in turn; none: the part is text
        std::optional<std::string> literal;  // the text, or what stands when no field does
        Escape escape;
    };
    void add_fields(std::string_view inside);

    std::vector<Part> parts_;
};

// The names that may stand in braces, separated by commas.
std::string template_fields();

// Append one name of a host, as it is; throws RenderError when the value is more than that or something else.
void append_host_name(std::string& out, std::string_view value);

}  // namespace baton
