#include "support/patroni.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "base/file.hpp"
#include "local_server/server_root.hpp"
#include "support/broker.hpp"
#include "support/cluster.hpp"

namespace fs = std::filesystem;

namespace baton::test {

using namespace std::chrono_literals;

namespace {

constexpr auto patience = 120s;

// What we start dies with us, even when we are killed.
std::vector<std::string> bound_to_us(std::vector<std::string> words) {
    words.insert(words.begin(), {"setpriv", "--pdeathsig", "KILL"});
    return words;
}

}  // namespace

PatroniCluster::PatroniCluster(bool synchronous) : synchronous_(synchronous) {
    for (const char* program : {"/usr/bin/patroni", "/usr/bin/etcd"})
        if (!fs::exists(program))
            throw Unavailable(std::string(program) + " is not installed", "install patroni and etcd-server");
    if (::geteuid() == 0) {
        account_ = find_account("postgres");
        if (::chown(folder_.path().c_str(), account_->uid, account_->gid) != 0)
            throw Error("cannot give " + folder_.path().string() + " to postgres");
    }
    const local_server::ServerRoot root(folder_ / "root", account_);
    root.refresh();
    root.add_extension(build_folder() / "share/baton", build_folder() / "lib/baton.so");
    {
        const ActingAs account(account_);  // the tools that Patroni needs beside the server
        const fs::path bin = root.program("postgres").parent_path();
        for (const char* tool : {"pg_rewind", "pg_controldata", "pg_isready", "psql"})
            fs::create_symlink(local_server::ServerRoot::system_programs() / tool, bin / tool);
    }
    start_etcd();
    for (const char* name : {"one", "two"}) {
        nodes_.push_back({name, find_free_port(), find_free_port(), nullptr});
        start(nodes_.back());
        wait_until(
            "Patroni's " + std::string(name) + " answers", [this] { return primary() != nullptr; }, patience);
    }
    wait_for_standby();
}

PatroniCluster::~PatroniCluster() {
    for (auto& node : nodes_)
        if (node.patroni) node.patroni->stop(30s);
}

void PatroniCluster::start_etcd() {
    etcd_port_ = find_free_port();
    const std::string clients = "http://127.0.0.1:" + std::to_string(etcd_port_);
    const std::string peers = "http://127.0.0.1:" + std::to_string(find_free_port());
    Command how;
    how.argv =
        bound_to_us({"/usr/bin/etcd", "--data-dir", (folder_ / "etcd").string(), "--listen-client-urls",
                     clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers,
                     "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers});
    how.output = folder_ / "etcd.log";
    how.account = account_;
    etcd_ = std::make_unique<Process>(how);
    wait_until(
        "etcd answers", [this] { return accepts_connections(etcd_port_); }, patience);
}

void PatroniCluster::write_configuration(const Node& node) const {
    const fs::path bin =
        local_server::ServerRoot(folder_ / "root", account_).program("postgres").parent_path();
    const std::string file = (folder_ / (node.name + ".yml")).string();
    const ActingAs account(account_);
    write_text(file, fmt::format(R"(scope: baton
name: {name}
etcd3:
  hosts: 127.0.0.1:{etcd}
restapi:
  listen: 127.0.0.1:{api}
  connect_address: 127.0.0.1:{api}
bootstrap:
  dcs:
    ttl: 5
    loop_wait: 1
    retry_timeout: 2
    maximum_lag_on_failover: 1000000000
    synchronous_mode: {synchronous}
    postgresql:
      use_pg_rewind: true
      parameters:
        shared_preload_libraries: baton
        wal_log_hints: 'on'
        max_connections: 100
  initdb:
    - encoding: UTF8
    - auth-host: trust
    - auth-local: trust
postgresql:
  listen: 127.0.0.1:{port}
  connect_address: 127.0.0.1:{port}
  data_dir: {folder}/{name}
  bin_dir: {bin}
  pgpass: {folder}/{name}.pgpass
  authentication:
    superuser: {{username: postgres, password: p}}
    replication: {{username: replicator, password: r}}
  pg_hba:
    - local all all trust
    - host all all 127.0.0.1/32 trust
    - host replication all 127.0.0.1/32 trust
  parameters:
    unix_socket_directories: '{folder}'
)",
                                 fmt::arg("name", node.name), fmt::arg("etcd", etcd_port_),
                                 fmt::arg("api", node.api_port), fmt::arg("port", node.port),
                                 fmt::arg("synchronous", synchronous_), fmt::arg("bin", bin.string()),
                                 fmt::arg("folder", folder_.path().string())));
}

void PatroniCluster::start(Node& node) {
    write_configuration(node);
    Command how;
    how.argv = bound_to_us({"/usr/bin/patroni", (folder_ / (node.name + ".yml")).string()});
    how.output = folder_ / (node.name + ".log");
    how.account = account_;
    how.working_directory = folder_.path();
    node.patroni = std::make_unique<Process>(how);
}

std::string PatroniCluster::one(const Node& node) const {
    return "host=127.0.0.1 user=postgres connect_timeout=2 dbname=postgres port=" + std::to_string(node.port);
}

std::string PatroniCluster::url(const std::string& database) const {
    return fmt::format(
        "host=127.0.0.1,127.0.0.1 port={},{} user=postgres dbname={} target_session_attrs=read-write "
        "connect_timeout=5",
        nodes_[0].port, nodes_[1].port, database);
}

PatroniCluster::Node* PatroniCluster::primary() {
    for (auto& node : nodes_) try {
            if (Connection(one(node)).value("select pg_is_in_recovery()") == "f") return &node;
        } catch (const Error&) {
        }
    return nullptr;
}

void PatroniCluster::wait_for_standby() {
    wait_until(
        "a standby follows the primary",
        [this] {
            Node* here = primary();
            if (here == nullptr) return false;
            try {
                return Connection(one(*here))
                           .value(
                               synchronous_
                                   ? "select count(*) from pg_stat_replication where sync_state = 'sync'"
                                   : "select count(*) from pg_stat_replication where state = 'streaming'") ==
                       "1";
            } catch (const Error&) {
                return false;
            }
        },
        patience);
}

void PatroniCluster::fail_over() {
    wait_for_standby();
    Node& old = *primary();
    std::ifstream file(folder_ / old.name / "postmaster.pid");
    pid_t postmaster = 0;
    file >> postmaster;
    old.patroni->signal(SIGKILL);
    old.patroni->wait(10s);
    // The children must not be able to finish anything either: stop them all before any of them dies.
    const std::string family = "pkill -KILL -P " + std::to_string(postmaster);
    ::kill(postmaster, SIGSTOP);
    baton::run({{"/bin/sh", "-c", family}});
    ::kill(postmaster, SIGKILL);
    wait_until(
        "the standby is promoted",
        [this, &old] {
            Node* now = primary();
            return now != nullptr && now != &old;
        },
        patience);
    start(old);
    wait_for_standby();
}

}  // namespace baton::test
