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

// True for "." and "..", also where dots are percent-encoded: who reads the path goes up there.
bool is_dots(std::string_view segment) {
    std::size_t dots = 0;
    for (; !segment.empty(); ++dots) {
        const bool encoded = segment.starts_with("%2E") || segment.starts_with("%2e");
        if (!encoded && segment.front() != '.') return false;
        segment.remove_prefix(encoded ? 3 : 1);
    }
    return dots == 1 || dots == 2;
}

// Where the host of a URL begins and ends; fields in braces are one piece.
std::pair<std::size_t, std::size_t> host_of(std::string_view url) {
    const auto scheme = url.find("://");
    if (scheme == std::string_view::npos) return {0, 0};
    std::size_t end = scheme + 3;
    for (int depth = 0; end < url.size(); ++end) {
        if (url[end] == '{') ++depth;
        if (url[end] == '}') --depth;
        if (depth == 0 && std::string_view("/?#\\").find(url[end]) != std::string_view::npos) break;
    }
    return {scheme + 3, end};
}

const char* flaw_of_url(std::string_view url) {
    const bool white =
        std::any_of(url.begin(), url.end(), [](char c) { return static_cast<unsigned char>(c) <= 0x20; });
    if (white) return "has white space";
    std::string_view path = url.substr(host_of(url).second);
    path = path.substr(0, path.find_first_of("?#"));
    while (!path.empty()) {
        const auto slash = std::min(path.find('/'), path.size());
        if (is_dots(path.substr(0, slash))) return "leads out of its path";
        path.remove_prefix(std::min(slash + 1, path.size()));
    }
    return nullptr;
}

// A template of a URL. What events fill in stays where it stands: in a host it is one name before a domain
// that the settings name, elsewhere it is percent-encoded.
Template url_template(std::string_view text) {
    const auto [begin, end] = host_of(text);
    const auto host = text.substr(begin, end - begin);
    if (begin > 0 && host.empty()) throw UsageError("\"" + std::string(text) + "\" names no host");
    if (const auto field = host.rfind('}'); field != std::string_view::npos) {
        const auto domain = host.substr(field + 1);
        if (domain.size() < 2 || domain.front() != '.' || domain[1] == '.' || domain[1] == ':' ||
            domain.find_first_of("@\\") != std::string_view::npos)
            throw UsageError("the host of \"" + std::string(text) + "\" is whatever an event says",
                             "name the domain: https://{tenant_id}.example.com/");
    }
    Template made(text.substr(0, begin), append_url_escaped);
    made.append(Template(host, append_host_name));
    made.append(Template(text.substr(end), append_url_escaped));
    return made;
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
    // Commas are ordinary in a URL.
    const auto parts = rules.is_url ? std::vector<std::string>{std::string(trim(destination))}
                                    : split_destinations(destination);
    for (const auto& part : parts) {
        const Template& made = templates_.emplace_back(rules.is_url ? url_template(part) : Template(part));
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
