#include "sinks/sqs.hpp"

#include <array>
#include <cstdlib>
#include <deque>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "sinks/destination.hpp"
#include "sinks/http_transfers.hpp"
#include "sinks/sqs_entry.hpp"

namespace baton::sinks {

namespace {

using nlohmann::json;
using relay::Delivery;
using relay::milliseconds;
using relay::Verdict;

constexpr std::size_t max_entries = 10;

struct SqsSettings {
    std::string queue;     // where messages go that name none
    std::string endpoint;  // scheme, host and port
    std::string account;   // makes a name a URL
    std::string session_token;
    std::size_t batch_bytes = 0;
    std::size_t max_message_bytes = 0;
};

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : value;
}

bool is_http(std::string_view url) {
    return url.starts_with("http://") || url.starts_with("https://");
}

// Return "https://host:port" of a URL.
std::string endpoint_of(const std::string& url) {
    return url.substr(0, url.find('/', url.find("://") + 3));
}

// Find the region in "https://sqs.REGION.amazonaws.com"; empty when the host is another.
std::string region_of(const std::string& endpoint) {
    const auto begin = endpoint.find("://sqs.");
    if (begin == std::string::npos || endpoint.find(".amazonaws.com") == std::string::npos) return {};
    const auto from = begin + 7;
    return endpoint.substr(from, endpoint.find('.', from) - from);
}

// Find the region where the settings, the host or the environment say it.
std::string read_region(const relay::Settings& settings) {
    std::string region = settings.text("region", region_of(settings.text("queue")));
    if (region.empty()) region = region_of(settings.text("endpoint", ""));
    if (region.empty()) region = environment("AWS_REGION");
    if (region.empty()) region = environment("AWS_DEFAULT_REGION");
    if (region.empty()) settings.refuse("region", "is missing", "set region or AWS_REGION");
    return region;
}

std::size_t positive(const relay::Settings& settings, const std::string& key, std::int64_t fallback) {
    const auto value = settings.number(key, fallback);
    if (value < 1) settings.refuse(key, "must be at least 1");
    return static_cast<std::size_t>(value);
}

SqsSettings read_settings(const relay::Settings& settings, const std::string& region) {
    SqsSettings read;
    read.queue = fixed_destination(settings, "queue", false);
    read.account = settings.text("account", "");
    const std::string queue = settings.text("queue");
    if (is_http(queue)) {
        read.endpoint = endpoint_of(queue);
        if (read.endpoint.find('{') != std::string::npos)
            settings.refuse("queue", "must name its host", "events may fill in the queue's name only");
    } else {
        read.endpoint = settings.text("endpoint", "https://sqs." + region + ".amazonaws.com");
        if (!is_http(read.endpoint) || endpoint_of(read.endpoint) != read.endpoint)
            settings.refuse("endpoint", "must be http:// or https:// and a host, without a path");
        if (read.account.empty())
            settings.refuse("account", "is missing", "a queue's name needs it, a queue's URL does not");
    }
    read.session_token =
        settings.text("session_token", settings.has("access_key") ? "" : environment("AWS_SESSION_TOKEN"));
    read.batch_bytes = positive(settings, "batch_bytes", 256 << 10);
    read.max_message_bytes = positive(settings, "max_message_bytes", 256 << 10);
    return read;
}

HttpOptions read_options(const relay::Settings& settings, const std::string& region) {
    HttpOptions options = read_http_options(settings, 8);
    options.access_key = settings.text("access_key", environment("AWS_ACCESS_KEY_ID"));
    options.secret_key = settings.text("secret_key", environment("AWS_SECRET_ACCESS_KEY"));
    if (options.access_key.empty() || options.secret_key.empty())
        settings.refuse(options.access_key.empty() ? "access_key" : "secret_key", "is missing",
                        "set access_key and secret_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    options.sigv4 = "aws:amz:" + region + ":sqs";
    return options;
}

// What SQS said about a request or an entry.
struct Complaint {
    std::string code;
    std::string message;

    std::string words() const { return message.empty() ? code : code + ": " + message; }
    bool is(std::initializer_list<std::string_view> parts) const {
        return std::any_of(parts.begin(), parts.end(),
                           [this](auto part) { return code.find(part) != std::string::npos; });
    }
    // Throttling passes, and credentials are renewed.
    bool passes() const {
        return is({"Throttl", "OverLimit", "Expired", "InvalidClientTokenId", "UnrecognizedClient",
                   "SignatureDoesNotMatch", "InvalidSignature", "MissingAuthenticationToken",
                   "IncompleteSignature", "InvalidAccessKeyId", "InternalError", "InternalFailure",
                   "ServiceUnavailable"});
    }
    // The whole queue is meant, not one entry.
    bool concerns_queue() const {
        return is({"QueueDoesNotExist", "NonExistentQueue", "AccessDenied", "InvalidAddress"});
    }
};

Complaint read_complaint(const HttpResponse& response) {
    Complaint complaint;
    const json body = json::parse(response.body, nullptr, false);
    if (body.is_object()) {
        complaint.code = body.value("__type", "");
        complaint.code.erase(0, complaint.code.find('#') + 1);
        complaint.message = body.value("message", body.value("Message", ""));
    }
    if (complaint.code.empty()) {
        complaint.code = "HTTP " + std::to_string(response.status);
        complaint.message = response.body.substr(0, 500);
    }
    return complaint;
}

class SqsSink final : public relay::Sink {
  public:
    SqsSink(SqsSettings settings, const HttpOptions& options)
        : settings_(std::move(settings)), options_(options), transfers_(options) {}

    relay::SinkTraits traits() const override {
        return {.max_message_bytes = settings_.max_message_bytes,
                .preferred_batch = max_entries * options_.max_concurrent};
    }
    void check() override;
    void send(std::span<const Message> messages) override;
    void collect(std::vector<Delivery>& deliveries, milliseconds patience) override;

  private:
    std::string queue_for(const std::string& destination) const;
    HttpRequest request(const std::string& action, std::string body) const;
    void start_waiting();
    void take(const HttpResponse& response);
    void take_results(const std::vector<SqsEntry>& group, const json& answer);
    void report(const SqsEntry& entry, Verdict verdict, const std::string& words,
                std::optional<milliseconds> retry_after = {}) {
        done_.push_back({entry.ticket, verdict, words, retry_after});
    }

    SqsSettings settings_;
    HttpOptions options_;
    HttpTransfers transfers_;
    std::deque<SqsEntry> waiting_;
    std::unordered_map<std::uint64_t, std::vector<SqsEntry>> flying_;
    std::uint64_t next_request_ = 1;
    std::vector<Delivery> done_;
};

// Return the queue's URL; empty when it lies on another host, which our signature is not for, or cannot be
// made.
std::string SqsSink::queue_for(const std::string& destination) const {
    const std::string& queue = destination.empty() ? settings_.queue : destination;
    if (is_http(queue)) return endpoint_of(queue) == settings_.endpoint ? queue : std::string();
    if (queue.empty() || settings_.account.empty()) return {};
    return settings_.endpoint + "/" + settings_.account + "/" + queue;
}

HttpRequest SqsSink::request(const std::string& action, std::string body) const {
    HttpRequest made;
    made.url = settings_.endpoint + "/";
    made.headers = {"content-type: application/x-amz-json-1.0", "x-amz-target: AmazonSQS." + action};
    if (!settings_.session_token.empty())
        made.headers.push_back("x-amz-security-token: " + settings_.session_token);
    made.own_body = std::move(body);
    return made;
}

void SqsSink::check() {
    // Queues made from events are not known before there is one.
    const std::string queue = queue_for({});
    if (queue.empty()) {
        transfers_.ask_head(settings_.endpoint + "/");
        return;
    }
    HttpTransfers trial(options_);
    trial.start(
        request("GetQueueAttributes", json{{"QueueUrl", queue}, {"AttributeNames", {"QueueArn"}}}.dump()));
    std::vector<HttpResponse> responses;
    trial.collect(responses, options_.timeout + milliseconds(1000));
    if (responses.empty() || responses.front().status == 0)
        throw ConnectionError("sqs gave no answer: " +
                              (responses.empty() ? "timed out" : responses.front().error));
    // A producer may lack the right to look; that alone does not keep it from sending.
    const Complaint complaint = read_complaint(responses.front());
    if (responses.front().status != 200 && !complaint.is({"AccessDenied"}))
        throw UsageError("sqs refused the queue: " + complaint.words(), "check queue, region and keys");
}

void SqsSink::send(std::span<const Message> messages) {
    for (const auto& message : messages) {
        const std::string queue = queue_for(message.destination);
        SqsEntry entry;
        entry.ticket = message.ticket;
        if (queue.empty()) {
            report(entry, Verdict::rejected,
                   "\"" + message.destination + "\" is no queue on " + settings_.endpoint);
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
        HttpRequest made = request("SendMessageBatch", body + "]}");
        made.id = next_request_++;
        flying_.emplace(made.id, std::move(group));
        transfers_.start(std::move(made));
    }
}

// Judge an answer to a whole request.
void SqsSink::take(const HttpResponse& response) {
    const auto found = flying_.find(response.id);
    std::vector<SqsEntry> group = std::move(found->second);
    flying_.erase(found);
    if (response.status == 0) {
        const auto verdict = response.hopeless ? Verdict::rejected : Verdict::retry;
        for (const auto& entry : group) report(entry, verdict, response.error);
        return;
    }
    if (response.status == 200) {
        take_results(group, json::parse(response.body, nullptr, false));
        return;
    }
    const Complaint complaint = read_complaint(response);
    const bool passes =
        response.status >= 500 || response.status == 408 || response.status == 429 || complaint.passes();
    if (passes || group.size() == 1 || complaint.concerns_queue()) {
        for (const auto& entry : group)
            report(entry, passes ? Verdict::retry : Verdict::rejected, complaint.words(),
                   passes ? response.retry_after : std::nullopt);
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
            const std::size_t place = std::strtoul(result.value("Id", "999").c_str(), nullptr, 10);
            if (place < group.size()) fates[place] = judge(result, group[place].ticket);
        }
    };
    each("Successful", [](const json&, std::uint64_t ticket) {
        return Delivery{ticket, Verdict::delivered, {}, {}};
    });
    each("Failed", [](const json& result, std::uint64_t ticket) {
        const Complaint complaint{result.value("Code", ""), result.value("Message", "")};
        const bool rejected = result.value("SenderFault", false) && !complaint.passes();
        return Delivery{ticket, rejected ? Verdict::rejected : Verdict::retry, complaint.words(), {}};
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
        std::vector<HttpResponse> responses;
        transfers_.collect(responses, done_.empty() ? std::max(left, milliseconds(0)) : milliseconds(0));
        for (const auto& response : responses) take(response);
        start_waiting();
        if (!done_.empty() || transfers_.idle() || left.count() <= 0) break;
    }
    std::move(done_.begin(), done_.end(), std::back_inserter(deliveries));
    done_.clear();
}

}  // namespace

std::unique_ptr<relay::Sink> make_sqs(const relay::Settings& settings) {
    const std::string region = read_region(settings);
    SqsSettings read = read_settings(settings, region);
    const HttpOptions options = read_options(settings, region);
    return std::make_unique<SqsSink>(std::move(read), options);
}

}  // namespace baton::sinks
