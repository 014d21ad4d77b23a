#include "otlp/environment.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "baton/error.hpp"

namespace baton::otlp {

namespace {

constexpr std::string_view white = " \t\r\n";

std::string trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(white);
    if (first == std::string_view::npos) return {};
    return std::string(text.substr(first, text.find_last_not_of(white) - first + 1));
}

std::string in_lower_case(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return text;
}

int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Nothing when a percent sign stands without two digits.
std::optional<std::string> percent_decoded(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        const int high = i + 2 < text.size() ? digit_of(text[i + 1]) : -1;
        const int low = i + 2 < text.size() ? digit_of(text[i + 2]) : -1;
        if (high < 0 || low < 0) return std::nullopt;
        out += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return out;
}

// Reads one variable after the other, and notes what cannot be read.
class Reader {
  public:
    Reader(const Lookup& lookup, std::vector<std::string>& warnings) : lookup_(lookup), warnings_(warnings) {}

    // Empty is the same as not set, as the specification says.
    std::string text(const std::string& name) const {
        const char* value = lookup_(name.c_str());
        return value == nullptr ? std::string() : trimmed(value);
    }
    // The variable for traces, else the one for all signals; `name` becomes the one that holds.
    std::string of_traces(const std::string& what, std::string& name) const {
        for (const char* prefix : {"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"}) {
            name = prefix + what;
            if (std::string found = text(name); !found.empty()) return found;
        }
        return {};
    }
    template <class Number>
    std::optional<Number> number(const std::string& name, const std::string& value) const {
        if (value.empty()) return std::nullopt;
        Number read{};
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), read);
        if (error == std::errc{} && end == value.data() + value.size() && read >= 0) return read;
        warn(name + " is no number");
        return std::nullopt;
    }
    void read_count(const std::string& name, std::size_t& into) const {
        const auto found = number<long>(name, text(name));
        if (found && *found == 0) return warn(name + " must be more than 0");
        if (found) into = static_cast<std::size_t>(*found);
    }
    void read_time(const std::string& name, const std::string& value, milliseconds& into) const {
        if (const auto found = number<long>(name, value)) into = milliseconds(std::min(*found, 86'400'000L));
    }
    // name=value,name=value with percent signs, as in the header baggage.
    std::map<std::string, std::string> list(const std::string& name, std::string_view text) const {
        std::map<std::string, std::string> all;
        while (!text.empty()) {
            const auto comma = std::min(text.find(','), text.size());
            const std::string_view item = text.substr(0, comma);
            text.remove_prefix(std::min(comma + 1, text.size()));
            if (trimmed(item).empty()) continue;
            const auto equals = item.find('=');
            const auto value = equals == std::string_view::npos
                                   ? std::nullopt
                                   : percent_decoded(trimmed(item.substr(equals + 1)));
            const std::string key = trimmed(item.substr(0, std::min(equals, item.size())));
            if (!value || key.empty())
                warn(name + " is no list of name=value");
            else
                all[key] = *value;
        }
        return all;
    }
    void warn(std::string words) const { warnings_.push_back(std::move(words)); }

  private:
    const Lookup& lookup_;
    std::vector<std::string>& warnings_;
};

void read_address(const Reader& reader, Environment& made) {
    const std::string own = reader.text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    const std::string common = reader.text("OTEL_EXPORTER_OTLP_ENDPOINT");
    const std::string url = !own.empty() ? own : !common.empty() ? traces_url(common) : std::string();
    const std::string exporter = in_lower_case(reader.text("OTEL_TRACES_EXPORTER"));
    if (!url.empty() && !is_http_url(url))
        reader.warn("OTEL_EXPORTER_OTLP_ENDPOINT is no http:// or https:// address");
    else if (!url.empty())
        made.options.url = url;
    made.enabled = !made.options.url.empty();
    if (exporter == "otlp" && url.empty()) {
        made.options.url = "http://localhost:4318/v1/traces";
        made.enabled = true;
    }
    if (!exporter.empty() && exporter != "otlp" && exporter != "none")
        reader.warn("OTEL_TRACES_EXPORTER names an exporter that baton does not have: otlp is there");
    std::string name;
    const std::string protocol = in_lower_case(reader.of_traces("PROTOCOL", name));
    if (protocol == "grpc") {
        reader.warn(name +
                    " says grpc: traces are off; baton speaks http/json, name the collector's port for HTTP");
        made.enabled = false;
    }
    made.forbidden = in_lower_case(reader.text("OTEL_SDK_DISABLED")) == "true" || exporter == "none";
}

