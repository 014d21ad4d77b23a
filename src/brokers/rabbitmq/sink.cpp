#include "brokers/rabbitmq/sink.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "brokers/fixed_destination.hpp"
#include "brokers/lease_is_over.hpp"
#include "brokers/rabbitmq/connection.hpp"
#include "wire/access_refused.hpp"
#include "wire/reconnect.hpp"

namespace baton::brokers {

namespace {

using relay::Delivery;
using relay::milliseconds;
using relay::Verdict;
using Clock = std::chrono::steady_clock;

RabbitSettings read_settings(const relay::Settings& settings) {
    RabbitSettings read = read_rabbit_server(settings);
    read.exchange = settings.text("exchange", "");
    if (read.exchange.size() > 255) settings.refuse("exchange", "is longer than 255 bytes");
    read.routing_key = fixed_destination(settings, "routing_key");
    read.mandatory = settings.boolean("mandatory", true);
    read.confirm_timeout = settings.duration("confirm_timeout", std::chrono::seconds(30));
    read.max_message_bytes = settings.count("max_message_bytes", 128 << 20);
    return read;
}

class RabbitSink final : public relay::Sink {
  public:
    explicit RabbitSink(RabbitSettings settings)
        : settings_(std::move(settings)), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (bell_ < 0) throw Error("cannot make an eventfd");
        worker_ = std::thread([this] { work(); });
    }
    ~RabbitSink() override;

    relay::SinkTraits traits() const override { return {.max_message_bytes = settings_.max_message_bytes}; }
    void check() override;
    void send(std::span<const Message> messages) override;
    void collect(std::vector<Delivery>& deliveries, milliseconds patience) override;
    std::string trouble() override {
        const std::lock_guard lock(mutex_);
        return trouble_;
    }

  private:
    // The driver's side.
    void ring() const;

    // The worker's side.
    void work();
    bool wait_for_work();
    void connect();
    void disconnect(const ConnectionError& error);
    void give_back_waiting(Verdict verdict, const std::string& why);
    void serve();
    bool may_publish() const;
    void publish_waiting();
    void take(const RabbitNotice& notice);
    void set_blocked(bool blocked, const std::string& why = {});
    void confirm(const RabbitNotice& notice);
    void mark_returned(const RabbitNotice& notice);
    void find_culprit(const RabbitNotice& notice);
    void report(std::uint64_t ticket, Verdict verdict, const std::string& error = {},
                std::optional<milliseconds> retry_after = {});
    void publish_reports();

    const RabbitSettings settings_;
    int bell_;
    std::thread worker_;

    std::mutex mutex_;  // guards what follows
    std::condition_variable reported_;
    std::deque<RabbitMessage> inbox_;
    std::vector<Delivery> done_;
    std::size_t outstanding_ = 0;  // given and not yet collected
    int socket_ = -1;
    bool stop_ = false;
    std::string trouble_;

    // Only the worker touches these.
    std::unique_ptr<RabbitConnection> connection_;
    wire::Reconnect reconnect_;
    std::deque<RabbitMessage> waiting_;
    std::map<std::uint64_t, RabbitMessage> unconfirmed_;
    std::vector<Delivery> reports_;
    std::uint64_t next_tag_ = 1;
    bool blocked_ = false;
    Verdict no_connection_ = Verdict::retry;  // what it means that there is none, and why
    std::string why_not_connected_;
    Clock::time_point progress_;
};

RabbitSink::~RabbitSink() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);
    }
    ring();
    worker_.join();
    close(bell_);
}

void RabbitSink::ring() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(bell_, &one, sizeof one);
}

void RabbitSink::send(std::span<const Message> messages) {
    {
        const std::lock_guard lock(mutex_);
        for (const auto& message : messages) {
            RabbitMessage& taken = inbox_.emplace_back();
            taken.ticket = message.ticket;
            taken.message_id = message.message_id;
            taken.routing_key = message.destination.empty() ? settings_.routing_key : message.destination;
            taken.key = message.key;
            taken.body = message.body;
            taken.content_type = message.content_type;
            taken.headers = message.headers;
            if (message.event != nullptr && message.event->occurred_at != Timestamp{})
                taken.occurred_at = message.event->occurred_at;
        }
        outstanding_ += messages.size();
    }
    ring();
}

