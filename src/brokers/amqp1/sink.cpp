#include "brokers/amqp1/sink.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "brokers/amqp1/connection.hpp"
#include "brokers/amqp1/form.hpp"
#include "brokers/amqp1/message.hpp"
#include "brokers/fixed_destination.hpp"
#include "brokers/lease_is_over.hpp"
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

// How long messages go one by one after a broker ended a link or connection over one of several.
constexpr auto search_time = 60s;
// An address that has nothing to send gives its link up when there are more than this.
constexpr std::size_t most_links = 200;

struct Options {
    Amqp1Server server;
    std::string container;
    std::string address;  // where messages go that name none
    milliseconds ack_timeout{};
    std::size_t max_message_bytes = 0;
};

struct Waiting {
    std::uint64_t ticket;
    std::string bytes;
};

// An address, and the link to it.
struct Lane {
    pn_link_t* link = nullptr;
    std::deque<Waiting> waiting;
    std::map<pn_delivery_t*, std::uint64_t> under_way;  // and their tickets
    Clock::time_point moved_at = Clock::now();          // something was sent or answered

    bool busy() const { return !waiting.empty() || !under_way.empty(); }
};

// Whose fault it is that the broker did not take a message, and in what words.
std::pair<Verdict, std::string> judge_outcome(pn_delivery_t* delivery) {
    switch (pn_delivery_remote_state(delivery)) {
        case PN_ACCEPTED:
            return {Verdict::delivered, ""};
        case PN_RELEASED:
            return {Verdict::retry, "the broker released the message"};
        case PN_MODIFIED:
            return {Verdict::retry, "the broker gave the message back (modified)"};
        case PN_REJECTED: {
            const auto error = Amqp1Error::of(pn_disposition_condition(pn_delivery_remote(delivery)));
            const std::string words = "the broker rejected the message: " + error.text();
            if (error.is_refusal()) return {Verdict::shut, words};
            return {error.passes() ? Verdict::retry : Verdict::rejected, words};
        }
        default:
            return {Verdict::retry, "the broker settled the message without saying what became of it"};
    }
}

class Amqp1Sink final : public relay::Sink {
  public:
    explicit Amqp1Sink(Options options) : options_(std::move(options)) {}

    relay::SinkTraits traits() const override { return {.max_message_bytes = max_bytes_}; }
    void check() override;
    void send(std::span<const Message> messages) override;
    void collect(std::vector<Delivery>& deliveries, milliseconds patience) override;
    std::string trouble() override { return trouble_; }

  private:
    void add(const Message& message);
    Lane& lane_to(const std::string& address);
    void make_room();
    bool busy() const;
    std::size_t under_way() const;
    void drop_if_closed();
    void connect();
    void pump();
    void hear();
    void judge(pn_delivery_t* delivery);
    void attach();
    void launch();
    void launch(Lane& lane);
    void expect_progress();
    void end_link(pn_link_t* link);
    void find_guilty(const Amqp1Error& error, const std::vector<Lane*>& suspects, const std::string& words);
    void end(const ConnectionError& error);
    void give_waiting_back(Lane& lane, Verdict verdict, const std::string& why,
                           std::optional<milliseconds> after);
    void give_back(Lane& lane, Verdict verdict, const std::string& why, std::optional<milliseconds> after);
    void give_all_back(Verdict verdict, const std::string& why, std::optional<milliseconds> after);
    void report(std::uint64_t ticket, Verdict verdict, std::string error = {},
                std::optional<milliseconds> after = {}) {
        done_.push_back({ticket, verdict, std::move(error), after});
    }
    Lane* lane_of(pn_link_t* link);

    Options options_;
    Amqp1Codec codec_;
    std::unique_ptr<Amqp1Connection> connection_;
    wire::Reconnect reconnect_;
    Verdict no_connection_ = Verdict::retry;  // what it means that there is none
    std::string trouble_;
    Clock::time_point one_by_one_until_{};  // the broker ended something, and nobody knows over which message
    std::map<std::string, Lane> lanes_;     // by address
    std::size_t max_bytes_ = options_.max_message_bytes;
    std::uint64_t last_tag_ = 0;
    std::vector<Delivery> done_;
};

bool Amqp1Sink::busy() const {
    return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane.second.busy(); });
}

std::size_t Amqp1Sink::under_way() const {
    std::size_t count = 0;
    for (const auto& [address, lane] : lanes_) count += lane.under_way.size();
    return count;
}

Lane* Amqp1Sink::lane_of(pn_link_t* link) {
    for (auto& [address, lane] : lanes_)
        if (lane.link == link) return &lane;
    return nullptr;
}

// Keep the number of links low where each event has an address of its own.
void Amqp1Sink::make_room() {
    if (lanes_.size() < most_links) return;
    std::erase_if(lanes_, [](const auto& entry) {
        const Lane& lane = entry.second;
        if (lane.busy()) return false;
        if (lane.link != nullptr) pn_link_close(lane.link);  // freed when the broker has answered
        return true;
    });
}

