#include <fstream>

#include "brokers/rabbitmq/tests/server.hpp"

namespace baton::test {

// Debian's wrapper in /usr/sbin insists on the system's folders; the node itself does not.
static const std::string scripts = "/usr/lib/rabbitmq/bin/";

RabbitServer::RabbitServer() : Broker("rabbitmq") {}

RabbitServer::~RabbitServer() {
    kill_hard();
}

void RabbitServer::choose_ports() {
    port_ = find_free_port();
    epmd_port_ = find_free_port();
    distribution_port_ = find_free_port();
    epmd_.reset();
}

std::vector<std::pair<std::string, std::string>> RabbitServer::environment() const {
    const std::string home = folder().string();
    return {
        {"HOME", home},
        {"ERL_EPMD_PORT", std::to_string(epmd_port_)},
        {"ERL_EPMD_ADDRESS", "127.0.0.1"},
        {"RABBITMQ_NODENAME", "baton" + std::to_string(port()) + "@localhost"},
        {"RABBITMQ_NODE_PORT", std::to_string(port())},
        {"RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1"},
        {"RABBITMQ_DIST_PORT", std::to_string(distribution_port_)},
        {"RABBITMQ_MNESIA_BASE", home + "/mnesia"},
        {"RABBITMQ_LOG_BASE", home},
        {"RABBITMQ_LOGS", "-"},
        {"RABBITMQ_PID_FILE", home + "/pid"},
        {"RABBITMQ_ENABLED_PLUGINS_FILE", home + "/plugins"},
        {"RABBITMQ_CONFIG_FILE", home + "/rabbitmq.conf"},
        {"RABBITMQ_CONF_ENV_FILE", home + "/none"},
    };
}

Command RabbitServer::command() {
    std::ofstream configuration(folder() / "rabbitmq.conf");
    for (const auto& line : settings) configuration << line << "\n";
    configuration.close();
    if (!epmd_ || !epmd_->running()) {
        Command daemon;
        daemon.argv = {"setpriv",  "--pdeathsig", "KILL", "epmd", "-port", std::to_string(epmd_port_),
                       "-address", "127.0.0.1"};
        daemon.output = folder() / "epmd.log";
        epmd_.emplace(daemon);
    }
    Command how;
    how.argv = {scripts + "rabbitmq-server"};
    how.environment = environment();
    // With this the script becomes the server instead of its parent, so that our signals reach the server.
    how.environment.emplace_back("RABBITMQ_ALLOW_INPUT", "1");
    how.environment.emplace_back("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-noinput -start_epmd false +S 1:1");
    how.working_directory = folder();
    return how;
}

bool RabbitServer::ready() {
    return log_contains("Server startup complete");
}

Outcome RabbitServer::control(const std::vector<std::string>& words) {
    Command how;
    how.argv = {scripts + "rabbitmqctl"};
    how.argv.insert(how.argv.end(), words.begin(), words.end());
    how.environment = environment();
    how.working_directory = folder();
    return run(how);
}

}  // namespace baton::test
