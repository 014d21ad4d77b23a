#pragma once
// Real brokers for the tests: each in a folder of its own under the temporary directory, on free ports of
// loopback, stopped by its pid. When the test binary dies, its brokers die with it.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "baton/error.hpp"

namespace baton::test {

// A part of the suite cannot run on this machine (a server could not be fetched, say): skip, and say so.
class Unavailable : public Error {
  public:
    using Error::Error;
};

// Print the line by which ctest counts the whole binary as skipped.
void announce_skip(const std::string& why);

class Broker {
  public:
    Broker(const Broker&) = delete;
    Broker& operator=(const Broker&) = delete;
    virtual ~Broker();

    // Start it, or start it again on the same port and data; returns when it answers.
    void start();
    void stop();         // SIGTERM: it may tidy up
    void kill_hard();    // SIGKILL: a crash
    void pause() const;  // SIGSTOP: it holds its connections and says nothing
    void resume() const;

    int port() const { return port_; }
    const std::filesystem::path& folder() const { return folder_; }
    std::string log_tail(int lines = 20) const;

  protected:
    explicit Broker(const std::string& name);
    // How it is run; called at every start.
    virtual Command command() = 0;
    // True when it answers.
    virtual bool ready() = 0;
    // Pick the ports of a first start.
    virtual void choose_ports() { port_ = find_free_port(); }
    // Prepare data before a first start.
    virtual void prepare() {}

    bool log_contains(const std::string& text) const;
    std::filesystem::path log_file() const { return folder_ / "log"; }

    int port_ = 0;

  private:
    std::string name_;
    std::filesystem::path folder_;
    std::optional<Process> process_;
    bool started_before_ = false;
    std::size_t log_from_ = 0;  // the current start's part of the log begins here
};

// nats-server with JetStream.
class NatsServer final : public Broker {
  public:
    NatsServer();
    // Lines of its configuration; set them before start().
    std::vector<std::string> settings;
    std::string url() const { return "nats://127.0.0.1:" + std::to_string(port()); }

  protected:
    Command command() override;
    bool ready() override;
};

// redis-server with its append-only file, written before it answers.
class RedisServer final : public Broker {
  public:
    RedisServer();
    // Added to its command line: {"--maxmemory", "8mb"}.
    std::vector<std::string> options;

  protected:
    Command command() override;
    bool ready() override;
};

// rabbitmq-server as a node of its own with its own epmd; user guest, password guest.
class RabbitServer final : public Broker {
  public:
    RabbitServer();
    ~RabbitServer() override;
    // Lines of rabbitmq.conf; set them before start().
    std::vector<std::string> settings;
    // Run rabbitmqctl against it.
    Outcome control(const std::vector<std::string>& words);

  protected:
    Command command() override;
    bool ready() override;
    void choose_ports() override;

  private:
    std::vector<std::pair<std::string, std::string>> environment() const;

    std::optional<Process> epmd_;
    int epmd_port_ = 0;
    int distribution_port_ = 0;
};

// Kafka in KRaft mode from its Maven jars. Throws Unavailable when they can be had neither from the cache nor
// from the network.
class KafkaServer final : public Broker {
  public:
    KafkaServer();
    // The second listener tells clients to come back through this port: a proxy's. Set it before start().
    int advertised_proxy_port = 0;
    int proxied_port() const { return proxied_port_; }
    // Lines of server.properties; set them before start().
    std::vector<std::string> settings;
    // Those by which the second listener wants this password of the user "relay", over this protocol.
    static std::vector<std::string> password_settings(const std::string& protocol,
                                                      const std::string& password);

  protected:
    Command command() override;
    bool ready() override;
    void choose_ports() override;
    void prepare() override;

  private:
    void write_properties() const;
    std::vector<std::string> java(const std::string& main_class) const;

    std::filesystem::path jars_;
    int proxied_port_ = 0;
    int controller_port_ = 0;
};

// True when something accepts connections there.
bool accepts_connections(int port);

}  // namespace baton::test
