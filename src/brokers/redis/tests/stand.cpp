#include "brokers/redis/audit_client.hpp"
#include "brokers/redis/tests/server.hpp"
#include "chaos/stand_parts.hpp"

namespace baton::test {

using audit::Fault;

namespace {

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

}  // namespace

void add_redis_stands(StandMakers& makers) {
    makers["redis"] = make<RedisStand>;
}

}  // namespace baton::test
