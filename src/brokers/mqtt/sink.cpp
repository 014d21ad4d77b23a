#include "brokers/mqtt/sink.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include "brokers/fixed_destination.hpp"
#include "brokers/mqtt/form.hpp"
#include "brokers/mqtt/link.hpp"
#include "wire/access_refused.hpp"
#include "wire/collecting.hpp"
#include "wire/reconnect.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;
using relay::Delivery;
using relay::milliseconds;
using relay::Verdict;
using Clock = std::chrono::steady_clock;

struct Options {
    MqttServer server;
    std::string topic;  // where messages go that name none
    bool retain = false;
    milliseconds ack_timeout{};
};

// Whose fault it is that the server did not take a message.
Verdict verdict_on_reason(std::uint8_t reason) {
    if (reason < mqtt_failure) return Verdict::delivered;
    switch (reason) {
        case mqtt_reason::not_authorized:
        case mqtt_reason::topic_name_invalid:
            return Verdict::shut;
        case mqtt_reason::packet_too_large:
        case mqtt_reason::payload_format_invalid:
            return Verdict::rejected;
        default:
            return Verdict::retry;
    }
}

// True when a server ends a connection with this because of a packet that it was sent.
bool blames_a_packet(std::uint8_t reason) {
    return reason == mqtt_reason::malformed_packet || reason == mqtt_reason::protocol_error ||
           reason == mqtt_reason::topic_name_invalid || reason == mqtt_reason::packet_too_large ||
           reason == mqtt_reason::payload_format_invalid;
}

// How long packets go one by one after a server hung up on one of several.
constexpr auto search_time = 60s;

struct Waiting {
    std::uint64_t ticket;
    MqttOutgoing packet;
};

class MqttSink final : public relay::Sink {
  public:
    explicit MqttSink(Options options) : options_(std::move(options)) {}

    relay::SinkTraits traits() const override { return {.max_message_bytes = max_packet_}; }
    void check() override;
    void send(std::span<const Message> messages) override;
    void collect(std::vector<Delivery>& deliveries, milliseconds patience) override;
    std::string trouble() override { return trouble_; }

  private:
    void add(const Message& message);
    bool busy() const { return !under_way_.empty() || !waiting_.empty(); }
    void drop_if_closed();
    void connect();
    void pump();
    void launch();
    void hear();
    void judge(const MqttAnswer& answer);
    void end(const ConnectionError& error);
    void give_back(Verdict verdict, const std::string& why, std::optional<milliseconds> retry_after);
    std::size_t window() const {
        return Clock::now() < one_by_one_until_ ? 1 : link_->welcome().receive_maximum;
    }
    std::uint16_t next_id();

    Options options_;
    std::unique_ptr<MqttLink> link_;
    wire::Reconnect reconnect_;
    Verdict no_link_ = Verdict::retry;  // what it means that there is none
    std::string trouble_;
    Clock::time_point one_by_one_until_{};  // the server hung up on a packet, and nobody knows on which
    std::deque<Waiting> waiting_;
    std::map<std::uint16_t, std::uint64_t> under_way_;  // packet id, ticket
    std::uint16_t last_id_ = 0;
    std::size_t max_packet_ = 0;  // of the server that was connected to last
    std::vector<Delivery> done_;
    Clock::time_point launched_at_{};
};

void MqttSink::add(const Message& message) {
    const std::string& topic = message.destination.empty() ? options_.topic : message.destination;
    std::string flaw;
    if (topic.empty())
        flaw = "the message names no topic and the sink has no default";
    else if (const char* wrong = flaw_of_mqtt_topic(topic))
        flaw = "the topic " + std::string(wrong);
    else
        flaw = flaw_of_publish(message, topic);
    if (!flaw.empty())
        done_.push_back({message.ticket, Verdict::rejected, std::move(flaw), {}});
    else
        waiting_.push_back({message.ticket, write_publish(message, topic, options_.retain)});
}

void MqttSink::send(std::span<const Message> messages) {
    if (!busy()) drop_if_closed();
    for (const auto& message : messages) add(message);
    if (!busy()) return;
    try {
        pump();
    } catch (const ConnectionError& error) {
        end(error);
    }
}

// Forget a connection that the server closed while there was nothing to say.
void MqttSink::drop_if_closed() {
    if (!link_) return;
    try {
        if (link_->open()) hear();
    } catch (const ConnectionError&) {
        link_.reset();
    }
}

// Start to connect, or give everything back while it is too early for that.
void MqttSink::connect() {
    if (!reconnect_.due()) return give_back(no_link_, trouble_, reconnect_.remaining());
    link_ = std::make_unique<MqttLink>(options_.server, options_.server.hello);
}

