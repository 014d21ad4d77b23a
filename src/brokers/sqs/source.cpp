#include "brokers/sqs/source.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <unordered_map>

#include "base/backoff.hpp"
#include "brokers/sqs/access.hpp"
#include "brokers/sqs/form.hpp"
#include "brokers/sqs/message.hpp"
#include "intake/broker_feed.hpp"
#include "wire/encoding.hpp"
#include "wire/json_answer.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::HttpResponse;
using wire::HttpTransfers;

constexpr std::size_t max_entries = 10;

struct Options {
    std::string queue;  // its URL
    seconds wait{20};
    seconds visibility{30};
    std::size_t receivers = 2;
    intake::BrokerFeed::Pace pace;
};

class SqsFeed final : public intake::BrokerFeed {
  public:
    SqsFeed(const Options& options, const SqsAccess& access, const intake::Decoder& decoder)
        : intake::BrokerFeed(options.pace),
          options_(options),
          access_(access),
          decoder_(decoder),
          polls_(poll_options(options, access)),
          orders_(access.options()) {}

  protected:
    std::shared_ptr<intake::BrokerBatch> receive(Clock::time_point until) override;
    void acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) override;
    bool send_acknowledgements() override;
    void idle(Clock::time_point until) override;
    void leave() override;
    void wake() override {
        intake::BrokerFeed::wake();
        polls_.wake();
    }

  private:
    // A request that concerns messages by their handles.
    struct Order {
        std::vector<std::string> handles;
        bool deletes;
    };

    static wire::HttpOptions poll_options(const Options& options, const SqsAccess& access) {
        auto made = access.options();
        made.timeout += options.wait;
        made.max_concurrent = options.receivers;
        made.max_response = 32 << 20;
        return made;
    }

    void start_polls();
    void take_polls(Clock::time_point until);
    void take(const wire::HttpResponse& response);
    void judge(const wire::HttpResponse& response);
    void give_order(const char* action, const std::vector<std::string>& handles, seconds visibility);
    void take_orders(milliseconds patience);
    void take_order(const wire::HttpResponse& response);
    void extend();
    Clock::time_point next_step(Clock::time_point until) const;

    const Options& options_;
    const SqsAccess& access_;
    const intake::Decoder& decoder_;
    wire::HttpTransfers polls_;
    wire::HttpTransfers orders_;
    std::size_t polling_ = 0;
    std::deque<std::shared_ptr<SqsBatch>> arrived_;
    std::unordered_map<std::string, Clock::time_point> held_;  // handles, and until when they are ours
    std::vector<std::string> done_;                            // to be deleted
    std::map<std::uint64_t, Order> ordered_;
    std::uint64_t next_order_ = 1;
    std::size_t deleting_ = 0;
    unsigned failures_ = 0;
    Clock::time_point poll_at_{};
    std::mt19937_64 random_{std::random_device{}()};
};

std::shared_ptr<intake::BrokerBatch> SqsFeed::receive(Clock::time_point until) {
    extend();
    if (arrived_.empty()) {
        start_polls();
        take_polls(next_step(until));
    }
    if (arrived_.empty()) return nullptr;
    auto batch = std::move(arrived_.front());
    arrived_.pop_front();
    return batch;
}

void SqsFeed::idle(Clock::time_point until) {
    extend();
    take_polls(next_step(until));
}

SqsFeed::Clock::time_point SqsFeed::next_step(Clock::time_point until) const {
    if (polling_ < options_.receivers && poll_at_ > Clock::now()) until = std::min(until, poll_at_);
    return until;
}

void SqsFeed::start_polls() {
    while (polling_ < options_.receivers && Clock::now() >= poll_at_) {
        polls_.start(
            access_.request("ReceiveMessage", json{{"QueueUrl", options_.queue},
                                                   {"MaxNumberOfMessages", max_entries},
                                                   {"WaitTimeSeconds", options_.wait.count()},
                                                   {"VisibilityTimeout", options_.visibility.count()},
                                                   {"AttributeNames", {"All"}},
                                                   {"MessageAttributeNames", {"All"}}}
                                                  .dump()));
        ++polling_;
    }
}

