#pragma once
// Makes and empties queues of SQS.

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "brokers/received.hpp"
#include "brokers/sqs/credentials.hpp"

namespace baton::brokers {

class SqsClient {
  public:
    // Uses endpoint, region and keys as the sink does.
    explicit SqsClient(const relay::Settings& settings);
    // Without a signature, for servers that do not ask who we are.
    explicit SqsClient(int port) : endpoint_("http://127.0.0.1:" + std::to_string(port)) {}

    // Run one action. Throws Error in the server's words.
    nlohmann::json ask(const std::string& action, const nlohmann::json& request) const;
    // Returns the URL of the queue. A name that ends with .fifo makes a FIFO queue.
    std::string create_queue(const std::string& name) const;
    void delete_queue(const std::string& url) const;
    // Take all messages out of the queue and append each of them once.
    void drain(const std::string& url, std::vector<Received>& into);
    // True when the queue hides messages that were given out and not deleted: an answer was lost on its way
    // to us.
    bool holds_back(const std::string& url) const;

  private:
    std::string endpoint_, sigv4_;
    std::shared_ptr<AwsCredentials> credentials_;
    std::set<std::string> taken_;  // the queue's own ids: a queue may give a message twice
};

}  // namespace baton::brokers
