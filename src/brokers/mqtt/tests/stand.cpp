#include "brokers/mqtt/tests/server.hpp"
#include "chaos/stand_parts.hpp"

namespace baton::test {

using audit::Fault;

namespace {

class MqttStand final : public BrokerStand<MosquittoServer> {
  public:
    MqttStand() {
        admit(secret_.value());
        begin();
    }
    Values sink() override {
        return {{"type", "mqtt"},      {"url", "mqtt://" + at(proxy_.port())},
                {"username", "relay"}, {"password", secret_.reference()},
                {"ack_timeout", "2s"}, {"connect_timeout", "2s"}};
    }
    Values reader() override { return {{"url", server_.url()}, {"username", "auditor"}, {"password", "a"}}; }
    Values source() override {
        return {{"type", "mqtt"},      {"url", "mqtt://" + at(proxy_.port())},
                {"username", "relay"}, {"password", secret_.reference()},
                {"standby", "2s"},     {"keep_alive", "2s"},
                {"ack_timeout", "2s"}, {"connect_timeout", "2s"}};
    }
    std::vector<Fault> own_faults(Way) override {
        return {secret_.exchange([this](const std::string& value) {
            admit(value);
            kill_server();
            start_server();
        })};
    }

  private:
    // At the next start.
    void admit(const std::string& password) { server_.users = {{"relay", password}, {"auditor", "a"}}; }
};

}  // namespace

void add_mqtt_stands(StandMakers& makers) {
    makers["mqtt"] = make<MqttStand>;
}

}  // namespace baton::test
