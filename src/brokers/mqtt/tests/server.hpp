#pragma once

#include <map>

#include "support/broker.hpp"

namespace baton::test {

// mosquitto, which keeps every message for sessions that are away.
class MosquittoServer final : public Broker {
  public:
    MosquittoServer();
    // Lines of mosquitto.conf; set them before start().
    std::vector<std::string> settings;
    // Who may come with which password, besides those who come without a name; read at every start.
    std::map<std::string, std::string> users;

    std::string url() const { return "mqtt://127.0.0.1:" + std::to_string(port()); }
    // Deny everybody this topic; "" denies none. At once when the server runs.
    void deny(const std::string& topic);
    // How many messages wait for this client: not yet sent, or sent and not acknowledged.
    std::size_t held(const std::string& client_id);

    // A crash. mosquitto keeps messages in memory and writes them when it is told to stop: what it answered
    // for would be gone after SIGKILL, and that is no fault of whoever was answered.
    void kill_hard() { stop(); }

  protected:
    Command command() override;
    bool ready() override;

  private:
    void write_access(const std::string& denied) const;
    void signal(int number) const;
};

}  // namespace baton::test