void RabbitSink::collect(std::vector<Delivery>& deliveries, milliseconds patience) {
    std::unique_lock lock(mutex_);
    reported_.wait_for(lock, patience, [this] { return !done_.empty() || outstanding_ == 0; });
    outstanding_ -= done_.size();
    std::move(done_.begin(), done_.end(), std::back_inserter(deliveries));
    done_.clear();
}

void RabbitSink::check() {
    RabbitConnection trial(settings_);
    trial.connect();
    trial.log_in();
    trial.check_destination();
}

void RabbitSink::report(std::uint64_t ticket, Verdict verdict, const std::string& error,
                        std::optional<milliseconds> retry_after) {
    reports_.push_back({ticket, verdict, error, retry_after});
}

// Hand the reports over to the driver's side.
void RabbitSink::publish_reports() {
    if (reports_.empty()) return;
    {
        const std::lock_guard lock(mutex_);
        std::move(reports_.begin(), reports_.end(), std::back_inserter(done_));
    }
    reports_.clear();
    reported_.notify_one();
}

// The worker's life: sleep until there is something to do, do it, report.
void RabbitSink::work() {
    while (wait_for_work()) {
        try {
            if (!connection_ && !waiting_.empty()) connect();
            if (connection_) serve();
        } catch (const ConnectionError& error) {
            disconnect(error);
        }
        publish_reports();
    }
    connection_.reset();
}

// Wait for messages or for the broker, and take the messages over; false when the sink ends.
bool RabbitSink::wait_for_work() {
    // The library's heartbeat runs only inside its calls.
    const auto patience =
        may_publish() ? milliseconds(0) : std::min(milliseconds(settings_.heartbeat) / 2, milliseconds(500));
    pollfd wait_for[2] = {{bell_, POLLIN, 0}, {connection_ ? connection_->fd() : -1, POLLIN, 0}};
    poll(wait_for, 2, static_cast<int>(connection_ ? patience.count() : -1));
    std::uint64_t rung = 0;
    [[maybe_unused]] const auto got = read(bell_, &rung, sizeof rung);
    const std::lock_guard lock(mutex_);
    if (waiting_.empty())
        std::swap(waiting_, inbox_);
    else
        while (!inbox_.empty()) {
            waiting_.push_back(std::move(inbox_.front()));
            inbox_.pop_front();
        }
    return !stop_;
}

void RabbitSink::connect() {
    if (!reconnect_.due()) {
        give_back_waiting(no_connection_, why_not_connected_);
        return;
    }
    connection_ = std::make_unique<RabbitConnection>(settings_);
    connection_->connect();
    {
        const std::lock_guard lock(mutex_);
        if (stop_) throw ConnectionError("the sink ends");
        socket_ = connection_->fd();
    }
    connection_->log_in();
    reconnect_.succeeded();
    next_tag_ = 1;
    set_blocked(false);
    progress_ = Clock::now();
}

// Drop the connection. What was not confirmed may or may not have been taken: all of it comes back.
void RabbitSink::disconnect(const ConnectionError& error) {
    {
        const std::lock_guard lock(mutex_);
        socket_ = -1;
    }
    connection_.reset();
    reconnect_.failed();
    no_connection_ = wire::verdict_on(error);
    why_not_connected_ = error.what();
    for (const auto& [tag, message] : unconfirmed_)
        report(message.ticket, no_connection_, why_not_connected_, reconnect_.remaining());
    unconfirmed_.clear();
    give_back_waiting(no_connection_, why_not_connected_);
}

void RabbitSink::give_back_waiting(Verdict verdict, const std::string& why) {
    for (const auto& message : waiting_) report(message.ticket, verdict, why, reconnect_.remaining());
    waiting_.clear();
}

// Hear what the broker says and tell it what waits.
void RabbitSink::serve() {
    while (const auto notice = connection_->next_notice()) take(*notice);
    publish_reports();
    publish_waiting();
    if (!unconfirmed_.empty() && !blocked_ && Clock::now() - progress_ > settings_.confirm_timeout)
        throw ConnectionError("rabbitmq confirmed nothing for " +
                              std::to_string(settings_.confirm_timeout.count()) + " ms");
}

// True when a message waits and may go now: suspects go alone.
bool RabbitSink::may_publish() const {
    if (waiting_.empty() || blocked_) return false;
    return unconfirmed_.empty() || (!waiting_.front().suspect && !unconfirmed_.rbegin()->second.suspect);
}

