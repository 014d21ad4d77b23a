#pragma once
// ElasticMQ, a server that speaks SQS, from its Maven jars.

#include "support/broker.hpp"

namespace baton::test {

// Throws Unavailable when the jars can be had neither from the cache nor from the network.
class ElasticServer final : public Broker {
  public:
    ElasticServer();
    std::string queue_url(const std::string& name, int port) const;
    std::string queue_url(const std::string& name) const { return queue_url(name, port()); }

  protected:
    Command command() override;
    bool ready() override;

  private:
    std::filesystem::path jars_;
};

// Run one SQS action with a JSON request, unsigned: ElasticMQ does not ask who we are. Throws Error with what
// it said.
std::string ask_sqs(int port, const std::string& action, const std::string& request);

}  // namespace baton::test