Lane& Amqp1Sink::lane_to(const std::string& address) {
    const auto found = lanes_.find(address);
    if (found != lanes_.end()) return found->second;
    make_room();
    return lanes_[address];
}

void Amqp1Sink::add(const Message& message) {
    const std::string& address = message.destination.empty() ? options_.address : message.destination;
    std::string flaw;
    if (address.empty())
        flaw = "the message names no address and the sink has no default";
    else if (const char* wrong = flaw_of_amqp1_address(address))
        flaw = "the address " + std::string(wrong);
    else
        flaw = flaw_of_amqp1_message(message);
    if (!flaw.empty()) return report(message.ticket, Verdict::rejected, std::move(flaw));
    Lane& lane = lane_to(address);
    if (!lane.busy()) lane.moved_at = Clock::now();
    lane.waiting.push_back({message.ticket, codec_.encode(message)});
}

void Amqp1Sink::send(std::span<const Message> messages) {
    if (!busy()) drop_if_closed();
    for (const auto& message : messages) add(message);
    if (!busy()) return;
    try {
        pump();
    } catch (const ConnectionError& error) {
        end(error);
    }
}

// Forget a connection that the broker closed while there was nothing to say.
void Amqp1Sink::drop_if_closed() {
    if (!connection_) return;
    try {
        if (!connection_->open()) return;
        connection_->move();
        hear();
    } catch (const ConnectionError&) {
        connection_.reset();
        lanes_.clear();
    }
}

// Start to connect, or give everything back while it is too early for that.
void Amqp1Sink::connect() {
    if (!reconnect_.due()) return give_all_back(no_connection_, trouble_, reconnect_.remaining());
    connection_ = std::make_unique<Amqp1Connection>(options_.server, options_.container);
}

// Move what can be moved without waiting.
void Amqp1Sink::pump() {
    if (!connection_) connect();
    if (!connection_ || !connection_->open()) return;
    connection_->move();
    hear();
    attach();
    launch();
    connection_->move();
    hear();
    expect_progress();
}

void Amqp1Sink::hear() {
    while (pn_event_t* event = connection_->next()) {
        switch (pn_event_type(event)) {
            case PN_DELIVERY:
                judge(pn_event_delivery(event));
                break;
            case PN_LINK_REMOTE_OPEN: {
                const auto most = pn_link_remote_max_message_size(pn_event_link(event));
                if (most > 0 && (max_bytes_ == 0 || most < max_bytes_)) max_bytes_ = most;
                break;
            }
            case PN_LINK_REMOTE_DETACH:
            case PN_LINK_REMOTE_CLOSE:
                end_link(pn_event_link(event));
                break;
            default:
                break;
        }
    }
}

void Amqp1Sink::judge(pn_delivery_t* delivery) {
    Lane* lane = lane_of(pn_delivery_link(delivery));
    if (lane == nullptr) return;
    const auto found = lane->under_way.find(delivery);
    const auto state = pn_delivery_remote_state(delivery);
    const bool is_outcome = state == PN_ACCEPTED || state == PN_REJECTED || state == PN_RELEASED ||
                            state == PN_MODIFIED || pn_delivery_settled(delivery);
    if (found == lane->under_way.end() || !is_outcome) return;
    auto [verdict, words] = judge_outcome(delivery);
    if (verdict != Verdict::rejected) trouble_ = words;
    report(found->second, verdict, std::move(words));
    lane->under_way.erase(found);
    lane->moved_at = Clock::now();
    pn_delivery_settle(delivery);
    reconnect_.succeeded();
}

// Ask for the links that are needed and not there.
void Amqp1Sink::attach() {
    for (auto& [address, lane] : lanes_)
        if (lane.link == nullptr && !lane.waiting.empty()) {
            lane.link = connection_->sender(address);
            lane.moved_at = Clock::now();
        }
}

void Amqp1Sink::launch() {
    for (auto& [address, lane] : lanes_)
        if (!lane.waiting.empty()) {
            if (may_send())
                launch(lane);
            else
                give_waiting_back(lane, Verdict::retry, lease_is_over, {});
        }
}

// Let as many go as the broker has given credit for.
void Amqp1Sink::launch(Lane& lane) {
    while (!lane.waiting.empty() && pn_link_credit(lane.link) > 0) {
        if (Clock::now() < one_by_one_until_ && under_way() > 0) return;
        const Waiting next = std::move(lane.waiting.front());
        lane.waiting.pop_front();
        if (max_bytes_ > 0 && next.bytes.size() > max_bytes_) {
            report(next.ticket, Verdict::rejected,
                   "the message has " + std::to_string(next.bytes.size()) + " bytes, the broker takes " +
                       std::to_string(max_bytes_));
            continue;
        }
        ++last_tag_;
        pn_delivery_t* delivery =
            pn_delivery(lane.link, pn_dtag(reinterpret_cast<const char*>(&last_tag_), sizeof last_tag_));
        lane.under_way[delivery] = next.ticket;
        pn_link_send(lane.link, next.bytes.data(), next.bytes.size());
        pn_link_advance(lane.link);
        lane.moved_at = Clock::now();
    }
}

