#pragma once
// The audited database, which its relays reach through a proxy, and what can be done to both.

#include <memory>
#include <string>
#include <vector>

#include "audit/auditor.hpp"
#include "support/cluster.hpp"
#include "support/proxy.hpp"

namespace baton::test {

class Database {
  public:
    explicit Database(std::vector<std::string> settings = {});

    Cluster& cluster() { return *cluster_; }
    Proxy& proxy() { return proxy_; }
    // The straight way to it, and the one through the proxy.
    const std::string& url() const { return url_; }
    std::string proxied_url() const;

    // Go on with a server that has the database under the same name; the old one is gone. Who comes through
    // the proxy comes to the new one.
    void move_to(Cluster cluster);
    // The database's name on its server.
    std::string name() const { return url_.substr(url_.find("dbname=") + 7); }
    // Let those who come through the proxy into a server.
    static void let_in(Cluster& cluster);

  private:
    std::unique_ptr<Cluster> cluster_;
    std::string url_;
    Proxy proxy_;
};

// The server killed and stopped, the way to it cut, half-open and frozen, the server itself paused: the last
// three for longer than the relays' lease.
std::vector<audit::Fault> database_faults(Database& database, std::chrono::milliseconds lease);

}  // namespace baton::test
