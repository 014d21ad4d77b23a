#pragma once
// A session of one's own at an MQTT server, which keeps what is published to a topic until it is read.

#include <chrono>
#include <string>
#include <vector>

#include "brokers/mqtt/link.hpp"
#include "brokers/received.hpp"

namespace baton::brokers {

class MqttClient {
  public:
    // Connect to the session of this client id. Throws Error.
    MqttClient(const MqttServer& server, const std::string& client_id);
    ~MqttClient();
    MqttClient(const MqttClient&) = delete;
    MqttClient& operator=(const MqttClient&) = delete;

    // Let the session have what is published there from now on.
    void subscribe(const std::string& topic);
    // Append what has come, waiting up to `patience` for the first. What was appended before something was
    // thrown will not come again.
    void read(std::vector<Received>& all, std::chrono::milliseconds patience);
    // Append everything that the session holds.
    void read_all(std::vector<Received>& all);
    // Let the server forget the session of this client id.
    static void forget(const MqttServer& server, const std::string& client_id);

  private:
    void take(const MqttPacket& packet, std::vector<Received>& all);
    void wait_for_answer(std::vector<Received>& all);

    MqttLink link_;
    std::vector<Received> early_;  // came before somebody asked for it
    bool subscribed_ = false;
};

}  // namespace baton::brokers
