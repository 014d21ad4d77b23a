#include "brokers/mqtt/source.hpp"

#include <poll.h>

#include <algorithm>
#include <map>
#include <random>

#include "brokers/mqtt/form.hpp"
#include "brokers/mqtt/link.hpp"
#include "intake/broker_feed.hpp"
#include "wire/access_refused.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::uint16_t subscribe_id = 1;

struct Options {
    MqttServer server;  // with the whole hello
    std::vector<std::string> topics;
    milliseconds standby{};
    intake::BrokerFeed::Pace pace;
};

// What outlives a connection. One feed at a time uses it.
class Session {
  public:
    // Name the place of a message that has no id of its own: a message that the server sends again has the
    // packet id that it had, and the place that it got then.
    std::string place_of(const MqttIncoming& message) {
        const std::size_t digest =
            std::hash<std::string_view>()(message.body) ^ std::hash<std::string_view>()(message.topic) * 31;
        Seen& seen = seen_[message.packet_id];
        if (message.packet_id == 0 || !message.again || seen.number == 0 || seen.digest != digest)
            seen = {digest, ++count_};
        return tag_ + "/" + std::to_string(seen.number);
    }

    // The server may give the packet id of an acknowledged message to another one, which may be alike. What
    // comes again with the id is kept: a second copy, when the acknowledgement got lost, is better than a
    // message less.
    void acknowledged(std::uint16_t packet_id) { seen_.erase(packet_id); }

    // A connection that worked has ended. Not every server says that another reader took the session over:
    // when it happens again soon, somebody else wants the session too.
    void end(const ConnectionError& error, milliseconds standby) {
        const auto now = Clock::now();
        const auto* ended = dynamic_cast<const MqttEnded*>(&error);
        const bool taken_over = ended != nullptr && ended->reason() == mqtt_reason::session_taken_over;
        if (taken_over || (last_end_ && now < *last_end_ + standby)) {
            std::uniform_int_distribution<milliseconds::rep> some(standby.count() / 2, standby.count());
            stands_by_until_ = now + milliseconds(some(random_));
        }
        last_end_ = now;
    }
    Clock::time_point stands_by_until() const { return stands_by_until_; }

  private:
    struct Seen {
        std::size_t digest = 0;
        std::uint64_t number = 0;
    };
    static std::string make_tag() {
        std::random_device random;
        std::string tag;
        for (int i = 0; i < 4; ++i) tag += (i > 0 ? "-" : "") + std::to_string(random());
        return tag;
    }

    std::string tag_ = make_tag();
    std::minstd_rand random_{std::random_device{}()};
    Clock::time_point stands_by_until_{};
    std::optional<Clock::time_point> last_end_;
    std::uint64_t count_ = 0;
    std::map<std::uint16_t, Seen> seen_;
};

// The server says nothing any more: that is no sign of another reader.
class Silence : public ConnectionError {
  public:
    using ConnectionError::ConnectionError;
};

struct MqttBatch final : intake::BrokerBatch {
    std::vector<std::uint16_t> ids;  // of packets; 0 where there is nothing to acknowledge
};

// Throw when the server did not take a subscription as it is needed.
void need_subscription(const MqttAnswer& answer, const std::vector<std::string>& topics) {
    for (std::size_t i = 0; i < topics.size(); ++i) {
        const std::uint8_t reason =
            i < answer.reasons.size() ? answer.reasons[i] : mqtt_reason::protocol_error;
        if (reason == 1 || reason == 2) continue;
        if (reason == 0)
            throw wire::AccessRefused("mqtt: the server grants QoS 0 only for " + topics[i] +
                                      ", which loses messages");
        throw wire::AccessRefused("mqtt: the server refused to subscribe to " + topics[i] + ": " +
                                  mqtt_words(reason, answer.words));
    }
}

class MqttFeed final : public intake::BrokerFeed {
  public:
    MqttFeed(const Options& options, const intake::Decoder& decoder, Session& session)
        : intake::BrokerFeed(options.pace), options_(options), decoder_(decoder), session_(session) {
        if (Clock::now() >= session_.stands_by_until()) connect();
    }