void SqsFeed::take_polls(Clock::time_point until) {
    std::vector<wire::HttpResponse> responses;
    if (polling_ > 0)
        polls_.collect(responses, std::max(std::chrono::ceil<milliseconds>(until - Clock::now()), 0ms));
    else
        wait(-1, 0, until);
    for (const auto& response : responses) {
        --polling_;
        take(response);
    }
}

// Take the answer to a poll.
void SqsFeed::take(const wire::HttpResponse& response) {
    const json answer = response.status == 200 ? json::parse(response.body, nullptr, false) : json();
    if (!answer.is_object()) return judge(response);
    failures_ = 0;
    set_trouble({});
    auto batch = std::make_shared<SqsBatch>();
    read_sqs_messages(answer, options_.queue, decoder_, *batch);
    if (batch->events.empty()) return;
    for (const auto& handle : batch->handles) held_[handle] = Clock::now() + options_.visibility;
    arrived_.push_back(std::move(batch));
}

// Wait a little after an answer that is none; throw when waiting will not help.
void SqsFeed::judge(const wire::HttpResponse& response) {
    std::string words = response.error;
    if (response.status == 200) {
        words = "an answer that is not JSON";
    } else if (response.status != 0) {
        const auto complaint = SqsComplaint::read(response);
        words = complaint.words();
        if (complaint.concerns_login()) access_.refused();
        if (response.status < 500 && response.status != 429 && !complaint.passes() &&
            !complaint.concerns_login())
            throw Error("sqs refused " + options_.queue + ": " + words, "check queue, region and keys");
    }
    set_trouble("sqs: " + words);
    poll_at_ = Clock::now() + Backoff{200ms, 5s}.delay(++failures_, random_);
}

void SqsFeed::acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) {
    const auto& own = static_cast<const SqsBatch&>(batch);
    for (std::size_t i = from; i < to; ++i) {
        held_.erase(own.handles[i]);
        done_.push_back(own.handles[i]);
    }
}

bool SqsFeed::send_acknowledgements() {
    const auto enough = Clock::now() + 500ms;
    do {
        while (!done_.empty() && !orders_.full()) {
            const std::size_t count = std::min(max_entries, done_.size());
            const auto first = done_.begin();
            give_order("DeleteMessageBatch", {first, first + static_cast<std::ptrdiff_t>(count)}, 0s);
            done_.erase(first, first + static_cast<std::ptrdiff_t>(count));
        }
        const auto before = deleting_;
        take_orders(20ms);
        if (deleting_ == before) break;
    } while (deleting_ > 0 && Clock::now() < enough);
    return done_.empty() && deleting_ == 0;
}

// Send one batch of deletions or changes of visibility.
void SqsFeed::give_order(const char* action, const std::vector<std::string>& handles, seconds visibility) {
    const bool deletes = std::string_view(action) == "DeleteMessageBatch";
    json entries = json::array();
    for (std::size_t i = 0; i < handles.size(); ++i) {
        entries.push_back({{"Id", std::to_string(i)}, {"ReceiptHandle", handles[i]}});
        if (!deletes) entries.back()["VisibilityTimeout"] = visibility.count();
    }
    auto request = access_.request(action, json{{"QueueUrl", options_.queue}, {"Entries", entries}}.dump());
    request.id = next_order_++;
    ordered_[request.id] = {handles, deletes};
    if (deletes) deleting_ += handles.size();
    orders_.start(std::move(request));
}

void SqsFeed::take_orders(milliseconds patience) {
    std::vector<wire::HttpResponse> responses;
    orders_.collect(responses, patience);
    for (const auto& response : responses) take_order(response);
}

