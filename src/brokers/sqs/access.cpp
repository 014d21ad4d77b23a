#include "brokers/sqs/access.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "baton/error.hpp"
#include "wire/json_answer.hpp"

namespace baton::brokers {

using nlohmann::json;
using std::chrono::milliseconds;

namespace {

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
    if (region.empty()) region = process_environment("AWS_REGION");
    if (region.empty()) region = process_environment("AWS_DEFAULT_REGION");
    if (region.empty()) settings.refuse("region", "is missing", "set region or AWS_REGION");
    return region;
}

}  // namespace

bool SqsComplaint::is(std::initializer_list<std::string_view> parts) const {
    return std::any_of(parts.begin(), parts.end(),
                       [this](auto part) { return code.find(part) != std::string::npos; });
}

bool SqsComplaint::passes() const {
    return is({"Throttl", "OverLimit", "InternalError", "InternalFailure", "ServiceUnavailable"});
}

bool SqsComplaint::concerns_login() const {
    return is({"Expired", "InvalidClientTokenId", "UnrecognizedClient", "SignatureDoesNotMatch",
               "InvalidSignature", "MissingAuthenticationToken", "IncompleteSignature", "InvalidAccessKeyId",
               "OptInRequired"});
}

bool SqsComplaint::concerns_queue() const {
    return is({"QueueDoesNotExist", "NonExistentQueue", "QueueDeleted", "AccessDenied", "InvalidAddress",
               "KmsAccessDenied", "KmsDisabled", "KmsNotFound", "KmsInvalidState"});
}

std::optional<std::size_t> entry_of(const json& result, std::size_t entries) {
    const std::string id = wire::text_member(result, "Id");
    std::size_t place = 0;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), place);
    if (error != std::errc{} || end != id.data() + id.size() || place >= entries) return std::nullopt;
    return place;
}

SqsComplaint SqsComplaint::read(const wire::HttpResponse& response) {
    SqsComplaint complaint;
    const json body = json::parse(response.body, nullptr, false);
    if (body.is_object()) {
        complaint.code = wire::text_member(body, "__type");
        complaint.code.erase(0, complaint.code.find('#') + 1);
        complaint.message = wire::text_member(body, body.contains("message") ? "message" : "Message");
    }
    if (complaint.code.empty()) {
        complaint.code = "HTTP " + std::to_string(response.status);
        complaint.message = response.body.substr(0, 500);
    }
    return complaint;
}

SqsAccess::SqsAccess(const relay::Settings& settings, std::int64_t default_concurrency)
    : options_(wire::read_http_options(settings, default_concurrency)) {
    const std::string region = read_region(settings);
    account_ = settings.text("account", "");
    const std::string queue = settings.text("queue");
    if (is_http(queue)) {
        endpoint_ = endpoint_of(queue);
        if (endpoint_.find('{') != std::string::npos)
            settings.refuse("queue", "must name its host", "events may fill in the queue's name only");
    } else {
        endpoint_ = settings.text("endpoint", "https://sqs." + region + ".amazonaws.com");
        if (!is_http(endpoint_) || endpoint_of(endpoint_) != endpoint_)
            settings.refuse("endpoint", "must be http:// or https:// and a host, without a path");
        if (account_.empty())
            settings.refuse("account", "is missing", "a queue's name needs it, a queue's URL does not");
    }
    credentials_ = std::make_shared<AwsCredentials>(settings, region);
    options_.sigv4 = "aws:amz:" + region + ":sqs";
}

std::string SqsAccess::queue_url(const std::string& queue) const {
    if (is_http(queue)) return endpoint_of(queue) == endpoint_ ? queue : std::string();
    if (queue.empty() || account_.empty()) return {};
    return endpoint_ + "/" + account_ + "/" + queue;
}

wire::HttpRequest SqsAccess::request(const std::string& action, std::string body) const {
    wire::HttpRequest made;
    made.url = endpoint_ + "/";
    made.headers = {"content-type: application/x-amz-json-1.0", "x-amz-target: AmazonSQS." + action};
    made.keys = credentials_->keys();
    made.own_body = std::move(body);
    return made;
}

void SqsAccess::check_queue(const std::string& url) const {
    wire::HttpTransfers trial(options_);
    trial.start(
        request("GetQueueAttributes", json{{"QueueUrl", url}, {"AttributeNames", {"QueueArn"}}}.dump()));
    std::vector<wire::HttpResponse> responses;
    trial.collect(responses, options_.timeout + milliseconds(1000));
    if (responses.empty() || responses.front().status == 0)
        throw ConnectionError("sqs gave no answer: " +
                              (responses.empty() ? "timed out" : responses.front().error));
    // Who may send or receive may lack the right to look; that alone hinders nothing.
    const auto complaint = SqsComplaint::read(responses.front());
    if (responses.front().status != 200 && !complaint.is({"AccessDenied"}))
        throw UsageError("sqs refused the queue: " + complaint.words(), "check queue, region and keys");
}

}  // namespace baton::brokers