void RabbitSink::publish_waiting() {
    if (!may_publish()) return;
    if (unconfirmed_.empty()) progress_ = Clock::now();
    connection_->cork(true);
    // Some at a time, so that confirms are read in between.
    for (int count = 0; count < 128 && may_publish(); ++count) {
        if (!may_send()) {
            give_back_waiting(Verdict::retry, lease_is_over);
            break;
        }
        RabbitMessage& message = waiting_.front();
        std::string refusal = connection_->refusal(message);
        if (message.body.size() > settings_.max_message_bytes)
            refusal =
                "the body of " + std::to_string(message.body.size()) +
                " bytes is larger than max_message_bytes = " + std::to_string(settings_.max_message_bytes);
        if (!refusal.empty()) {
            report(message.ticket, Verdict::rejected, refusal);
            waiting_.pop_front();
            continue;
        }
        // It counts as sent before it is: after a failure in the middle its fate is unknown.
        const auto placed = unconfirmed_.emplace_hint(unconfirmed_.end(), next_tag_++, std::move(message));
        waiting_.pop_front();
        connection_->publish(placed->second);
    }
    connection_->cork(false);
}

void RabbitSink::take(const RabbitNotice& notice) {
    progress_ = Clock::now();
    switch (notice.kind) {
        case RabbitNotice::Kind::acked:
        case RabbitNotice::Kind::nacked:
            confirm(notice);
            break;
        case RabbitNotice::Kind::returned:
            mark_returned(notice);
            break;
        case RabbitNotice::Kind::channel_closed:
            find_culprit(notice);
            break;
        case RabbitNotice::Kind::blocked:
            set_blocked(true, "rabbitmq takes no messages: " + notice.text);
            break;
        case RabbitNotice::Kind::unblocked:
            set_blocked(false);
            break;
    }
}

// Note whether the broker takes messages at all, and why not.
void RabbitSink::set_blocked(bool blocked, const std::string& why) {
    blocked_ = blocked;
    const std::lock_guard lock(mutex_);
    trouble_ = why;
}

void RabbitSink::confirm(const RabbitNotice& notice) {
    auto from = notice.multiple ? unconfirmed_.begin() : unconfirmed_.find(notice.tag);
    const auto end = unconfirmed_.upper_bound(notice.tag);
    while (from != unconfirmed_.end() && from != end) {
        const RabbitMessage& message = from->second;
        if (!message.returned.empty())
            report(message.ticket, Verdict::shut, message.returned);
        else if (notice.kind == RabbitNotice::Kind::acked)
            report(message.ticket, Verdict::delivered);
        else
            report(message.ticket, Verdict::retry,
                   "rabbitmq refused the message (basic.nack), its queue may be full");
        from = unconfirmed_.erase(from);
    }
}

// The broker returns an unroutable message before it confirms it; the first one that fits is meant.
void RabbitSink::mark_returned(const RabbitNotice& notice) {
    for (auto& [tag, message] : unconfirmed_) {
        if (!message.returned.empty() || message.message_id != notice.message_id ||
            message.routing_key != notice.routing_key)
            continue;
        message.returned = notice.text + " (" + std::to_string(notice.code) +
                           "): no queue is bound to exchange \"" + settings_.exchange +
                           "\" for routing key \"" + notice.routing_key + "\"";
        return;
    }
}

// The broker closed the channel over one of the unconfirmed messages: when there is one only, it is that one.
// Where the exchange is missing or we may not write to it, the others would fare no better.
void RabbitSink::find_culprit(const RabbitNotice& notice) {
    const bool no_exchange = notice.code == AMQP_NOT_FOUND;
    const bool refused = notice.code == AMQP_ACCESS_REFUSED || no_exchange;
    if (no_exchange || unconfirmed_.size() == 1) {
        for (const auto& [tag, message] : unconfirmed_)
            report(message.ticket, refused ? Verdict::shut : Verdict::rejected, notice.text);
        if (refused) give_back_waiting(no_exchange ? Verdict::shut : Verdict::retry, notice.text);
    } else {
        for (auto message = unconfirmed_.rbegin(); message != unconfirmed_.rend(); ++message) {
            message->second.suspect = true;
            message->second.returned.clear();
            waiting_.push_front(std::move(message->second));
        }
    }
    unconfirmed_.clear();
    connection_->open_channel();
    next_tag_ = 1;
}

}  // namespace

std::unique_ptr<relay::Sink> make_rabbitmq_sink(const relay::Settings& settings) {
    return std::make_unique<RabbitSink>(read_settings(settings));
}

}  // namespace baton::brokers
