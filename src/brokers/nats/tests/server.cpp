#include "brokers/nats/tests/server.hpp"

#include <fstream>

namespace baton::test {

NatsServer::NatsServer() : Broker("nats") {}

Command NatsServer::command() {
    std::ofstream configuration(folder() / "nats.conf");
    for (const auto& line : settings) configuration << line << "\n";
    configuration.close();
    Command how;
    how.argv = {"nats-server",
                "--config",
                (folder() / "nats.conf").string(),
                "--addr",
                "127.0.0.1",
                "--port",
                std::to_string(port()),
                "--jetstream",
                "--store_dir",
                (folder() / "data").string()};
    return how;
}

bool NatsServer::ready() {
    return log_contains("Server is ready");
}

}  // namespace baton::test
