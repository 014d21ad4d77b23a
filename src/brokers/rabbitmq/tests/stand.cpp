#include "brokers/rabbitmq/tests/server.hpp"
#include "chaos/stand_parts.hpp"

namespace baton::test {

using audit::Fault;

namespace {

class RabbitStand final : public BrokerStand<RabbitServer> {
  public:
    RabbitStand() {
        begin();
        control({"add_user", "relay", secret_.value()});
        control({"set_permissions", "relay", ".*", ".*", ".*"});
    }
    Values sink() override {
        return {{"type", "rabbitmq"},  {"url", "amqp://" + at(proxy_.port()) + "/"},
                {"username", "relay"}, {"password", secret_.reference()},
                {"heartbeat", "1s"},   {"connect_timeout", "2s"}};
    }
    Values reader() override {
        return {{"url", "amqp://guest:guest@" + at(server_.port()) + "/"},
                {"username", "guest"},
                {"password", "guest"}};
    }
    Values source() override { return sink(); }
    std::vector<Fault> own_faults(Way) override {
        return {secret_.exchange([this](const std::string& value) {
            control({"change_password", "relay", value});
            control({"close_all_user_connections", "relay", "the secret was exchanged"});
        })};
    }

  private:
    void control(const std::vector<std::string>& words) {
        const auto outcome = server_.control(words);
        if (outcome.exit_code != 0) throw Error("rabbitmqctl " + words.front() + ": " + outcome.output);
    }
};

}  // namespace

void add_rabbitmq_stands(StandMakers& makers) {
    makers["rabbitmq"] = make<RabbitStand>;
}

}  // namespace baton::test
