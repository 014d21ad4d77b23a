#include "brokers/nats/tests/server.hpp"
#include "chaos/stand_parts.hpp"

namespace baton::test {

using audit::Fault;

namespace {

class NatsStand final : public BrokerStand<NatsServer> {
  public:
    NatsStand() {
        admit(secret_.value());
        begin();
    }
    Values sink() override {
        return {{"type", "nats"},      {"url", "nats://" + at(proxy_.port())},
                {"username", "relay"}, {"password", secret_.reference()},
                {"ack_timeout", "3s"}, {"connect_timeout", "2s"},
                {"heartbeat", "500ms"}};
    }
    Values reader() override { return {{"url", server_.url()}, {"username", "auditor"}, {"password", "a"}}; }
    Values source() override {
        return {{"type", "nats"},          {"url", "nats://" + at(proxy_.port())},
                {"username", "relay"},     {"password", secret_.reference()},
                {"ack_wait", "3s"},        {"ack_timeout", "2s"},
                {"connect_timeout", "2s"}, {"heartbeat", "500ms"}};
    }
    std::vector<Fault> own_faults(Way) override {
        return {secret_.exchange([this](const std::string& value) {
            admit(value);
            kill_server();
            start_server();
        })};
    }

  private:
    void admit(const std::string& password) {
        server_.settings = {"authorization { users: [ { user: relay, password: \"" + password +
                            "\" }, { user: auditor, password: a } ] }"};
    }
};

}  // namespace

void add_nats_stands(StandMakers& makers) {
    makers["nats"] = make<NatsStand>;
}

}  // namespace baton::test
