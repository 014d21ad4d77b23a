#include "brokers/redis/source.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "brokers/redis/entry.hpp"
#include "brokers/redis/form.hpp"
#include "brokers/redis/link.hpp"
#include "intake/broker_feed.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Words = std::vector<std::string>;

constexpr milliseconds block_time = 1000ms;

struct Options {
    RedisSettings server;
    std::string stream, group, consumer, body_field;
    bool from_end = false;
    milliseconds claim_idle{};
    intake::BrokerFeed::Pace pace;
};

struct RedisBatch final : intake::BrokerBatch {
    RedisReply reply;  // owns the entries
    std::vector<std::string> ids;
};

void create_group(RedisLink& link, const Options& options) {
    link.send(
        Words{"XGROUP", "CREATE", options.stream, options.group, options.from_end ? "$" : "0", "MKSTREAM"});
    try {
        link.need(options.server.response_timeout);
    } catch (const ConnectionError& error) {
        if (std::string_view(error.what()).find("BUSYGROUP") == std::string_view::npos) throw;
    }
}

class RedisFeed final : public intake::BrokerFeed {
  public:
    RedisFeed(const Options& options, const intake::Decoder& decoder)
        : intake::BrokerFeed(options.pace),
          options_(options),
          decoder_(decoder),
          limit_(std::min<std::size_t>(options.pace.batch, 100)),
          speaking_(options.server),
          reading_(options.server),
          refresh_at_(Clock::now() + options.claim_idle / 3) {
        create_group(speaking_, options);
    }

  protected:
    std::shared_ptr<intake::BrokerBatch> receive(Clock::time_point until) override;
    void acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) override;
    bool send_acknowledgements() override;
    void idle(Clock::time_point until) override;

  private:
    void ask();
    std::shared_ptr<intake::BrokerBatch> take(const RedisReply& reply);
    std::shared_ptr<intake::BrokerBatch> claim();
    std::shared_ptr<intake::BrokerBatch> decode(const RedisReply& owner, const redisReply& entries);
    void refresh();
    void adapt_limit(const intake::BrokerBatch& batch);

    const Options& options_;
    const intake::Decoder& decoder_;
    std::size_t limit_;
    RedisLink speaking_;  // acknowledges and claims
    RedisLink reading_;   // waits for entries, which would keep acknowledgements waiting
    bool asked_ = false;
    Clock::time_point asked_at_{};
    std::string pending_after_ = "0";  // what an earlier reader of our name left; empty: all of it is read
    std::string claim_cursor_ = "0-0";
    Clock::time_point claim_at_{};
    Clock::time_point refresh_at_;
    std::unordered_set<std::string> under_way_;
    Words done_;  // ids to acknowledge
};

// Ask for the next entries: first for those that our name has had already.
void RedisFeed::ask() {
    Words words{"XREADGROUP", "GROUP", options_.group, options_.consumer, "COUNT", std::to_string(limit_)};
    if (pending_after_.empty()) {
        words.emplace_back("BLOCK");
        words.push_back(std::to_string(block_time.count()));
    }
    for (const std::string& word : {std::string("STREAMS"), options_.stream,
                                    pending_after_.empty() ? std::string(">") : pending_after_})
        words.push_back(word);
    reading_.send(words);
    asked_ = true;
    asked_at_ = Clock::now();
}

std::shared_ptr<intake::BrokerBatch> RedisFeed::receive(Clock::time_point until) {
    refresh();
    if (!asked_ && pending_after_.empty() && Clock::now() >= claim_at_)
        if (auto batch = claim()) return batch;
    if (!asked_) ask();
    if (auto reply = reading_.take()) return take(reply);
    if (Clock::now() > asked_at_ + block_time + options_.server.response_timeout)
        throw ConnectionError("no answer from redis");
    wait(reading_.descriptor(), static_cast<short>(reading_.has_to_write() ? POLLIN | POLLOUT : POLLIN),
         until);
    auto reply = reading_.take();
    return reply ? take(reply) : nullptr;
}

std::shared_ptr<intake::BrokerBatch> RedisFeed::take(const RedisReply& reply) {
    asked_ = false;
    if (reply->type == REDIS_REPLY_ERROR) throw ConnectionError("redis refused: " + text_of(*reply));
    const redisReply* const entries = entries_of_read(*reply);
    if (entries == nullptr) {
        pending_after_.clear();
        return nullptr;
    }
    if (!pending_after_.empty()) pending_after_ = last_id(*entries);
    return decode(reply, *entries);
}