// Deletions that did not succeed go again. A handle that SQS does not know any more is of a message that it
// gives out anew: its copy is recognised by its id.
void SqsFeed::take_order(const wire::HttpResponse& response) {
    const auto found = ordered_.find(response.id);
    const Order order = std::move(found->second);
    ordered_.erase(found);
    if (!order.deletes) return;
    deleting_ -= order.handles.size();
    const json answer = response.status == 200 ? json::parse(response.body, nullptr, false) : json();
    if (!answer.is_object()) {
        done_.insert(done_.end(), order.handles.begin(), order.handles.end());
        return judge(response);
    }
    if (!answer.contains("Failed") || !answer["Failed"].is_array()) return;
    for (const auto& failed : answer["Failed"]) {
        const SqsComplaint complaint{wire::text_member(failed, "Code"), wire::text_member(failed, "Message")};
        const auto place = entry_of(failed, order.handles.size());
        if (!place || complaint.is({"ReceiptHandle"})) continue;
        done_.push_back(order.handles[*place]);
        set_trouble("sqs: " + complaint.words());
    }
}

// Keep invisible what is under way, when a third of its time is over.
void SqsFeed::extend() {
    take_orders(0ms);
    const auto now = Clock::now();
    std::vector<std::string> handles;
    for (auto& [handle, until] : held_) {
        if (orders_.full()) break;
        if (now < until - options_.visibility * 2 / 3) continue;
        until = now + options_.visibility;
        handles.push_back(handle);
        if (handles.size() < max_entries) continue;
        give_order("ChangeMessageVisibilityBatch", handles, options_.visibility);
        handles.clear();
    }
    if (!handles.empty() && !orders_.full())
        give_order("ChangeMessageVisibilityBatch", handles, options_.visibility);
}

// Let others have at once what was received and not settled. A poll that is not answered soon has nothing for
// us.
void SqsFeed::leave() {
    for (const auto soon = Clock::now() + 300ms; polling_ > 0 && Clock::now() < soon;) take_polls(soon);
    const auto enough = Clock::now() + std::min(pace().ack_timeout, milliseconds(5000));
    while ((!held_.empty() || !orders_.idle()) && Clock::now() < enough) {
        while (!held_.empty() && !orders_.full()) {
            std::vector<std::string> handles;
            for (; !held_.empty() && handles.size() < max_entries; held_.erase(held_.begin()))
                handles.push_back(held_.begin()->first);
            give_order("ChangeMessageVisibilityBatch", handles, 0s);
        }
        take_orders(100ms);
    }
}

class SqsSource final : public BrokerSource {
  public:
    SqsSource(Options options, SqsAccess access, intake::Decoder decoder)
        : options_(std::move(options)), access_(std::move(access)), decoder_(std::move(decoder)) {}

    std::unique_ptr<relay::Feed> open() const override {
        return std::make_unique<SqsFeed>(options_, access_, decoder_);
    }
    void check() const override { access_.check_queue(options_.queue); }

  private:
    Options options_;
    SqsAccess access_;
    intake::Decoder decoder_;
};

seconds whole_seconds(const relay::Settings& settings, const std::string& key, seconds fallback,
                      std::pair<seconds, seconds> range) {
    const auto value = settings.duration(key, fallback);
    if (value < range.first || value > range.second || value % 1s != 0ms)
        settings.refuse(key, "must be whole seconds, " + std::to_string(range.first.count()) + " to " +
                                 std::to_string(range.second.count()));
    return std::chrono::floor<seconds>(value);
}

}  // namespace

std::unique_ptr<BrokerSource> make_sqs_source(const relay::Settings& settings, const Reader&) {
    SqsAccess access(settings, 8);
    Options options;
    options.queue = access.queue_url(settings.text("queue"));
    if (options.queue.empty() || options.queue.find('{') != std::string::npos)
        settings.refuse("queue", "must be one queue", "write its URL, or its name with account");
    options.wait = whole_seconds(settings, "wait", options.wait, {0s, 20s});
    options.visibility = whole_seconds(settings, "visibility", options.visibility, {1s, 43200s});
    options.receivers = settings.count("receivers", 2, 100);
    options.pace = intake::BrokerFeed::Pace::read(settings);
    return std::make_unique<SqsSource>(std::move(options), std::move(access),
                                       intake::Decoder(settings, "sqs", sqs_form.headers));
}

}  // namespace baton::brokers
