#include "chaos/stands.hpp"

#include <functional>
#include <map>
#include <thread>

#include "support/broker.hpp"
#include "support/cluster.hpp"
#include "support/elasticmq.hpp"

namespace baton::test {

using namespace std::chrono_literals;
using audit::Fault;
using audit::Relays;

namespace {

std::string at(int port) {
    return "127.0.0.1:" + std::to_string(port);
}

class FileStand final : public Stand {
  public:
    Values sink() override { return {{"type", "file"}}; }
    bool has_server() const override { return false; }
};

// A broker behind a proxy.
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
};

class NatsStand final : public BrokerStand<NatsServer> {
  public:
    NatsStand() { begin(); }
    Values sink() override {
        return {{"type", "nats"},
                {"url", "nats://" + at(proxy_.port())},
                {"ack_timeout", "3s"},
                {"connect_timeout", "2s"},
                {"heartbeat", "500ms"}};
    }
    Values reader() override { return {{"url", server_.url()}}; }
    Values source() override {
        return {{"type", "nats"},          {"url", "nats://" + at(proxy_.port())},
                {"ack_wait", "3s"},        {"ack_timeout", "2s"},
                {"connect_timeout", "2s"}, {"heartbeat", "500ms"}};
    }
};

class RedisStand final : public BrokerStand<RedisServer> {
  public:
    RedisStand() { begin(); }
    Values sink() override {
        return {{"type", "redis"},
                {"url", "redis://" + at(proxy_.port())},
                {"connect_timeout", "1s"},
                {"response_timeout", "2s"}};
    }
    Values reader() override { return {{"url", "redis://" + at(server_.port())}}; }
    Values source() override {
        return {{"type", "redis"},
                {"url", "redis://" + at(proxy_.port())},
                {"claim_idle", "2s"},
                {"connect_timeout", "2s"},
                {"response_timeout", "1s"}};
    }
};

class RabbitStand final : public BrokerStand<RabbitServer> {
  public:
    RabbitStand() { begin(); }
    Values sink() override {
        return {{"type", "rabbitmq"},
                {"url", "amqp://guest:guest@" + at(proxy_.port()) + "/"},
                {"heartbeat", "1s"},
                {"connect_timeout", "2s"}};
    }
    Values reader() override { return {{"url", "amqp://guest:guest@" + at(server_.port()) + "/"}}; }
    Values source() override {
        return {{"type", "rabbitmq"},
                {"url", "amqp://guest:guest@" + at(proxy_.port()) + "/"},
                {"heartbeat", "1s"},
                {"connect_timeout", "2s"}};
    }
};

class KafkaStand final : public BrokerStand<KafkaServer> {
  public:
    KafkaStand() {
        server_.advertised_proxy_port = proxy_.port();
        server_.settings = {"group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000"};
        server_.start();
        proxy_.set_target(server_.proxied_port());
    }
    Values sink() override {
        return {{"type", "kafka"},
                {"brokers", at(proxy_.port())},
                {"connect_timeout", "3s"},
                {"properties.socket.timeout.ms", std::int64_t{2500}},
                {"properties.request.timeout.ms", std::int64_t{2000}}};
    }
    Values reader() override {
        return {{"brokers", at(server_.port())}, {"properties.request.timeout.ms", std::int64_t{5000}}};
    }
    Values source() override {
        return {{"type", "kafka"},
                {"brokers", at(proxy_.port())},
                {"connect_timeout", "3s"},
                {"properties.session.timeout.ms", std::int64_t{4000}},
                {"properties.heartbeat.interval.ms", std::int64_t{500}},
                {"properties.socket.timeout.ms", std::int64_t{2000}}};
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

// The server is the auditor's own; from outside only the way to it can be broken.
class HttpStand final : public Stand {
  public:
    HttpStand() : port_(find_free_port()) { proxy_.set_target(port_); }
    Values sink() override {
        return {{"type", "http"},
                {"url", "http://" + at(proxy_.port())},
                {"max_concurrent", std::int64_t{4}},
                {"connect_timeout", "1s"},
                {"timeout", "2s"}};
    }
    Values reader() override { return {{"port", std::int64_t{port_}}}; }
    Values source() override {
        return {{"type", "http"}, {"listen", at(port_)}, {"secret", secret}, {"answer_timeout", "3s"}};
    }
    Values publisher() override {
        return {{"url", "http://" + at(proxy_.port())},
                {"secret", secret},
                {"connect_timeout", "1s"},
                {"timeout", "4s"}};
    }
    bool has_server() const override { return false; }
    Proxy* proxy() override { return &proxy_; }

  private:
    static constexpr const char* secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    int port_;
    Proxy proxy_;
};

class PostgresStand final : public Stand {
  public:
    PostgresStand() : cluster_(Form::plain), database_(cluster_.fresh_database()) {
        proxy_.set_target(cluster_.server().port());
        Connection(cluster_.server().url()).exec("create role audited login superuser password 'a'");
    }
    Values sink() override { return {{"type", "postgres"}, {"url", url(proxy_.port())}, {"timeout", "2s"}}; }
    Values reader() override { return {{"url", url(cluster_.server().port())}}; }
    std::string home() override { return url(cluster_.server().port()); }
    void kill_server() override { cluster_.server().kill_hard(); }
    void start_server() override { cluster_.server().start(); }
    Proxy* proxy() override { return &proxy_; }

  private:
    std::string url(int port) {
        return "host=127.0.0.1 port=" + std::to_string(port) +
               " user=audited password=a dbname=" + Connection(database_).value("select current_database()");
    }
    Cluster cluster_;
    std::string database_;
    Proxy proxy_;
};

template <class Kind>
std::unique_ptr<Stand> make() {
    return std::make_unique<Kind>();
}

const std::map<std::string, std::function<std::unique_ptr<Stand>()>>& makers() {
    static const std::map<std::string, std::function<std::unique_ptr<Stand>()>> all{
        {"file", make<FileStand>},   {"http", make<HttpStand>},         {"kafka", make<KafkaStand>},
        {"nats", make<NatsStand>},   {"postgres", make<PostgresStand>}, {"rabbitmq", make<RabbitStand>},
        {"redis", make<RedisStand>}, {"sqs", make<SqsStand<false>>},    {"sqs-fifo", make<SqsStand<true>>}};
    return all;
}

}  // namespace

const std::vector<std::string>& stand_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const auto& [name, maker] : makers()) all.push_back(name);
        return all;
    }();
    return names;
}

std::unique_ptr<Stand> make_stand(const std::string& name) {
    const auto found = makers().find(name);
    if (found == makers().end()) throw UsageError("there is no stand \"" + name + "\"");
    return found->second();
}

std::vector<Fault> broker_faults(Stand& stand) {
    std::vector<Fault> faults;
    if (stand.has_server())
        faults.push_back({"broker killed and restarted", [&stand](Relays&) {
                              stand.kill_server();
                              std::this_thread::sleep_for(500ms);
                              stand.start_server();
                          }});
    if (stand.proxy() == nullptr) return faults;
    Proxy& proxy = *stand.proxy();
    faults.push_back({"connections to the broker cut", [&proxy](Relays&) { proxy.cut(); }});
    faults.push_back({"broker half-open for 4 s", [&proxy](Relays&) {
                          proxy.swallow(Proxy::Swallow::everything);
                          std::this_thread::sleep_for(4s);
                          proxy.heal();
                      }});
    faults.push_back({"the broker's answers lost for 2 s", [&proxy](Relays&) {
                          proxy.swallow(Proxy::Swallow::answers);
                          std::this_thread::sleep_for(2s);
                          proxy.heal();
                      }});
    return faults;
}

}  // namespace baton::test