// Move what can be moved without waiting.
void MqttSink::pump() {
    if (!link_) connect();
    if (!link_ || !link_->open()) return;
    max_packet_ = link_->welcome().max_packet;
    hear();
    launch();
    link_->flush();
    if (!under_way_.empty() &&
        Clock::now() > std::max(launched_at_, link_->moved_at()) + options_.ack_timeout)
        throw ConnectionError("mqtt: no answer from the server within " +
                              std::to_string(options_.ack_timeout.count()) + " ms");
}

std::uint16_t MqttSink::next_id() {
    do {
        ++last_id_;
    } while (last_id_ == 0 || under_way_.contains(last_id_));
    return last_id_;
}

// Let as many go as the server takes at a time.
void MqttSink::launch() {
    if (!waiting_.empty() && !may_send())
        return give_back(Verdict::retry, "the lease ended while the sink connected", {});
    while (!waiting_.empty() && under_way_.size() < window()) {
        Waiting next = std::move(waiting_.front());
        waiting_.pop_front();
        if (max_packet_ > 0 && next.packet.bytes.size() > max_packet_) {
            done_.push_back({next.ticket,
                             Verdict::rejected,
                             "the packet has " + std::to_string(next.packet.bytes.size()) +
                                 " bytes, the server's maximum packet size is " + std::to_string(max_packet_),
                             {}});
            continue;
        }
        const std::uint16_t id = next_id();
        set_packet_id(next.packet, id);
        under_way_[id] = next.ticket;
        link_->send(next.packet.bytes);
        launched_at_ = Clock::now();
    }
}

void MqttSink::hear() {
    while (const auto packet = link_->take())
        if (packet->type == MqttType::puback) judge(read_answer(*packet));
}

void MqttSink::judge(const MqttAnswer& answer) {
    const auto found = under_way_.find(answer.packet_id);
    if (found == under_way_.end()) return;
    const std::uint8_t reason = answer.reasons.front();
    const Verdict verdict = verdict_on_reason(reason);
    const std::string words = verdict == Verdict::delivered ? "" : mqtt_words(reason, answer.words);
    done_.push_back({found->second, verdict, words, {}});
    under_way_.erase(found);
    if (verdict != Verdict::rejected) trouble_ = words;
    reconnect_.succeeded();
}

// The connection is over. What has no answer may or may not have been taken: all of it comes back.
void MqttSink::end(const ConnectionError& error) {
    link_.reset();
    reconnect_.failed();
    no_link_ = wire::verdict_on(error);
    trouble_ = error.what();
    const auto* ended = dynamic_cast<const MqttEnded*>(&error);
    if (ended != nullptr && blames_a_packet(ended->reason()) && !under_way_.empty()) {
        const bool found = under_way_.size() == 1;
        if (found) {
            done_.push_back({under_way_.begin()->second, Verdict::rejected, trouble_, {}});
            under_way_.clear();
        }
        one_by_one_until_ = found ? Clock::time_point() : Clock::now() + search_time;
    }
    give_back(no_link_, trouble_, reconnect_.remaining());
}

void MqttSink::give_back(Verdict verdict, const std::string& why, std::optional<milliseconds> retry_after) {
    for (const auto& [id, ticket] : under_way_) done_.push_back({ticket, verdict, why, retry_after});
    for (const auto& next : waiting_) done_.push_back({next.ticket, verdict, why, retry_after});
    under_way_.clear();
    waiting_.clear();
}

void MqttSink::collect(std::vector<Delivery>& deliveries, milliseconds patience) {
    wire::collect_done(
        done_, deliveries, patience, [this] { return busy(); }, [this] { pump(); },
        [this](milliseconds left) { link_->wait(left); },
        [this](const ConnectionError& error) { end(error); });
}

// MQTT has no question about a topic: what can be looked at is whether we are let in.
void MqttSink::check() {
    MqttHello hello = options_.server.hello;
    hello.client_id.clear();  // ours may be in use by the relay that runs
    MqttLink trial(options_.server, hello);
    trial.open_wholly();
    if (options_.retain && !trial.welcome().retains)
        throw UsageError("the mqtt server does not retain messages", "set retain = false");
    trial.send(write_disconnect());
    trial.flush();
}

}  // namespace

std::unique_ptr<relay::Sink> make_mqtt_sink(const relay::Settings& settings) {
    Options options;
    options.server = read_mqtt_server(settings);
    options.topic = fixed_destination(settings, "topic");
    options.server.hello.client_id = settings.text("client_id", "");
    if (options.server.hello.client_id.size() > mqtt_longest_text)
        settings.refuse("client_id", "is longer than 65535 bytes");
    options.retain = settings.boolean("retain", false);
    options.ack_timeout = settings.span("ack_timeout", 10s);
    return std::make_unique<MqttSink>(std::move(options));
}

}  // namespace baton::brokers
