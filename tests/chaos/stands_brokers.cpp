#include "brokers/redis/audit_client.hpp"
#include "chaos/stand_parts.hpp"
#include "support/broker.hpp"
#include "support/elasticmq.hpp"
#include "support/kafka_admin.hpp"

namespace baton::test {

using namespace std::chrono_literals;
using audit::Fault;
using audit::Relays;

namespace {

// A broker behind a proxy, to which the relay comes with a secret.
template <class Server>
class BrokerStand : public Stand {
  public:
    void kill_server() override { server_.kill_hard(); }
    void start_server() override { server_.start(); }
    Proxy* proxy() override { return &proxy_; }

  protected:
    void begin() {
        server_.start();
        proxy_.set_target(server_.port());
    }
    Proxy proxy_;
    Server server_;
    Secret secret_;
};

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

class RedisStand final : public BrokerStand<RedisServer> {
  public:
    RedisStand() {
        admit(secret_.value());
        begin();
    }
    Values sink() override {
        return {{"type", "redis"},         {"url", "redis://" + at(proxy_.port())},
                {"username", "relay"},     {"password", secret_.reference()},
                {"connect_timeout", "1s"}, {"response_timeout", "2s"}};
    }
    Values reader() override { return {{"url", auditor()}, {"username", "auditor"}, {"password", "a"}}; }
    Values source() override {
        return {{"type", "redis"},         {"url", "redis://" + at(proxy_.port())},
                {"username", "relay"},     {"password", secret_.reference()},
                {"claim_idle", "2s"},      {"connect_timeout", "2s"},
                {"response_timeout", "1s"}};
    }
    std::vector<Fault> own_faults(Way) override {
        return {secret_.exchange([this](const std::string& value) {
            admit(value);
            brokers::RedisClient client(auditor());
            client.run({"ACL", "SETUSER", "relay", "resetpass", ">" + value});
            client.ask({"CLIENT", "KILL", "USER", "relay"});
        })};
    }

  private:
    std::string auditor() const { return "redis://auditor:a@" + at(server_.port()); }
    // At the next start.
    void admit(const std::string& password) {
        server_.options = {"--user", "relay",   "on", ">" + password, "~*", "&*", "+@all",
                           "--user", "auditor", "on", ">a",           "~*", "&*", "+@all"};
    }
};

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

template <bool fifo>
class SqsStand final : public BrokerStand<ElasticServer> {
  public:
    SqsStand() { begin(); }
    Values sink() override {
        return {{"type", "sqs"},
                {"queue", fifo ? "any.fifo" : "any"},
                {"endpoint", "http://" + at(proxy_.port())},
                {"region", "elasticmq"},
                {"access_key", "key"},
                {"secret_key", "secret"},
                {"connect_timeout", "1s"},
                {"timeout", "3s"}};
    }
    Values reader() override { return {{"endpoint", "http://" + at(server_.port())}}; }
    double rate() const override { return 100; }
    Values source() override {
        Values values = sink();
        values["visibility"] = "5s";
        return values;
    }
};

}  // namespace

std::unique_ptr<Stand> make_kafka_stand() {
    return std::make_unique<KafkaStand>();
}
std::unique_ptr<Stand> make_nats_stand() {
    return std::make_unique<NatsStand>();
}
std::unique_ptr<Stand> make_rabbitmq_stand() {
    return std::make_unique<RabbitStand>();
}
std::unique_ptr<Stand> make_redis_stand() {
    return std::make_unique<RedisStand>();
}
std::unique_ptr<Stand> make_sqs_stand() {
    return std::make_unique<SqsStand<false>>();
}
std::unique_ptr<Stand> make_sqs_fifo_stand() {
    return std::make_unique<SqsStand<true>>();
}

}  // namespace baton::test
