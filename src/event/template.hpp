#pragma once
// Text with event fields in braces: "shop.{aggregate_type}.{event_type}".
//
// The event's value replaces {field}. {topic|aggregate_type|orders} tries its words in turn: a field that is
// missing or empty gives way to the next word, and a word that is no field stands for itself. A doubled brace
// is a brace. A template with an unknown field is refused when the template is made. An event that lacks a
// needed field is refused when the event is rendered: a guess would send the event to the wrong place.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "baton/error.hpp"
#include "event/event.hpp"

namespace baton {

// This event cannot get its form or its destination, however often that is tried.
class RenderError : public Error {
  public:
    using Error::Error;
};

class Template {
  public:
    // Applied to the values, never to the text around them.
    using Escape = std::function<void(std::string& out, std::string_view value)>;

    Template() = default;
    // Throws UsageError, which says what is wrong and lists the fields.
    explicit Template(std::string_view text, Escape escape = {});
    // Append another template. Its values keep their own way of escaping.
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
        std::optional<std::string> literal;  // the text, or the word that is left when no field has a value
        Escape escape;
    };
    void add_fields(std::string_view inside);

    std::vector<Part> parts_;
};

// The names that may stand in braces, separated by commas.
std::string template_fields();

// Append the value as one name of a host. Throws RenderError when the value is anything else.
void append_host_name(std::string& out, std::string_view value);

}  // namespace baton
