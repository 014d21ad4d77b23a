#include "brokers/neo4j/tests/server.hpp"

#include "base/file.hpp"
#include "brokers/neo4j/access.hpp"
#include "support/jars.hpp"
#include "wire/access_refused.hpp"

namespace fs = std::filesystem;

namespace baton::test {

namespace {

constexpr const char* neo4j_version = "5.26.30";
constexpr const char* password = "auditor-secret";

relay::Settings settings_for(const std::string& url, const char* user, const char* secret) {
    relay::Settings settings("auditor");
    settings.set("url", url);
    settings.set("username", user);
    settings.set("password", secret);
    settings.set("timeout", "60s");
    return settings;
}

}  // namespace

Neo4jServer::Neo4jServer()
    : Broker("neo4j"),
      jars_(fetch_jars("neo4j-" + std::string(neo4j_version),
                       {"org.neo4j:neo4j:" + std::string(neo4j_version)})) {}

void Neo4jServer::choose_ports() {
    port_ = find_free_port();
    bolt_port_ = find_free_port();
}

relay::Settings Neo4jServer::straight() const {
    return settings_for(url(), "neo4j", password);
}

// The Query API is a client of Bolt, inside of the server.
Command Neo4jServer::command() {
    for (const char* name : {"conf", "data", "logs", "run", "plugins"})
        fs::create_directories(folder() / name);
    const auto at = [](int number) { return "127.0.0.1:" + std::to_string(number) + "\n"; };
    write_text(folder() / "conf/neo4j.conf",
               "server.http.listen_address=" + at(port()) + "server.bolt.listen_address=" + at(bolt_port_) +
                   "server.https.enabled=false\ndbms.usage_report.enabled=false\n"
                   "server.memory.pagecache.size=16m\ndb.tx_log.preallocate=false\n"
                   "db.tx_log.rotation.size=4m\ndbms.security.auth_minimum_password_length=1\n");
    Command how;
    how.argv = {"java",
                "-Xms128m",
                "-Xmx384m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "--add-opens=java.base/java.nio=ALL-UNNAMED",
                "--add-opens=java.base/java.io=ALL-UNNAMED",
                "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
                "-cp",
                (jars_ / "*").string(),
                "org.neo4j.server.CommunityEntryPoint",
                "--home-dir=" + folder().string(),
                "--config-dir=" + (folder() / "conf").string()};
    how.working_directory = folder();
    return how;
}

// A new server wants another password for its only user before it does anything. A question to a server that
// is not ready may never be answered: each has little time.
bool Neo4jServer::ready() {
    if (!accepts_connections(port())) return false;
    const auto ask = [this](const char* database, const char* secret, const char* statement) {
        auto settings = settings_for(url(), "neo4j", secret);
        settings.set("database", database);
        settings.set("timeout", "10s");
        brokers::Neo4jAccess(settings).ask(statement, {{"password", password}});
    };
    try {
        ask("neo4j", password, "RETURN 1");
        return true;
    } catch (const wire::AccessRefused&) {
        try {
            ask("system", "neo4j", "ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $password");
        } catch (const Error&) {  // it is asked again
        }
    } catch (const Error&) {
    }
    return false;
}

void Neo4jServer::admit(const std::string& user, const std::string& secret) const {
    auto settings = straight();
    settings.set("database", "system");
    brokers::Neo4jAccess(settings).ask(
        "CREATE OR REPLACE USER $user SET PASSWORD $secret CHANGE NOT REQUIRED",
        {{"user", user}, {"secret", secret}});
}

}  // namespace baton::test
