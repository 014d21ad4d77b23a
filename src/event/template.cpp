#include "event/template.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

namespace baton {

namespace {

struct Named {
    std::string_view name;
    Field (*get)(const Event&);
};

constexpr std::array<Named, 13> fields{{
    {"event_id", [](const Event& event) -> Field { return event.event_id; }},
    {"source_id", [](const Event& event) -> Field { return event.source_id; }},
    {"tenant_id", [](const Event& event) { return event.tenant_id; }},
    {"aggregate_type", [](const Event& event) { return event.aggregate_type; }},
    {"aggregate_id", [](const Event& event) { return event.aggregate_id; }},
    {"event_type", [](const Event& event) { return event.event_type; }},
    {"schema_version", [](const Event& event) { return event.schema_version; }},
    {"topic", [](const Event& event) { return event.topic; }},
    {"partition_key", [](const Event& event) { return event.partition_key; }},
    {"key", [](const Event& event) -> Field { return event.key(); }},
    {"correlation_id", [](const Event& event) { return event.correlation_id; }},
    {"trace_id", [](const Event& event) { return event.trace_id; }},
    {"idempotency_key", [](const Event& event) { return event.idempotency_key; }},
}};

}  // namespace

std::string template_fields() {
    std::string names;
    for (const auto& field : fields) names.append(names.empty() ? "" : ", ").append(field.name);
    return names;
}

Template::Template(std::string_view text, Escape escape) {
    std::string literal;
    const auto end_literal = [&] {
        if (!literal.empty()) parts_.push_back({{}, literal, {}});
        literal.clear();
    };
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        const bool doubled = at + 1 < text.size() && text[at + 1] == c;
        if ((c == '{' || c == '}') && doubled) {
            literal += c;
            ++at;
        } else if (c == '}') {
            throw UsageError("a closing brace without an opening one in \"" + std::string(text) + "\"",
                             "write }} for a brace itself");
        } else if (c == '{') {
            const std::size_t close = text.find('}', at);
            if (close == std::string_view::npos)
                throw UsageError("an opening brace is not closed in \"" + std::string(text) + "\"",
                                 "write {{ for a brace itself");
            end_literal();
            add_fields(text.substr(at + 1, close - at - 1));
            at = close;
        } else {
            literal += c;
        }
    }
    end_literal();
    for (auto& part : parts_) part.escape = escape;
}

void Template::append(Template rest) {
    std::move(rest.parts_.begin(), rest.parts_.end(), std::back_inserter(parts_));
}

void Template::add_fields(std::string_view inside) {
    Part part;
    for (bool more = true; more;) {
        const std::size_t bar = inside.find('|');
        const std::string_view word = inside.substr(0, bar);
        more = bar != std::string_view::npos;
        if (more) inside.remove_prefix(bar + 1);
        const auto* field = std::find_if(fields.begin(), fields.end(),
                                         [&](const Named& named) { return named.name == word; });
        if (field != fields.end()) {
            part.choices.push_back({field->name, field->get});
        } else if (part.choices.empty() || more) {
            throw UsageError("an event has no field \"" + std::string(word) + "\"",
                             "fields are " + template_fields());
        } else {
            part.literal = std::string(word);
        }
    }
    parts_.push_back(std::move(part));
}

void Template::render(std::string& out, const Event& event, Field topic) const {
    for (const auto& part : parts_) {
        Field value;
        for (const auto& choice : part.choices) {
            value = choice.name == "topic" ? topic : choice.get(event);
            if (value && !value->empty()) break;
            value.reset();
        }
        if (value) {
            if (part.escape)
                part.escape(out, *value);
            else
                out += *value;
        } else if (part.literal) {
            out += *part.literal;
        } else {
            throw RenderError("the event has no " + std::string(part.choices.back().name) +
                              ", which its destination is made of");
        }
    }
}

std::string Template::render(const Event& event) const {
    std::string out;
    render(out, event, event.topic);
    return out;
}

bool Template::uses(std::string_view field) const {
    for (const auto& part : parts_)
        for (const auto& choice : part.choices)
            if (choice.name == field) return true;
    return false;
}

bool Template::constant() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.choices.empty(); });
}

void append_host_name(std::string& out, std::string_view value) {
    for (const char c : value)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_')
            throw RenderError("\"" + std::string(value) +
                              "\" is no name of a host, which the url is made of");
    out += value;
}

}  // namespace baton
