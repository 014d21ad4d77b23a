#include "brokers/sqs/audit_client.hpp"

#include <curl/curl.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "baton/error.hpp"
#include "wire/encoding.hpp"

namespace baton::brokers {

using nlohmann::json;

namespace {

Received received(const json& message) {
    Received got;
    got.body = message.at("Body");
    std::map<std::string, std::string> attributes;
    for (const auto& [name, value] : message.at("MessageAttributes").items())
        attributes[name] = value.at("StringValue");
    got.id = attributes["message_id"];
    got.key = attributes["partition_key"];
    if (attributes["body_encoding"] == "base64") got.body = wire::base64_decode(got.body).value();
    if (attributes["body_encoding"] == "empty") got.body.clear();
    const json rest = attributes.contains("headers") ? json::parse(attributes["headers"]) : json::object();
    for (const auto& [name, value] : rest.items()) attributes[name] = value;
    got.headers = std::move(attributes);
    return got;
}

std::size_t append(char* bytes, std::size_t, std::size_t size, std::string* into) {
    into->append(bytes, size);
    return size;
}

}  // namespace

SqsClient::SqsClient(const relay::Settings& settings) {
    const std::string region = settings.text("region", process_environment("AWS_REGION"));
    endpoint_ = settings.text("endpoint", "https://sqs." + region + ".amazonaws.com");
    sigv4_ = "aws:amz:" + region + ":sqs";
    credentials_ = std::make_shared<AwsCredentials>(settings, region);
}

json SqsClient::ask(const std::string& action, const json& request) const {
    const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy(curl_easy_init(), curl_easy_cleanup);
    const std::string url = endpoint_ + "/";
    const std::string body = request.dump();
    std::string answer;
    curl_slist* headers = curl_slist_append(nullptr, "content-type: application/x-amz-json-1.0");
    headers = curl_slist_append(headers, ("x-amz-target: AmazonSQS." + action).c_str());
    const auto keys = credentials_ ? credentials_->keys() : nullptr;
    if (keys && !keys->session_token.empty())
        headers = curl_slist_append(headers, ("x-amz-security-token: " + keys->session_token).c_str());
    curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT_MS, 30'000L);
    if (endpoint_.starts_with("http://")) curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
    curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy.get(), CURLOPT_COPYPOSTFIELDS, body.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &answer);
    curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, append);
    if (keys) {
        curl_easy_setopt(easy.get(), CURLOPT_AWS_SIGV4, sigv4_.c_str());
        curl_easy_setopt(easy.get(), CURLOPT_USERNAME, keys->access_key.c_str());
        curl_easy_setopt(easy.get(), CURLOPT_PASSWORD, keys->secret_key.c_str());
    }
    const CURLcode result = curl_easy_perform(easy.get());
    curl_slist_free_all(headers);
    long status = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    if (result != CURLE_OK || status != 200)
        throw Error("sqs: " + action +
                    " failed: " + (result == CURLE_OK ? answer : curl_easy_strerror(result)));
    return answer.empty() ? json::object() : json::parse(answer);
}

std::string SqsClient::create_queue(const std::string& name) const {
    json request{{"QueueName", name}};
    if (name.ends_with(".fifo")) request["Attributes"] = {{"FifoQueue", "true"}};
    return ask("CreateQueue", request).value("QueueUrl", "");
}

void SqsClient::delete_queue(const std::string& url) const {
    ask("DeleteQueue", {{"QueueUrl", url}});
}

void SqsClient::drain(const std::string& url, std::vector<Received>& into) {
    for (;;) {
        const json answer = ask("ReceiveMessage", {{"QueueUrl", url},
                                                   {"MaxNumberOfMessages", 10},
                                                   {"MessageAttributeNames", {"All"}},
                                                   {"WaitTimeSeconds", 0}});
        if (!answer.contains("Messages") || answer["Messages"].empty()) return;
        json entries = json::array();
        for (const auto& message : answer["Messages"]) {
            if (taken_.insert(message.at("MessageId")).second) into.push_back(received(message));
            entries.push_back(
                {{"Id", std::to_string(entries.size())}, {"ReceiptHandle", message.at("ReceiptHandle")}});
        }
        ask("DeleteMessageBatch", {{"QueueUrl", url}, {"Entries", entries}});
    }
}

bool SqsClient::holds_back(const std::string& url) const {
    const char* hidden = "ApproximateNumberOfMessagesNotVisible";
    const json answer = ask("GetQueueAttributes", {{"QueueUrl", url}, {"AttributeNames", {hidden}}});
    return answer.at("Attributes").value(hidden, "0") != "0";
}

}  // namespace baton::brokers
