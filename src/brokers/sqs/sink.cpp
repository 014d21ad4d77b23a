#include "brokers/sqs/sink.hpp"

#include <array>
#include <cstdlib>
#include <deque>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "brokers/fixed_destination.hpp"
#include "brokers/lease_is_over.hpp"
#include "brokers/sqs/access.hpp"
#include "brokers/sqs/entry.hpp"
#include "wire/json_answer.hpp"

namespace baton::brokers {

namespace {

using nlohmann::json;
using relay::Delivery;
using relay::milliseconds;
using relay::Verdict;

constexpr std::size_t max_entries = 10;

struct SqsSettings {
    std::string queue;  // where messages go that name none
    std::size_t batch_bytes = 0;
    std::size_t max_message_bytes = 0;
};

SqsSettings read_settings(const relay::Settings& settings) {
    SqsSettings read;
    read.queue = fixed_destination(settings, "queue", false);
    read.batch_bytes = settings.count("batch_bytes", 256 << 10);
    read.max_message_bytes = settings.count("max_message_bytes", 256 << 10);
    return read;
}

class SqsSink final : public relay::Sink {
  public:
    SqsSink(SqsSettings settings, SqsAccess access)
        : settings_(std::move(settings)), access_(std::move(access)), transfers_(access_.options()) {}

    relay::SinkTraits traits() const override {
        return {.max_message_bytes = settings_.max_message_bytes,
                .preferred_batch = max_entries * access_.options().max_concurrent};
    }
    void check() override;
    void send(std::span<const Message> messages) override;
    void collect(std::vector<Delivery>& deliveries, milliseconds patience) override;

  private:
    std::string queue_for(const std::string& destination) const {
        return access_.queue_url(destination.empty() ? settings_.queue : destination);
    }
    void start_waiting();
    void take(const wire::HttpResponse& response);
    void take_results(const std::vector<SqsEntry>& group, const json& answer);
    void report(const SqsEntry& entry, Verdict verdict, const std::string& words,
                std::optional<milliseconds> retry_after = {}) {
        done_.push_back({entry.ticket, verdict, words, retry_after});
    }

