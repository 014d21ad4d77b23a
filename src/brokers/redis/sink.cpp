#include "brokers/redis/sink.hpp"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>

#include "brokers/lease_is_over.hpp"
#include "brokers/redis/settings.hpp"
#include "wire/access_refused.hpp"
#include "wire/byte_stream.hpp"
#include "wire/collecting.hpp"
#include "wire/reconnect.hpp"

namespace baton::brokers {

namespace {

using relay::Delivery;
using relay::milliseconds;
using relay::Verdict;
using Clock = std::chrono::steady_clock;
using ReplyPtr = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;

std::string text_of(const redisReply& reply) {
    return std::string(reply.str, reply.len);
}

bool is_one_of(std::string_view error, std::initializer_list<std::string_view> codes) {
    return std::find(codes.begin(), codes.end(), error.substr(0, error.find(' '))) != codes.end();
}

// Whose fault an error is, by the word that it begins with.
Verdict verdict_on_reply(std::string_view error) {
    if (is_one_of(error, {"ERR"})) return Verdict::rejected;
    return is_one_of(error, {"NOPERM", "NOAUTH", "WRONGPASS", "WRONGTYPE"}) ? Verdict::shut : Verdict::retry;
}

// Tell whether this server is not the one to talk to any more, or does not know us: after a failover the old
// connection leads to a replica.
bool needs_new_connection(std::string_view error) {
    return is_one_of(error, {"READONLY", "LOADING", "MASTERDOWN", "NOAUTH", "CLUSTERDOWN", "MOVED"});
}

[[noreturn]] void throw_refusal(const std::string& error) {
    if (verdict_on_reply(error) == Verdict::retry) throw ConnectionError(error);
    throw wire::AccessRefused(error);
}

// The messages that go as one transaction.
struct Window {
    std::vector<std::uint64_t> tickets;
    std::map<std::size_t, std::string> errors;  // by place in tickets
    std::string bytes;                          // MULTI and the XADDs, not yet EXEC
    std::size_t replies = 0;                    // how many have come, MULTI's included
};

constexpr std::size_t window_bytes = 4 << 20;

class RedisSink final : public relay::Sink {
  public:
    explicit RedisSink(RedisSettings settings) : settings_(std::move(settings)) {}

    relay::SinkTraits traits() const override {
        return {.keeps_order_after_failure = true,
                .max_message_bytes = settings_.max_message_bytes,
                .preferred_batch = settings_.transaction_size};
    }
    void check() override;
    void send(std::span<const Message> messages) override;
    void collect(std::vector<Delivery>& deliveries, milliseconds patience) override;

  private:
    void add(const Message& message);
    void drop_if_closed();
    void connect();
    void disconnect(const ConnectionError& error);
    void launch();
    void exchange();
    void pump();
    void read_replies();
    void take(const redisReply& reply);
    void finish(const redisReply& exec);
    void settle(const Window& window, const std::string& why);
    void fail_held(Verdict verdict, const std::string& why, std::optional<milliseconds> retry_after);
    bool busy() const { return under_way_.has_value() || !waiting_.empty(); }
    ReplyPtr ask(std::initializer_list<std::string_view> words, Clock::time_point deadline);

