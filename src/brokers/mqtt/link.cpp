#include "brokers/mqtt/link.hpp"

#include <algorithm>
#include <array>

#include "wire/access_refused.hpp"

namespace baton::brokers {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

[[noreturn]] void throw_end(std::uint8_t reason, const std::string& words) {
    if (is_mqtt_refusal(reason)) throw wire::AccessRefused(words);
    throw MqttEnded(reason, words);
}

}  // namespace

bool is_mqtt_refusal(std::uint8_t reason) {
    using namespace mqtt_reason;
    switch (reason) {
        case unsupported_version:
        case client_id_not_valid:
        case bad_login:
        case not_authorized:
        case banned:
        case bad_authentication_method:
        case topic_filter_invalid:
        case retain_not_supported:
        case qos_not_supported:
        case shared_not_supported:
        case wildcards_not_supported:
            return true;
        default:
            return false;
    }
}

std::string mqtt_words(std::uint8_t reason, const std::string& words) {
    return mqtt_reason_text(reason) + (words.empty() ? "" : ": " + words);
}

MqttLink::MqttLink(const MqttServer& server, MqttHello hello)
    : server_(server),
      hello_(std::move(hello)),
      stream_(server.host, server.port, server.tls),
      keep_alive_(hello_.keep_alive) {
    send(write_connect(hello_));
}

bool MqttLink::open() {
    if (welcome_) return true;
    if (Clock::now() > started_ + server_.connect_timeout)
        throw ConnectionError("mqtt: no answer from " + server_.host + " within " +
                              std::to_string(server_.connect_timeout.count()) + " ms");
    ready_ = ready_ || stream_.ready();
    if (!ready_) return false;
    flush();
    const auto packet = take_any();
    if (!packet) return false;
    if (packet->type != MqttType::connack)
        throw ConnectionError("mqtt: the server began with something else than CONNACK");
    welcome(*packet);
    return true;
}

void MqttLink::open_wholly() {
    while (!open()) wait(20ms);
}

void MqttLink::welcome(const MqttPacket& packet) {
    welcome_ = read_connack(packet);
    if (welcome_->reason >= mqtt_failure)
        throw_end(welcome_->reason,
                  "mqtt: the server refused to connect: " + mqtt_words(welcome_->reason, welcome_->words));
    if (welcome_->max_qos < 1)
        throw wire::AccessRefused("mqtt: the server takes QoS 0 only, which loses messages");
    if (welcome_->keep_alive) keep_alive_ = std::chrono::seconds(*welcome_->keep_alive);
}

void MqttLink::send(std::string_view packet) {
    if (written_ == out_.size()) {
        out_.clear();
        written_ = 0;
    }
    out_ += packet;
}

void MqttLink::flush() {
    if (!ready_ || !broken_.empty()) return;
    try {
        while (written_ < out_.size()) {
            const std::size_t sent = stream_.write(std::string_view(out_).substr(written_));
            if (sent == 0) return;
            written_ += sent;
            moved_at_ = Clock::now();
        }
    } catch (const ConnectionError& error) {
        broken_ = error.what();
    }
    out_.clear();
    written_ = 0;
}

std::optional<MqttPacket> MqttLink::take_any() {
    std::array<char, 64 * 1024> buffer;
    for (;;) {
        if (auto packet = take_mqtt_packet(in_, taken_)) return packet;
        in_.erase(0, taken_);
        taken_ = 0;
        const std::size_t received = stream_.read(buffer.data(), buffer.size());
        if (received == 0) return std::nullopt;
        moved_at_ = heard_at_ = Clock::now();
        in_.append(buffer.data(), received);
    }
}

std::optional<MqttPacket> MqttLink::take() {
    for (;;) {
        auto packet = take_any();
        if (!packet && !broken_.empty()) throw ConnectionError(broken_);
        if (!packet) return std::nullopt;
        if (packet->type == MqttType::disconnect) {
            const auto farewell = read_disconnect(*packet);
            throw_end(farewell.reason, "mqtt: the server ended the connection: " +
                                           mqtt_words(farewell.reason, farewell.words));
        }
        if (packet->type != MqttType::pingresp) return packet;
        if (pings_ > 0) --pings_;
    }
}

void MqttLink::ping() {
    send(write_pingreq());
    ++pings_;
    pinged_at_ = Clock::now();
    flush();
}

void MqttLink::keep_alive() {
    if (Clock::now() >= next_ping()) ping();
}

MqttLink::Clock::time_point MqttLink::next_ping() const {
    if (keep_alive_ == 0s) return Clock::time_point::max();
    return pinged_at_ + milliseconds(keep_alive_) / 2;
}

bool MqttLink::is_silent() const {
    return keep_alive_ > 0s && pings_ > 0 && Clock::now() > heard_at_ + milliseconds(keep_alive_) * 3 / 2;
}

}  // namespace baton::brokers
