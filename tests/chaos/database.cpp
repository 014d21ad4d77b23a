#include "chaos/database.hpp"

#include <thread>

namespace baton::test {

using namespace std::chrono_literals;
using audit::Fault;
using audit::Relays;

Database::Database(std::vector<std::string> settings)
    : cluster_(std::make_unique<Cluster>(Cluster::Options{Form::extension, true, std::move(settings)})),
      url_(cluster_->fresh_database()),
      proxy_(cluster_->server().port()) {
    let_in(*cluster_);
}

void Database::let_in(Cluster& cluster) {
    Connection(cluster.server().url())
        .exec(
            "do $$ begin create role chaos login superuser password 'c'; exception when duplicate_object "
            "then "
            "null; end $$");
}

std::string Database::proxied_url() const {
    return "host=127.0.0.1 port=" + std::to_string(proxy_.port()) +
           " user=chaos password=c sslmode=disable dbname=" + name();
}

void Database::move_to(Cluster cluster) {
    cluster_ = std::make_unique<Cluster>(std::move(cluster));
    url_ = cluster_->server().url(name());
    proxy_.set_target(cluster_->server().port());
    proxy_.cut();
}

std::vector<Fault> database_faults(Database& database, std::chrono::milliseconds lease) {
    const auto silence = lease + 1s;
    return {{"PostgreSQL stopped at once and restarted",
             [&database](Relays&) {
                 database.cluster().server().stop(local_server::LocalServer::Stop::immediate);
                 database.cluster().server().start();
             }},
            {"PostgreSQL killed and restarted",
             [&database](Relays&) {
                 database.cluster().server().kill_hard();
                 database.cluster().server().start();
             }},
            {"connections to PostgreSQL cut", [&database](Relays&) { database.proxy().cut(); }},
            {"PostgreSQL half-open longer than the lease",
             [&database, silence](Relays&) {
                 database.proxy().swallow(Proxy::Swallow::everything);
                 std::this_thread::sleep_for(silence);
                 database.proxy().heal();
             }},
            {"the way to PostgreSQL frozen longer than the lease",
             [&database, silence](Relays&) {
                 database.proxy().freeze();
                 std::this_thread::sleep_for(silence);
                 database.proxy().thaw();
             }},
            {"PostgreSQL paused longer than the lease", [&database, silence](Relays&) {
                 database.cluster().pause();
                 std::this_thread::sleep_for(silence);
                 database.cluster().resume();
             }}};
}

}  // namespace baton::test
