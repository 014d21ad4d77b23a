#include "brokers/nats/message.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "wire/encoding.hpp"

namespace baton::brokers {

std::optional<NatsStanding> read_nats_standing(std::string_view reply) {
    std::vector<std::string_view> parts;
    for (std::size_t at = 0; at <= reply.size();) {
        const std::size_t dot = std::min(reply.find('.', at), reply.size());
        parts.push_back(reply.substr(at, dot - at));
        at = dot + 1;
    }
    // $JS.ACK.stream.consumer.delivered.sequence.consumer sequence.time.pending; newer servers put the domain
    // and the account before the stream.
    if (parts.size() < 9 || parts[0] != "$JS" || parts[1] != "ACK") return std::nullopt;
    const std::size_t shift = parts.size() >= 11 ? 2 : 0;
    NatsStanding standing;
    const auto read = [&](std::size_t place, auto& value) {
        const auto part = parts[place + shift];
        return std::from_chars(part.data(), part.data() + part.size(), value).ec == std::errc();
    };
    if (!read(5, standing.sequence) || !read(7, standing.nanoseconds)) return std::nullopt;
    return standing;
}

std::optional<std::vector<intake::IncomingHeader>> read_stored_headers(std::string_view answer,
                                                                       intake::BrokerBatch& batch) {
    const auto stored = nlohmann::json::parse(answer, nullptr, false);
    if (!stored.is_object() || !stored.contains("message") || !stored["message"].is_object())
        return std::nullopt;
    const auto hdrs = stored["message"].value("hdrs", nlohmann::json(""));
    const auto lines = hdrs.is_string() ? wire::base64_decode(hdrs.get<std::string>()) : std::nullopt;
    if (!lines) return std::nullopt;
    const std::string_view text = batch.keep(*lines);
    std::vector<intake::IncomingHeader> headers;
    for (std::size_t at = std::min(text.find("\r\n"), text.size()); at < text.size();) {
        at += 2;
        const std::size_t end = std::min(text.find("\r\n", at), text.size());
        const std::string_view line = text.substr(at, end - at);
        at = end;
        const auto colon = line.find(':');
        if (colon == std::string_view::npos) continue;
        std::string_view value = line.substr(colon + 1);
        if (value.starts_with(' ')) value.remove_prefix(1);
        headers.push_back({line.substr(0, colon), value});
    }
    return headers;
}

}  // namespace baton::brokers
