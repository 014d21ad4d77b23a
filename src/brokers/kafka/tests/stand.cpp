#include "brokers/kafka/tests/admin.hpp"
#include "brokers/kafka/tests/server.hpp"
#include "chaos/stand_parts.hpp"

namespace baton::test {

using namespace std::chrono_literals;
using audit::Fault;
using audit::Relays;

namespace {

class KafkaStand final : public BrokerStand<KafkaServer> {
  public:
    KafkaStand() {
        server_.advertised_proxy_port = proxy_.port();
        admit(secret_.value());
        server_.start();
        proxy_.set_target(server_.proxied_port());
    }
    Values sink() override {
        return with_login({{"type", "kafka"},
                           {"brokers", at(proxy_.port())},
                           {"connect_timeout", "3s"},
                           {"properties.socket.timeout.ms", std::int64_t{2500}},
                           {"properties.request.timeout.ms", std::int64_t{2000}}});
    }
    Values reader() override {
        return {{"brokers", at(server_.port())},
                {"properties.security.protocol", "PLAINTEXT"},
                {"properties.request.timeout.ms", std::int64_t{5000}}};
    }
    Values source() override {
        return with_login({{"type", "kafka"},
                           {"brokers", at(proxy_.port())},
                           {"connect_timeout", "3s"},
                           {"properties.session.timeout.ms", std::int64_t{4000}},
                           {"properties.heartbeat.interval.ms", std::int64_t{500}},
                           {"properties.socket.timeout.ms", std::int64_t{2000}}});
    }
    std::vector<Fault> own_faults(Way way) override {
        std::vector<Fault> faults{secret_.exchange([this](const std::string& value) {
            admit(value);
            kill_server();
            start_server();
        })};
        if (way == Way::out)
            faults.push_back({"every produce request refused for good for 2 s", [this](Relays& relays) {
                                  limit_timestamps(relays.group(), "0");
                                  std::this_thread::sleep_for(2s);
                                  limit_timestamps(relays.group(), "");
                              }});
        return faults;
    }

  private:
    // With 0 no timestamp is good enough: an error that the library calls final.
    void limit_timestamps(const std::string& topic, const char* limit) const {
        alter_topic(at(server_.port()), topic, "message.timestamp.difference.max.ms", limit);
    }
    void admit(const std::string& password) {
        server_.settings = KafkaServer::password_settings("SASL_PLAINTEXT", password);
        server_.settings.insert(server_.settings.end(),
                                {"group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000"});
    }
    Values with_login(Values values) const {
        values["properties.security.protocol"] = "SASL_PLAINTEXT";
        values["properties.sasl.mechanism"] = "PLAIN";
        values["properties.sasl.username"] = "relay";
        values["properties.sasl.password"] = secret_.reference();
        return values;
    }
};

}  // namespace

void add_kafka_stands(StandMakers& makers) {
    makers["kafka"] = make<KafkaStand>;
}

}  // namespace baton::test