    RedisSettings settings_;
    std::unique_ptr<wire::ByteStream> stream_;
    std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader_{nullptr, redisReaderFree};
    wire::Reconnect reconnect_;
    Verdict no_connection_ = Verdict::retry;  // what it means that there is none, and why
    std::string why_not_connected_;
    bool open_ = false;        // bytes flow
    std::size_t ignored_ = 0;  // replies still to come that belong to no message: AUTH, SELECT
    bool gave_back_ = false;   // something held was given back and has not been collected yet
    std::string out_;
    std::size_t written_ = 0;
    std::optional<Window> under_way_;
    std::vector<Delivery> executed_;  // by EXEC, not yet by WAIT
    std::deque<Window> waiting_;
    std::vector<Delivery> done_;
    Clock::time_point progress_;  // when something last moved
};

// Put a message into the last waiting transaction, or a new one.
void RedisSink::add(const Message& message) {
    const std::string& stream = message.destination.empty() ? settings_.stream : message.destination;
    if (stream.empty()) {
        done_.push_back({message.ticket,
                         Verdict::rejected,
                         "the message names no stream and the sink has no default",
                         {}});
        return;
    }
    if (message.body.size() > settings_.max_message_bytes) {
        done_.push_back(
            {message.ticket,
             Verdict::rejected,
             "the body of " + std::to_string(message.body.size()) +
                 " bytes is larger than max_message_bytes = " + std::to_string(settings_.max_message_bytes),
             {}});
        return;
    }
    if (gave_back_) {
        // The driver does not know yet that earlier ones failed: these must not overtake them.
        done_.push_back({message.ticket, Verdict::retry, "earlier messages were given back", {}});
        return;
    }
    if (waiting_.empty() || waiting_.back().tickets.size() >= settings_.transaction_size ||
        waiting_.back().bytes.size() >= window_bytes) {
        waiting_.emplace_back();
        append_command(waiting_.back().bytes, {"MULTI"});
    }
    append_entry(waiting_.back().bytes, message, stream, settings_);
    waiting_.back().tickets.push_back(message.ticket);
}

void RedisSink::send(std::span<const Message> messages) {
    if (!busy()) drop_if_closed();
    for (const auto& message : messages) add(message);
    if (!busy()) return;
    try {
        if (!stream_) connect();
        if (!stream_) return;
        pump();
    } catch (const ConnectionError& error) {
        disconnect(error);
    }
}

// Forget a connection that the server closed while there was nothing to say.
void RedisSink::drop_if_closed() {
    if (!stream_ || !open_) return;
    try {
        read_replies();
    } catch (const ConnectionError&) {
        stream_.reset();
    }
}

// Start to connect, or give everything back while it is too early for that.
void RedisSink::connect() {
    if (!reconnect_.due()) {
        fail_held(no_connection_, why_not_connected_, reconnect_.remaining());
        return;
    }
    open_ = false;
    out_.clear();
    written_ = 0;
    ignored_ = 0;
    progress_ = Clock::now();
    stream_ = std::make_unique<wire::ByteStream>(settings_.host, settings_.port, settings_.tls);
    reader_.reset(redisReaderCreate());
    if (!settings_.password.empty()) {
        if (settings_.user.empty())
            append_command(out_, {"AUTH", settings_.password});
        else
            append_command(out_, {"AUTH", settings_.user, settings_.password});
        ++ignored_;
    }
    if (!settings_.database.empty() && settings_.database != "0") {
        append_command(out_, {"SELECT", settings_.database});
        ++ignored_;
    }
}

// Drop the connection. What was not confirmed may or may not have been taken: all of it comes back.
void RedisSink::disconnect(const ConnectionError& error) {
    stream_.reset();
    reader_.reset();
    reconnect_.failed();
    no_connection_ = wire::verdict_on(error);
    why_not_connected_ = error.what();
    fail_held(no_connection_, why_not_connected_, reconnect_.remaining());
}

void RedisSink::fail_held(Verdict verdict, const std::string& why, std::optional<milliseconds> retry_after) {
    gave_back_ = true;
    std::deque<Window> held;
    std::swap(held, waiting_);
    if (under_way_) held.push_front(std::move(*under_way_));
    under_way_.reset();
    executed_.clear();
    for (const auto& window : held)
        for (const auto ticket : window.tickets) done_.push_back({ticket, verdict, why, retry_after});
}

// Let the next transaction go when none is under way and the login is through: with a wrong one the server
// would take it from somebody else than us.
void RedisSink::launch() {
    if (under_way_ || waiting_.empty() || ignored_ > 0) return;
    if (!may_send()) return fail_held(Verdict::retry, lease_is_over, {});
    under_way_ = std::move(waiting_.front());
    waiting_.pop_front();
    append_command(under_way_->bytes, {"EXEC"});
    if (settings_.wait_replicas > 0)
        append_command(under_way_->bytes, {"WAIT", std::to_string(settings_.wait_replicas),
                                           std::to_string(settings_.wait_timeout.count())});
    if (out_.empty())
        std::swap(out_, under_way_->bytes);
    else
        out_ += std::exchange(under_way_->bytes, {});
    progress_ = Clock::now();
}

// Move what can be moved without waiting.
void RedisSink::pump() {
    const auto limit = open_ ? settings_.response_timeout : settings_.connect_timeout;
    if ((under_way_ || !open_ || ignored_ > 0) &&
        Clock::now() - progress_ > limit + (executed_.empty() ? milliseconds(0) : settings_.wait_timeout))
        throw ConnectionError("no answer from redis within " + std::to_string(limit.count()) + " ms");
    if (!stream_->ready()) return;
    if (!open_) {
        open_ = true;
        progress_ = Clock::now();
    }
    launch();
    while (written_ < out_.size()) {
        // Without its end the server forgets a transaction.
        if (under_way_ && !may_send()) throw ConnectionError(lease_is_over);
        const std::size_t sent = stream_->write(std::string_view(out_).substr(written_));
        if (sent == 0) break;
        written_ += sent;
        progress_ = Clock::now();
    }
    if (written_ == out_.size() && written_ > 0) {
        out_.clear();
        written_ = 0;
    }
}

void RedisSink::read_replies() {
    std::array<char, 64 * 1024> buffer;
    for (;;) {
        const std::size_t received = stream_->read(buffer.data(), buffer.size());
        if (received == 0) return;
        progress_ = Clock::now();
        redisReaderFeed(reader_.get(), buffer.data(), received);
        for (;;) {
            void* raw = nullptr;
            if (redisReaderGetReply(reader_.get(), &raw) != REDIS_OK)
                throw ConnectionError(std::string("redis answered out of protocol: ") + reader_->errstr);
            if (raw == nullptr) break;
            const ReplyPtr reply(static_cast<redisReply*>(raw), freeReplyObject);
            take(*reply);
        }
        if (received < buffer.size()) return;
    }
}

// Attribute a reply: to the login, to MULTI, to a queued XADD, to EXEC or to WAIT.
void RedisSink::take(const redisReply& reply) {
    const bool failed = reply.type == REDIS_REPLY_ERROR;
    if (ignored_ > 0 || !under_way_) {
        if (failed) throw_refusal(text_of(reply));
        if (ignored_ > 0) --ignored_;
        return;
    }
    reconnect_.succeeded();
    Window& window = *under_way_;
    const std::size_t place = window.replies++;
    if (place == 0) {
        if (failed) throw_refusal(text_of(reply));
    } else if (place <= window.tickets.size()) {
        if (!failed) return;
        const std::string error = text_of(reply);
        window.errors[place - 1] = error;
        if (error.starts_with("ERR Protocol error")) {
            settle(window, error);
            throw ConnectionError("closed by redis: " + error);
        }
    } else if (place == window.tickets.size() + 1) {
        finish(reply);
    } else {
        if (reply.type == REDIS_REPLY_INTEGER && reply.integer >= settings_.wait_replicas) {
            std::move(executed_.begin(), executed_.end(), std::back_inserter(done_));
            executed_.clear();
            under_way_.reset();
        } else {
            fail_held(Verdict::retry,
                      failed ? text_of(reply)
                             : "only " + std::to_string(reply.integer) + " of " +
                                   std::to_string(settings_.wait_replicas) + " replicas confirmed in time",
                      {});
        }
    }
}

// Read EXEC's answer: one element per message, or a refusal of the whole.
void RedisSink::finish(const redisReply& exec) {
    Window& window = *under_way_;
    if (exec.type != REDIS_REPLY_ARRAY || exec.elements != window.tickets.size()) {
        settle(window, exec.type == REDIS_REPLY_ERROR ? text_of(exec) : "EXEC gave no result");
        return;
    }
    std::vector<Delivery> results;
    for (std::size_t place = 0; place < exec.elements; ++place) {
        const redisReply& element = *exec.element[place];
        if (element.type != REDIS_REPLY_ERROR) {
            results.push_back({window.tickets[place], Verdict::delivered, {}, {}});
            continue;
        }
        // The others of the transaction were taken, so what failed alone failed for its own sake or its
        // place.
        const std::string error = text_of(element);
        const bool shut = verdict_on_reply(error) == Verdict::shut;
        results.push_back({window.tickets[place], shut ? Verdict::shut : Verdict::rejected, error, {}});
    }
    if (settings_.wait_replicas > 0) {
        executed_ = std::move(results);
        return;
    }
    std::move(results.begin(), results.end(), std::back_inserter(done_));
    under_way_.reset();
}

// Nothing of the window was taken: reject those that never will be, and give everything else back.
void RedisSink::settle(const Window& window, const std::string& why) {
    bool pass = false;
    std::string words = why;
    std::string last = needs_new_connection(why) ? why : std::string();  // what ends the connection
    std::vector<std::uint64_t> innocent;
    for (std::size_t place = 0; place < window.tickets.size(); ++place) {
        const auto error = window.errors.find(place);
        const bool known = error != window.errors.end();
        const Verdict verdict = known ? verdict_on_reply(error->second) : Verdict::retry;
        if (known && needs_new_connection(error->second)) last = error->second;
        if (verdict == Verdict::retry) {
            innocent.push_back(window.tickets[place]);
            if (known) words = error->second;
        } else {
            done_.push_back({window.tickets[place], verdict, error->second, {}});
            pass = true;
        }
    }
    const auto retry_after = pass ? std::optional(milliseconds(0)) : std::nullopt;
    for (const auto ticket : innocent) done_.push_back({ticket, Verdict::retry, words, retry_after});
    under_way_.reset();
    fail_held(Verdict::retry, words, retry_after);
    if (settings_.wait_replicas > 0) ++ignored_;
    if (!last.empty()) throw_refusal(last);
}

// Send what may go, hear what has come, and send what may go for it.
void RedisSink::exchange() {
    if (!stream_) connect();
    if (!stream_) return;
    pump();
    if (open_) read_replies();
    if (open_) pump();
}

void RedisSink::collect(std::vector<Delivery>& deliveries, milliseconds patience) {
    wire::collect_done(
        done_, deliveries, patience, [this] { return busy(); }, [this] { exchange(); },
        [this](milliseconds left) { stream_->wait(written_ < out_.size() || !open_, left); },
        [this](const ConnectionError& error) { disconnect(error); });
    gave_back_ = false;
}

// Send one command on a connection without messages and wait for its answer.
ReplyPtr RedisSink::ask(std::initializer_list<std::string_view> words, Clock::time_point deadline) {
    append_command(out_, words);
    std::array<char, 4096> buffer;
    for (;;) {
        if (Clock::now() > deadline)
            throw ConnectionError("no answer from redis at " + settings_.host + " within " +
                                  std::to_string(settings_.connect_timeout.count()) + " ms");
        pump();
        void* raw = nullptr;
        if (const std::size_t received = open_ ? stream_->read(buffer.data(), buffer.size()) : 0;
            received > 0)
            redisReaderFeed(reader_.get(), buffer.data(), received);
        while (redisReaderGetReply(reader_.get(), &raw) == REDIS_OK && raw != nullptr) {
            ReplyPtr reply(static_cast<redisReply*>(raw), freeReplyObject);
            if (reply->type == REDIS_REPLY_ERROR) throw ConnectionError("redis refused: " + text_of(*reply));
            if (ignored_ == 0) return reply;
            --ignored_;
        }
        stream_->wait(written_ < out_.size(), milliseconds(50));
    }
}

void RedisSink::check() {
    RedisSink trial(settings_);
    const auto deadline = Clock::now() + settings_.connect_timeout;
    trial.connect();
    trial.ask({"PING"}, deadline);
    if (settings_.stream.empty()) return;
    const auto type = trial.ask({"TYPE", settings_.stream}, deadline);
    const std::string held = text_of(*type);
    if (held != "none" && held != "stream")
        throw UsageError("the key " + settings_.stream + " in redis is a " + held + ", not a stream",
                         "name another stream, or remove that key");
}

}  // namespace

std::unique_ptr<relay::Sink> make_redis_sink(const relay::Settings& settings) {
    return std::make_unique<RedisSink>(read_redis_settings(settings));
}

}  // namespace baton::brokers