// Give up on a broker that does not answer, and on an address that gets no credit.
void Amqp1Sink::expect_progress() {
    const std::string within = " within " + std::to_string(options_.ack_timeout.count()) + " ms";
    for (auto& [address, lane] : lanes_) {
        if (!lane.busy()) continue;
        const auto late = Clock::now() - options_.ack_timeout;
        const bool answered = (pn_link_state(lane.link) & PN_REMOTE_UNINIT) == 0;
        if ((!lane.under_way.empty() || !answered) && std::max(lane.moved_at, connection_->sent_at()) < late)
            throw ConnectionError("amqp1: no answer from the broker at " + options_.server.place() + within);
        if (lane.under_way.empty() && answered && pn_link_credit(lane.link) <= 0 && lane.moved_at < late) {
            trouble_ = "amqp1: the broker at " + options_.server.place() + " gave no credit for address \"" +
                       address + "\"" + within + ", it may be full or blocked";
            give_back(lane, Verdict::retry, trouble_, {});
        }
    }
}

// The broker ended something over one of these messages: when there is one only, it is that one, else they go
// one by one until it is found.
void Amqp1Sink::find_guilty(const Amqp1Error& error, const std::vector<Lane*>& suspects,
                            const std::string& words) {
    std::size_t count = 0;
    for (const Lane* lane : suspects) count += lane->under_way.size();
    if (!error.blames_a_message() || count == 0) return;
    one_by_one_until_ = count == 1 ? Clock::time_point() : Clock::now() + search_time;
    if (count > 1) return;
    for (Lane* lane : suspects) {
        for (const auto& [delivery, ticket] : lane->under_way) report(ticket, Verdict::rejected, words);
        lane->under_way.clear();
    }
}

// The broker does not want the link, or not any more.
void Amqp1Sink::end_link(pn_link_t* link) {
    const auto error = Amqp1Error::of(pn_link_remote_condition(link));
    for (auto& [address, lane] : lanes_) {
        if (lane.link != link) continue;
        lane.link = nullptr;
        trouble_ = connection_->words_of_end(address, error);
        find_guilty(error, {&lane}, trouble_);
        give_back(lane, error.is_refusal() ? Verdict::shut : Verdict::retry, trouble_, {});
    }
    pn_link_close(link);
    pn_link_free(link);
}

// The connection is over. What has no answer may or may not have been taken: all of it comes back.
void Amqp1Sink::end(const ConnectionError& error) {
    connection_.reset();
    reconnect_.failed();
    no_connection_ = wire::verdict_on(error);
    trouble_ = error.what();
    if (const auto* ended = dynamic_cast<const Amqp1Ended*>(&error)) {
        std::vector<Lane*> all;
        for (auto& [address, lane] : lanes_) all.push_back(&lane);
        find_guilty(ended->error(), all, trouble_);
    }
    give_all_back(no_connection_, trouble_, reconnect_.remaining());
    lanes_.clear();
}

void Amqp1Sink::give_back(Lane& lane, Verdict verdict, const std::string& why,
                          std::optional<milliseconds> after) {
    for (const auto& [delivery, ticket] : lane.under_way) report(ticket, verdict, why, after);
    lane.under_way.clear();
    give_waiting_back(lane, verdict, why, after);
}

void Amqp1Sink::give_waiting_back(Lane& lane, Verdict verdict, const std::string& why,
                                  std::optional<milliseconds> after) {
    for (const auto& next : lane.waiting) report(next.ticket, verdict, why, after);
    lane.waiting.clear();
}

void Amqp1Sink::give_all_back(Verdict verdict, const std::string& why, std::optional<milliseconds> after) {
    for (auto& [address, lane] : lanes_) give_back(lane, verdict, why, after);
}

void Amqp1Sink::collect(std::vector<Delivery>& deliveries, milliseconds patience) {
    wire::collect_done(
        done_, deliveries, patience, [this] { return busy(); }, [this] { pump(); },
        [this](milliseconds left) { connection_->wait(left); },
        [this](const ConnectionError& error) { end(error); });
}

// Look whether we are let in, and whether the address is there, where there is one for all.
void Amqp1Sink::check() {
    Amqp1Connection trial(options_.server, options_.container + "-check");
    trial.open_wholly();
    if (!options_.address.empty()) trial.need(trial.sender(options_.address), options_.address);
    trial.close();
}

std::string random_name() {
    std::random_device random;
    return "baton-" + std::to_string(random()) + "-" + std::to_string(random());
}

}  // namespace

std::unique_ptr<relay::Sink> make_amqp1_sink(const relay::Settings& settings) {
    Options options;
    options.server = read_amqp1_server(settings);
    options.address = fixed_destination(settings, "address");
    options.container = settings.text("container_id", random_name());
    options.ack_timeout = settings.span("ack_timeout", 10s);
    const auto bytes = settings.number("max_message_bytes", 0);
    if (bytes < 0) settings.refuse("max_message_bytes", "must not be negative");
    options.max_message_bytes = static_cast<std::size_t>(bytes);
    return std::make_unique<Amqp1Sink>(std::move(options));
}

}  // namespace baton::brokers