void read_sampler(const Reader& reader, Environment& made) {
    const std::string ratio = reader.text("OTEL_TRACES_SAMPLER_ARG");
    const std::string name = in_lower_case(reader.text("OTEL_TRACES_SAMPLER"));
    if (name.empty()) return;
    const auto number = reader.number<double>("OTEL_TRACES_SAMPLER_ARG", ratio);
    try {
        Sampler::named(name, number.value_or(1));
        made.sampler = name;
        made.ratio = number.value_or(1);
    } catch (const UsageError& error) {
        reader.warn(std::string("OTEL_TRACES_SAMPLER: ") + error.what());
    }
}

}  // namespace

std::string traces_url(std::string endpoint) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    return endpoint + "/v1/traces";
}

bool is_http_url(const std::string& url) {
    const std::string low = in_lower_case(url);
    for (const std::string_view scheme : {"http://", "https://"})
        if (low.starts_with(scheme) && low.size() > scheme.size() && low[scheme.size()] != '/')
            return url.find_first_of(white) == std::string::npos;
    return false;
}

bool is_header(std::string_view name, std::string_view value) {
    constexpr std::string_view others = "!#$%&'*+-.^_`|~";
    const auto in_name = [&](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               others.find(c) != std::string_view::npos;
    };
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
    return !name.empty() && std::all_of(name.begin(), name.end(), in_name) &&
           std::none_of(value.begin(), value.end(), control);
}

Environment read_environment(const Lookup& lookup) {
    Environment made;
    const Reader reader(lookup, made.warnings);
    read_address(reader, made);
    read_sampler(reader, made);
    Options& options = made.options;
    std::string name;
    const std::string headers = reader.of_traces("HEADERS", name);
    options.headers = reader.list(name, headers);
    if (std::erase_if(options.headers,
                      [](const auto& header) { return !is_header(header.first, header.second); }) > 0)
        reader.warn(name + " has a header that no request may have");
    const std::string timeout = reader.of_traces("TIMEOUT", name);
    reader.read_time(name, timeout, options.timeout);
    const std::string compression = in_lower_case(reader.of_traces("COMPRESSION", name));
    if (!compression.empty() && compression != "gzip" && compression != "none")
        reader.warn(name + " is neither gzip nor none");
    options.gzip = compression == "gzip";
    options.ca = reader.of_traces("CERTIFICATE", name);
    options.certificate = reader.of_traces("CLIENT_CERTIFICATE", name);
    options.key = reader.of_traces("CLIENT_KEY", name);
    reader.read_time("OTEL_BSP_SCHEDULE_DELAY", reader.text("OTEL_BSP_SCHEDULE_DELAY"), options.interval);
    reader.read_count("OTEL_BSP_MAX_QUEUE_SIZE", options.queue);
    reader.read_count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", options.batch);
    options.resource = reader.list("OTEL_RESOURCE_ATTRIBUTES", reader.text("OTEL_RESOURCE_ATTRIBUTES"));
    if (const std::string service = reader.text("OTEL_SERVICE_NAME"); !service.empty())
        options.resource["service.name"] = service;
    return made;
}

Environment read_environment() {
    return read_environment([](const char* name) { return std::getenv(name); });
}

}  // namespace baton::otlp
