#pragma once
// Two PostgreSQL servers that Patroni keeps, one of them the primary, with an etcd of their own. Everything
// listens on free ports of loopback, lives in a folder below the temporary directory and dies with the test.
//
// With `synchronous` a commit is answered when the standby has it on disk; without, a primary that dies takes
// its last commits with it.

#include <memory>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "support/folder.hpp"

namespace baton::test {

class PatroniCluster {
  public:
    // Returns when there is a primary with a standby. Throws Unavailable where Patroni or etcd is not
    // installed.
    explicit PatroniCluster(bool synchronous);
    ~PatroniCluster();

    // Whichever server is the primary, as superuser.
    std::string url(const std::string& database = "postgres") const;
    // Kill the primary and its Patroni, wait until the standby is promoted, and let the old one come back.
    void fail_over();

  private:
    struct Node {
        std::string name;
        int port = 0;
        int api_port = 0;
        std::unique_ptr<Process> patroni;
    };

    void start_etcd();
    void start(Node& node);
    void write_configuration(const Node& node) const;
    std::string one(const Node& node) const;
    Node* primary();
    void wait_for_standby();
    std::string log_of(const Node& node) const;

    bool synchronous_;
    std::optional<Account> account_;
    Folder folder_;
    int etcd_port_ = 0;
    std::unique_ptr<Process> etcd_;
    std::vector<Node> nodes_;
};

}  // namespace baton::test
