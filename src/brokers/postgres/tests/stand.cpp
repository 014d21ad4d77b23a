#include "chaos/stand_parts.hpp"
#include "support/cluster.hpp"

namespace baton::test {

using audit::Fault;

namespace {

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

}  // namespace

void add_postgres_stands(StandMakers& makers) {
    makers["postgres"] = make<PostgresStand>;
}

}  // namespace baton::test
