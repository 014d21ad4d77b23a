#pragma once

#include "support/broker.hpp"

namespace baton::test {

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

}  // namespace baton::test