    SqsSettings settings_;
    SqsAccess access_;
    wire::HttpTransfers transfers_;
    std::deque<SqsEntry> waiting_;
    std::unordered_map<std::uint64_t, std::vector<SqsEntry>> flying_;
    std::uint64_t next_request_ = 1;
    std::vector<Delivery> done_;
};

void SqsSink::check() {
    // Queues made from events are not known before there is one.
    const std::string queue = queue_for({});
    if (queue.empty())
        transfers_.ask_head(access_.endpoint() + "/");
    else
        access_.check_queue(queue);
}

void SqsSink::send(std::span<const Message> messages) {
    for (const auto& message : messages) {
        const std::string queue = queue_for(message.destination);
        SqsEntry entry;
        entry.ticket = message.ticket;
        if (queue.empty()) {
            report(entry, Verdict::rejected,
                   "\"" + message.destination + "\" is no queue on " + access_.endpoint());
            continue;
        }
        if (message.body.size() <= settings_.max_message_bytes) {
            entry = make_entry(message, queue);
        } else {
            entry.bytes = message.body.size();
        }
        if (entry.bytes > settings_.max_message_bytes)
            report(entry, Verdict::rejected,
                   "the message of " + std::to_string(entry.bytes) +
                       " bytes is larger than max_message_bytes = " +
                       std::to_string(settings_.max_message_bytes));
        else
            waiting_.push_back(std::move(entry));
    }
    start_waiting();
}

// Form requests of what waits, as long as more may be under way.
void SqsSink::start_waiting() {
    const auto give_back = [this](const std::string& why) {
        for (const auto& entry : std::exchange(waiting_, {})) report(entry, Verdict::retry, why);
    };
    if (waiting_.empty()) return;
    try {
        access_.find_keys();  // they may have to be asked for
    } catch (const ConnectionError& error) {
        return give_back(error.what());
    }
    if (!may_send()) return give_back(lease_is_over);
    while (!waiting_.empty() && !transfers_.full()) {
        std::vector<SqsEntry> group;
        std::size_t bytes = 0;
        while (!waiting_.empty() && group.size() < max_entries) {
            const SqsEntry& next = waiting_.front();
            bytes += next.bytes;
            const bool apart =
                !group.empty() && (next.alone || group.front().alone || bytes > settings_.batch_bytes ||
                                   next.queue_url != group.front().queue_url);
            if (apart) break;
            group.push_back(std::move(waiting_.front()));
            waiting_.pop_front();
        }
        std::string body = R"({"QueueUrl":)" + json(group.front().queue_url).dump() + R"(,"Entries":[)";
        for (std::size_t place = 0; place < group.size(); ++place) {
            body += (place > 0 ? R"(,{"Id":")" : R"({"Id":")") + std::to_string(place) + "\",";
            // The members follow without their opening brace.
            body.append(group[place].json, 1);
        }
        wire::HttpRequest made = access_.request("SendMessageBatch", body + "]}");
        made.id = next_request_++;
        flying_.emplace(made.id, std::move(group));
        transfers_.start(std::move(made));
    }
}

// Judge an answer to a whole request.
void SqsSink::take(const wire::HttpResponse& response) {
    const auto found = flying_.find(response.id);
    std::vector<SqsEntry> group = std::move(found->second);
    flying_.erase(found);
    if (response.status == 0) {
        const bool hopeless = response.hopeless != wire::HttpResponse::Hopeless::no;
        const auto verdict = hopeless ? Verdict::shut : Verdict::retry;
        for (const auto& entry : group) report(entry, verdict, response.error);
        return;
    }
    if (response.status == 200) {
        take_results(group, json::parse(response.body, nullptr, false));
        return;
    }
    const SqsComplaint complaint = SqsComplaint::read(response);
    if (complaint.concerns_login()) access_.refused();
    const bool passes =
        response.status >= 500 || response.status == 408 || response.status == 429 || complaint.passes();
    const bool shut = complaint.concerns_queue() || complaint.concerns_login() || response.status == 401 ||
                      response.status == 403 || response.status == 404;
    if (passes || shut || group.size() == 1) {
        const auto verdict = shut ? Verdict::shut : passes ? Verdict::retry : Verdict::rejected;
        for (const auto& entry : group)
            report(entry, verdict, complaint.words(),
                   verdict == Verdict::rejected ? std::nullopt : response.retry_after);
        return;
    }
    for (auto entry = group.rbegin(); entry != group.rend(); ++entry) {
        entry->alone = true;
        waiting_.push_front(std::move(*entry));
    }
}

// Read the fate of each entry; one that is not mentioned goes again.
void SqsSink::take_results(const std::vector<SqsEntry>& group, const json& answer) {
    std::vector<std::optional<Delivery>> fates(group.size());
    const auto each = [&](const char* list, const auto& judge) {
        if (!answer.is_object() || !answer.contains(list) || !answer[list].is_array()) return;
        for (const auto& result : answer[list]) {
            const auto place = entry_of(result, group.size());
            if (place) fates[*place] = judge(result, group[*place].ticket);
        }
    };
    each("Successful", [](const json&, std::uint64_t ticket) {
        return Delivery{ticket, Verdict::delivered, {}, {}};
    });
    each("Failed", [](const json& result, std::uint64_t ticket) {
        const SqsComplaint complaint{wire::text_member(result, "Code"), wire::text_member(result, "Message")};
        const bool shut = complaint.concerns_queue() || complaint.concerns_login();
        const bool rejected = result.value("SenderFault", json()) == true && !complaint.passes();
        const auto verdict = shut ? Verdict::shut : rejected ? Verdict::rejected : Verdict::retry;
        return Delivery{ticket, verdict, complaint.words(), {}};
    });
    for (std::size_t place = 0; place < group.size(); ++place)
        if (fates[place])
            done_.push_back(std::move(*fates[place]));
        else
            report(group[place], Verdict::retry, "sqs did not say what became of the message");
}

void SqsSink::collect(std::vector<Delivery>& deliveries, milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        std::vector<wire::HttpResponse> responses;
        transfers_.collect(responses, done_.empty() ? std::max(left, milliseconds(0)) : milliseconds(0));
        for (const auto& response : responses) take(response);
        start_waiting();
        if (!done_.empty() || transfers_.idle() || left.count() <= 0) break;
    }
    std::move(done_.begin(), done_.end(), std::back_inserter(deliveries));
    done_.clear();
}

}  // namespace

std::unique_ptr<relay::Sink> make_sqs_sink(const relay::Settings& settings) {
    return std::make_unique<SqsSink>(read_settings(settings), SqsAccess(settings, 8));
}

}  // namespace baton::brokers
