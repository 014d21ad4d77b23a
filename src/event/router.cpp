#include "event/router.hpp"

#include <algorithm>

#include "event/json.hpp"

namespace baton {

namespace {

std::string_view trim(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

// Call `take` with each part between commas, without spaces around it and without empty ones.
template <class Take>
void split(std::string_view text, const Take& take) {
    while (!text.empty()) {
        const std::size_t comma = text.find(',');
        if (const auto part = trim(text.substr(0, comma)); !part.empty()) take(part);
        text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    }
}

bool passes(const std::vector<std::string>& patterns, Field value) {
    bool included = false;
    bool any_include = false;
    for (const std::string_view pattern : patterns) {
        if (pattern.starts_with('!')) {
            if (value && matches_pattern(*value, pattern.substr(1))) return false;
        } else {
            any_include = true;
            included = included || (value && matches_pattern(*value, pattern));
        }
    }
    return included || !any_include;
}

const char* flaw_of_url(std::string_view url) {
    const bool white =
        std::any_of(url.begin(), url.end(), [](char c) { return static_cast<unsigned char>(c) <= 0x20; });
    return white ? "has white space" : nullptr;
}

// Return what is wrong with it, or null.
const char* flaw_of(std::string_view destination, const DestinationRules& rules) {
    if (destination.empty()) return "is empty";
    if (destination.find('\0') != std::string_view::npos || !is_utf8(destination)) return "is no text";
    return rules.flaw_of == nullptr ? nullptr : rules.flaw_of(destination);
}

}  // namespace

const DestinationRules url_rules{flaw_of_url, true};

std::vector<std::string> split_destinations(std::string_view text) {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (const char c : text) {
        if (c == '{') ++depth;
        if (c == '}') --depth;
        if (c == ',' && depth == 0)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    std::vector<std::string> trimmed;
    for (const auto& part : parts)
        if (!trim(part).empty()) trimmed.emplace_back(trim(part));
    return trimmed;
}

bool matches_pattern(std::string_view text, std::string_view pattern) {
    std::size_t t = 0;
    std::size_t p = 0;
    std::size_t star = std::string_view::npos;
    std::size_t resume = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            resume = t;
        } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
            ++p;
            ++t;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            t = ++resume;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

bool Filter::wants(const Event& event) const {
    return passes(tenants, event.tenant_id) && passes(event_types, event.event_type) &&
           passes(topics, event.topic);
}

Router::Router(std::string_view destination, DestinationRules rules, Filter filter)
    : rules_(rules), filter_(std::move(filter)) {
    const Template::Escape escape = rules.is_url ? append_url_escaped : Template::Escape{};
    // Commas are ordinary in a URL.
    const auto parts = rules.is_url ? std::vector<std::string>{std::string(trim(destination))}
                                    : split_destinations(destination);
    for (const auto& part : parts) {
        const Template& made = templates_.emplace_back(part, escape);
        if (!made.constant()) continue;
        const std::string fixed = made.render(Event{});
        if (const char* flaw = flaw_of(fixed, rules))
            throw UsageError("the destination \"" + fixed + "\" " + flaw);
    }
    if (templates_.empty()) throw UsageError("the destination is empty");
}

// Render one into the list, unless it is there.
void Router::add(const Template& made, const Event& event, Field topic,
                 Reused<std::string>& destinations) const {
    const std::size_t before = destinations.size();
    std::string& destination = destinations.emplace_back();
    destination.clear();
    made.render(destination, event, topic);
    if (!made.constant())
        if (const char* flaw = flaw_of(destination, rules_))
            throw RenderError("the destination \"" + destination + "\" " + flaw);
    if (before > 0 && std::find(destinations.begin(), destinations.begin() + before, destination) !=
                          destinations.begin() + before)
        destinations.shorten(before);
}

void Router::route(const Event& event, Reused<std::string>& destinations) const {
    destinations.clear();
    for (const auto& made : templates_) {
        const bool fan_out =
            event.topic && event.topic->find(',') != std::string_view::npos && made.uses("topic");
        if (fan_out)
            split(*event.topic, [&](std::string_view topic) { add(made, event, topic, destinations); });
        else
            add(made, event, event.topic, destinations);
    }
    if (destinations.empty()) throw RenderError("the event's topic names no destination");
}

void write_message_id(std::string& id, const Event& event, std::string_view destination,
                      std::size_t destinations) {
    id.assign(event.event_id);
    if (destinations > 1) id.append("#").append(destination);
}

}  // namespace baton