  protected:
    std::shared_ptr<intake::BrokerBatch> receive(Clock::time_point until) override;
    void acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) override;
    bool send_acknowledgements() override;
    void idle(Clock::time_point until) override;
    void leave() override;

  private:
    void connect();
    void stand_by(Clock::time_point until);
    void read_into(MqttBatch& batch);
    void take(MqttBatch& batch, MqttPacket packet);

    const Options& options_;
    const intake::Decoder& decoder_;
    Session& session_;
    std::unique_ptr<MqttLink> link_;  // null while another reader has the session
};

void MqttFeed::connect() {
    set_trouble("");
    link_ = std::make_unique<MqttLink>(options_.server, options_.server.hello);
    link_->open_wholly();
    if (link_->welcome().session_expiry == 0U)
        throw wire::AccessRefused("mqtt: the server keeps no session, so messages would be lost");
    link_->send(write_subscribe(subscribe_id, options_.topics, true));
    link_->flush();
}

// Let another reader have the session for a time.
void MqttFeed::stand_by(Clock::time_point until) {
    set_trouble("another reader has taken over the session of client id " + options_.server.hello.client_id +
                ", this one stands by");
    wait(-1, 0, std::min(until, session_.stands_by_until()));
}

std::shared_ptr<intake::BrokerBatch> MqttFeed::receive(Clock::time_point until) {
    if (!link_) {
        if (Clock::now() < session_.stands_by_until()) {
            stand_by(until);
            return nullptr;
        }
        connect();
    }
    try {
        auto batch = std::make_shared<MqttBatch>();
        link_->keep_alive();
        read_into(*batch);
        if (batch->events.empty()) {
            if (link_->is_silent()) throw Silence("mqtt: the server does not answer any more");
            wait(link_->descriptor(), static_cast<short>(link_->has_to_write() ? POLLIN | POLLOUT : POLLIN),
                 std::min(until, link_->next_ping()));
            read_into(*batch);
        }
        return batch->events.empty() ? nullptr : batch;
    } catch (const Silence&) {
        throw;
    } catch (const ConnectionError& error) {
        session_.end(error, options_.standby);
        throw;
    }
}

void MqttFeed::read_into(MqttBatch& batch) {
    link_->flush();
    while (!is_full(batch)) {
        auto packet = link_->take();
        if (!packet) return;
        if (packet->type == MqttType::suback)
            need_subscription(read_answer(*packet), options_.topics);
        else if (packet->type == MqttType::publish)
            take(batch, std::move(*packet));
    }
}

void MqttFeed::take(MqttBatch& batch, MqttPacket packet) {
    const MqttIncoming message = read_publish(packet.flags, batch.keep(std::move(packet.body)));
    intake::Incoming incoming;
    incoming.topic = message.topic;
    incoming.body = message.body;
    incoming.content_type = message.content_type;
    incoming.position = session_.place_of(message);
    for (const auto& [name, value] : message.properties) incoming.headers.push_back({name, value});
    if (!message.response_topic.empty()) incoming.headers.push_back({"reply-to", message.response_topic});
    if (!message.correlation_data.empty())
        incoming.headers.push_back({"correlation-id", message.correlation_data});
    decoder_.decode(incoming, batch);
    batch.ids.push_back(message.packet_id);
}

void MqttFeed::acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) {
    const auto& ids = static_cast<const MqttBatch&>(batch).ids;
    if (!link_) return;  // nothing of this connection is left
    for (std::size_t i = from; i < to; ++i) {
        if (ids[i] == 0) continue;
        link_->send(write_puback(ids[i]));
        session_.acknowledged(ids[i]);
    }
}

bool MqttFeed::send_acknowledgements() {
    if (!link_) return true;
    link_->flush();
    return !link_->has_to_write();
}

// Without reading, which would fill memory, tell the server that we are there.
void MqttFeed::idle(Clock::time_point until) {
    if (!link_) return stand_by(until);
    link_->keep_alive();
    link_->flush();
    wait(-1, 0, std::min(until, link_->next_ping()));
}

