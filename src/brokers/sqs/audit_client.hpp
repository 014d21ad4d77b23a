#pragma once
// Queues of SQS, made and emptied.

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "brokers/received.hpp"
#include "brokers/sqs/credentials.hpp"

namespace baton::brokers {

class SqsClient {
  public:
    // By endpoint, region and the keys, as the sink finds them.
    explicit SqsClient(const relay::Settings& settings);
    // Without a signature, for servers that do not ask who we are.
    explicit SqsClient(int port) : endpoint_("http://127.0.0.1:" + std::to_string(port)) {}

    // Run one action. Throws Error in the server's words.
    nlohmann::json ask(const std::string& action, const nlohmann::json& request) const;
    // Returns its URL. A name that ends with .fifo makes a FIFO queue.
    std::string create_queue(const std::string& name) const;
    void delete_queue(const std::string& url) const;
    // Take away what is there, each message once, and append it.
    void drain(const std::string& url, std::vector<Received>& into);
    // Whether the queue hides messages that were given out and not deleted: an answer was lost on its way to
    // us.
    bool holds_back(const std::string& url) const;

  private:
    std::string endpoint_, sigv4_;
    std::shared_ptr<AwsCredentials> credentials_;
    std::set<std::string> taken_;  // the queue's own ids: it may hand out a message twice
};

}  // namespace baton::brokers