// Take over what readers that are gone have left.
std::shared_ptr<intake::BrokerBatch> RedisFeed::claim() {
    const auto reply = speaking_.ask(Words{"XAUTOCLAIM", options_.stream, options_.group, options_.consumer,
                                           std::to_string(options_.claim_idle.count()), claim_cursor_,
                                           "COUNT", std::to_string(limit_)});
    const redisReply& entries = entries_of_claim(*reply, claim_cursor_);
    // Once around, then again when something may have become idle.
    if (claim_cursor_ == "0-0")
        claim_at_ = Clock::now() + std::max<milliseconds>(options_.claim_idle / 2, 100ms);
    return decode(reply, entries);
}

std::shared_ptr<intake::BrokerBatch> RedisFeed::decode(const RedisReply& owner, const redisReply& entries) {
    auto batch = std::make_shared<RedisBatch>();
    batch->reply = owner;
    for_each_entry(
        entries,
        [&](std::string id, const redisReply& fields) {
            if (!under_way_.insert(id).second) return;
            decode_entry(id, fields, options_.stream, options_.body_field, decoder_, *batch);
            batch->ids.push_back(std::move(id));
        },
        [&](std::string id) { done_.push_back(std::move(id)); });
    adapt_limit(*batch);
    return batch;
}

// Read as many as fit into batch_bytes, judging by the last batch; grow step by step.
void RedisFeed::adapt_limit(const intake::BrokerBatch& batch) {
    if (batch.events.empty()) return;
    const std::size_t each = batch.bytes / batch.events.size() + 1;
    limit_ = std::clamp<std::size_t>(std::min(pace().batch_bytes / each, limit_ * 4), 1, pace().batch);
}

void RedisFeed::acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) {
    const auto& own = static_cast<const RedisBatch&>(batch);
    done_.insert(done_.end(), own.ids.begin() + static_cast<std::ptrdiff_t>(from),
                 own.ids.begin() + static_cast<std::ptrdiff_t>(to));
}

bool RedisFeed::send_acknowledgements() {
    for (std::size_t from = 0; from < done_.size(); from += 1000) {
        Words words{"XACK", options_.stream, options_.group};
        const std::size_t to = std::min(from + 1000, done_.size());
        words.insert(words.end(), done_.begin() + static_cast<std::ptrdiff_t>(from),
                     done_.begin() + static_cast<std::ptrdiff_t>(to));
        speaking_.send(words);
        speaking_.need(pace().ack_timeout);
    }
    for (const auto& id : done_) under_way_.erase(id);
    done_.clear();
    return true;
}

// Show that what is under way is not abandoned, so that nobody claims it.
void RedisFeed::refresh() {
    if (Clock::now() < refresh_at_) return;
    refresh_at_ = Clock::now() + options_.claim_idle / 3;
    auto next = under_way_.begin();
    while (next != under_way_.end()) {
        Words words{"XCLAIM", options_.stream, options_.group, options_.consumer, "0"};
        for (int count = 0; next != under_way_.end() && count < 1000; ++count) words.push_back(*next++);
        words.emplace_back("JUSTID");
        speaking_.ask(words);
    }
}

void RedisFeed::idle(Clock::time_point until) {
    refresh();
    wait(-1, 0, until);
}

class RedisSource final : public BrokerSource {
  public:
    RedisSource(Options options, intake::Decoder decoder)
        : options_(std::move(options)), decoder_(std::move(decoder)) {}

    std::unique_ptr<relay::Feed> open() const override {
        return std::make_unique<RedisFeed>(options_, decoder_);
    }

    void check() const override {
        RedisLink link(options_.server);
        const std::string held = text_of(*link.ask(Words{"TYPE", options_.stream}));
        if (held != "none" && held != "stream")
            throw UsageError("the key " + options_.stream + " in redis is a " + held + ", not a stream",
                             "name another stream, or remove that key");
    }

  private:
    Options options_;
    intake::Decoder decoder_;
};

std::string host_name() {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    return host.data();
}

}  // namespace

std::unique_ptr<BrokerSource> make_redis_source(const relay::Settings& settings, const Reader& reader) {
    Options options;
    options.server = read_redis_server(settings);
    options.stream = settings.text("stream");
    options.group = settings.text("group", reader.pipeline);
    options.consumer = settings.text("consumer", host_name());
    options.body_field = settings.text("body_field", "body");
    const std::string start = settings.text("start", "earliest");
    if (start != "earliest" && start != "latest")
        settings.refuse("start", "is \"" + start + "\"", "write one of: earliest, latest");
    options.from_end = start == "latest";
    options.claim_idle = settings.duration("claim_idle", 60s);
    if (options.claim_idle < 100ms) settings.refuse("claim_idle", "must be at least 100ms");
    options.pace = intake::BrokerFeed::Pace::read(settings);
    return std::make_unique<RedisSource>(std::move(options),
                                         intake::Decoder(settings, "redis", redis_form.headers));
}

}  // namespace baton::brokers
