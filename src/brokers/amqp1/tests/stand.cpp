#include "brokers/amqp1/tests/server.hpp"
#include "chaos/stand_parts.hpp"

namespace baton::test {

using audit::Fault;

namespace {

class Amqp1Stand final : public BrokerStand<ArtemisServer> {
  public:
    Amqp1Stand() {
        server_.users = {{"relay", secret_.value()}};
        begin();
    }
    Values sink() override {
        return {{"type", "amqp1"},     {"url", "amqp://" + at(proxy_.port())},
                {"username", "relay"}, {"password", secret_.reference()},
                {"ack_timeout", "2s"}, {"connect_timeout", "2s"}};
    }
    Values reader() override {
        return {{"url", server_.url()}, {"username", "auditor"}, {"password", "auditor"}};
    }
    Values source() override {
        Values values = sink();
        values["keep_alive"] = "3s";
        return values;
    }
    std::vector<Fault> own_faults(Way) override {
        return {secret_.exchange([this](const std::string& value) {
            server_.users = {{"relay", value}};
            kill_server();
            start_server();
        })};
    }
};

}  // namespace

void add_amqp1_stands(StandMakers& makers) {
    makers["amqp1"] = make<Amqp1Stand>;
}

}  // namespace baton::test
