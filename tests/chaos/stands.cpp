#include "chaos/stands.hpp"

#include <functional>
#include <map>
#include <optional>
#include <thread>

#include "chaos/stand_parts.hpp"
#include "support/broker.hpp"
#include "support/cluster.hpp"
#include "support/small_disk.hpp"

namespace baton::test {

using namespace std::chrono_literals;
using audit::Fault;
using audit::Relays;

namespace {

constexpr int disk_megabytes = 64;

// A file on a small file system, where one can be mounted.
class FileStand final : public Stand {
  public:
    FileStand() {
        try {
            disk_.emplace(disk_megabytes);
        } catch (const Unavailable& unavailable) {
            announce_skip(unavailable.what());
        }
    }
    Values sink() override { return {{"type", "file"}}; }
    Values reader() override {
        if (!disk_) return {};
        return {{"folder", disk_->path().string()}};
    }
    bool has_server() const override { return false; }
    std::vector<Fault> own_faults(Way) override {
        if (!disk_) return {};
        return {{"the disk full for 4 s", [this](Relays&) {
                     disk_->fill();
                     std::this_thread::sleep_for(4s);
                     disk_->relieve();
                 }}};
    }

  private:
    std::optional<SmallDisk> disk_;
};

// The server is the auditor's own; from outside only the way to it can be broken.
class HttpStand final : public Stand {
  public:
    HttpStand() : port_(find_free_port()) { proxy_.set_target(port_); }
    Values sink() override {
        return {{"type", "http"},
                {"url", "http://" + at(proxy_.port())},
                {"headers.authorization", "Bearer " + secret_.reference()},
                {"max_concurrent", std::int64_t{4}},
                {"connect_timeout", "1s"},
                {"timeout", "2s"}};
    }
    Values reader() override {
        return {{"port", std::int64_t{port_}}, {"authorization", "Bearer " + at_receiver_.reference()}};
    }
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
    // On the way in the secret is shared with the auditor's own publisher.
    std::vector<Fault> own_faults(Way way) override {
        if (way == Way::in) return {};
        return {secret_.exchange([this](const std::string& value) { at_receiver_.exchange(value); })};
    }

  private:
    static constexpr const char* secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    int port_;
    Proxy proxy_;
    Secret secret_;
    SecretFile at_receiver_{secret_.value()};
};

class PostgresStand final : public Stand {
  public:
    PostgresStand() : cluster_(Form::plain), database_(cluster_.fresh_database()) {
        proxy_.set_target(cluster_.server().port());
        admin("create role auditor login superuser password 'a'");
        admin("create role relay login superuser password '" + secret_.value() + "'");
    }
    Values sink() override {
        return {{"type", "postgres"},
                {"url", url(proxy_.port(), "relay", secret_.reference())},
                {"timeout", "2s"}};
    }
    Values reader() override { return {{"url", home()}}; }
    std::string home() override { return url(cluster_.server().port(), "auditor", "a"); }
    void kill_server() override { cluster_.server().kill_hard(); }
    void start_server() override { cluster_.server().start(); }
    Proxy* proxy() override { return &proxy_; }
    std::vector<Fault> own_faults(Way) override {
        return {secret_.exchange([this](const std::string& value) {
            admin("alter role relay password '" + value + "'");
            admin("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'relay'");
        })};
    }

  private:
    void admin(const std::string& sql) { Connection(cluster_.server().url()).exec(sql); }
    std::string url(int port, const std::string& role, const std::string& password) const {
        return "host=127.0.0.1 port=" + std::to_string(port) + " user=" + role + " password=" + password +
               " " + database_.substr(database_.find("dbname="));
    }
    Cluster cluster_;
    std::string database_;
    Proxy proxy_;
    Secret secret_;
};

template <class Kind>
std::unique_ptr<Stand> make() {
    return std::make_unique<Kind>();
}

const std::map<std::string, std::function<std::unique_ptr<Stand>()>>& makers() {
    static const std::map<std::string, std::function<std::unique_ptr<Stand>()>> all{
        {"file", make<FileStand>},   {"http", make<HttpStand>},         {"kafka", make_kafka_stand},
        {"nats", make_nats_stand},   {"postgres", make<PostgresStand>}, {"rabbitmq", make_rabbitmq_stand},
        {"redis", make_redis_stand}, {"sqs", make_sqs_stand},           {"sqs-fifo", make_sqs_fifo_stand}};
    return all;
}

// What can be done to the way to the broker.
void add_faults_of(Proxy& proxy, std::vector<Fault>& faults) {
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

std::vector<Fault> broker_faults(Stand& stand, Way way) {
    std::vector<Fault> faults;
    if (stand.has_server())
        faults.push_back({"broker killed and restarted", [&stand](Relays&) {
                              stand.kill_server();
                              std::this_thread::sleep_for(500ms);
                              stand.start_server();
                          }});
    if (stand.proxy() != nullptr) add_faults_of(*stand.proxy(), faults);
    for (auto& fault : stand.own_faults(way)) faults.push_back(std::move(fault));
    return faults;
}

}  // namespace baton::test