// Make sure that the acknowledgements have been heard. What comes meanwhile stays unacknowledged.
void MqttFeed::leave() {
    if (!link_) return;
    link_->ping();
    const auto end = Clock::now() + pace().ack_timeout;
    while (link_->unanswered() > 0 && Clock::now() < end) {
        link_->flush();
        if (!link_->take()) link_->wait(20ms);
    }
    link_->send(write_disconnect());
    link_->flush();
}

// The topic of a shared subscription, which a trial must not take messages from.
std::string unshared(const std::string& topic) {
    if (!topic.starts_with("$share/")) return topic;
    return topic.substr(topic.find('/', 7) + 1);
}

class MqttSource final : public BrokerSource {
  public:
    MqttSource(Options options, intake::Decoder decoder)
        : options_(std::move(options)), decoder_(std::move(decoder)) {}

    std::unique_ptr<relay::Feed> open() const override {
        return std::make_unique<MqttFeed>(options_, decoder_, session_);
    }

    // With another client id, so that a relay which reads is left alone.
    void check() const override {
        MqttHello hello = options_.server.hello;
        hello.client_id.clear();
        hello.clean_start = true;
        hello.session_expiry = 0;
        MqttLink trial(options_.server, hello);
        trial.open_wholly();
        std::vector<std::string> topics;
        for (const auto& topic : options_.topics) topics.push_back(unshared(topic));
        trial.send(write_subscribe(subscribe_id, topics, false));
        const auto end = Clock::now() + options_.server.connect_timeout;
        for (;;) {
            trial.flush();
            const auto packet = trial.take();
            if (packet && packet->type == MqttType::suback)
                return need_subscription(read_answer(*packet), topics);
            if (Clock::now() > end) throw ConnectionError("mqtt: the server does not answer a subscription");
            if (!packet) trial.wait(20ms);
        }
    }

  private:
    Options options_;
    intake::Decoder decoder_;
    mutable Session session_;
};

std::vector<std::string> read_topics(const relay::Settings& settings) {
    std::vector<std::string> topics = settings.list("topics");
    if (settings.has("topic")) {
        if (!topics.empty()) settings.refuse("topic", "stands beside topics", "set one of them");
        topics.push_back(settings.text("topic"));
    }
    const std::string key = settings.has("topic") ? "topic" : "topics";
    if (topics.empty()) settings.refuse("topics", "is missing", "name what to read: topics = [\"orders/#\"]");
    for (const auto& topic : topics)
        if (const char* flaw = flaw_of_mqtt_filter(topic))
            settings.refuse(key, "holds \"" + topic + "\", which " + flaw);
    return topics;
}

}  // namespace

std::unique_ptr<BrokerSource> make_mqtt_source(const relay::Settings& settings, const Reader& reader) {
    Options options;
    options.server = read_mqtt_server(settings);
    options.topics = read_topics(settings);
    MqttHello& hello = options.server.hello;
    hello.clean_start = false;
    hello.client_id = settings.text("client_id", "baton-" + reader.pipeline);
    if (hello.client_id.empty() || hello.client_id.size() > mqtt_longest_text)
        settings.refuse("client_id", "must have between 1 and 65535 bytes",
                        "the server keeps the session under this name");
    const auto expiry = settings.duration("session_expiry", 168h);
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(expiry).count();
    if (seconds < 1) settings.refuse("session_expiry", "must be at least 1s");
    hello.session_expiry = static_cast<std::uint32_t>(std::min<std::int64_t>(seconds, 0xFFFFFFFF));
    hello.receive_maximum = static_cast<std::uint16_t>(settings.count("receive_maximum", 1000, 65535));
    options.standby = settings.duration("standby", 30s);
    options.pace = intake::BrokerFeed::Pace::read(settings);
    return std::make_unique<MqttSource>(std::move(options),
                                        intake::Decoder(settings, "mqtt", mqtt_form.headers));
}

}  // namespace baton::brokers
