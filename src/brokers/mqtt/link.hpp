#pragma once
// One connection to an MQTT server. Nothing waits unless wait() is called, and nothing happens by itself: no
// reconnecting, no acknowledging, no resending. When the connection is over, the link is of no more use.
//
// Every call throws ConnectionError when the connection breaks, AccessRefused when the server does not let us
// in, and MqttEnded when the server ended the connection with a reason.

#include <chrono>
#include <optional>

#include "baton/error.hpp"
#include "brokers/mqtt/settings.hpp"

namespace baton::brokers {

class MqttEnded : public ConnectionError {
  public:
    MqttEnded(std::uint8_t reason, const std::string& words) : ConnectionError(words), reason_(reason) {}
    std::uint8_t reason() const { return reason_; }

  private:
    std::uint8_t reason_;
};

class MqttLink {
  public:
    using Clock = std::chrono::steady_clock;

    // Start to connect.
    MqttLink(const MqttServer& server, MqttHello hello);

    // Go on connecting; true once the server has welcomed us.
    bool open();
    // Wait for that.
    void open_wholly();
    const MqttWelcome& welcome() const { return *welcome_; }

    // Start to send a packet.
    void send(std::string_view packet);
    // Write what can be written now. A failure shows in take(), behind the server's last words: a server may
    // answer and hang up while we write.
    void flush();
    bool has_to_write() const { return written_ < out_.size(); }
    // Return the next packet that has come, if one has; answers to pings are counted here and not returned.
    std::optional<MqttPacket> take();

    // Ask the server to answer. Everything that was sent before is heard by then.
    void ping();
    // How many pings have no answer yet.
    std::size_t unanswered() const { return pings_; }
    // Ping when it is time for that, so that the server knows that we are there.
    void keep_alive();
    // When to call it next.
    Clock::time_point next_ping() const;
    // True when the server has been silent for longer than the keep alive allows. Ask after take() found
    // nothing.
    bool is_silent() const;

    // When bytes last moved, in either direction.
    Clock::time_point moved_at() const { return moved_at_; }
    int descriptor() const { return stream_.descriptor(); }
    void wait(std::chrono::milliseconds patience) { stream_.wait(has_to_write() || !ready_, patience); }

  private:
    void welcome(const MqttPacket& packet);
    std::optional<MqttPacket> take_any();

    MqttServer server_;
    MqttHello hello_;
    wire::ByteStream stream_;
    std::optional<MqttWelcome> welcome_;
    bool ready_ = false;  // bytes flow
    std::string broken_;  // why nothing can be written any more
    std::string out_;
    std::size_t written_ = 0;
    std::string in_;
    std::size_t taken_ = 0;
    std::size_t pings_ = 0;
    std::chrono::seconds keep_alive_;
    Clock::time_point started_ = Clock::now();
    Clock::time_point moved_at_ = started_;
    Clock::time_point heard_at_ = started_;
    Clock::time_point pinged_at_ = started_;
};

// True when a connection, or a subscription, is refused for this until somebody mends login, rights or
// settings.
bool is_mqtt_refusal(std::uint8_t reason);
// A reason with the server's own words, where the server gave any.
std::string mqtt_words(std::uint8_t reason, const std::string& words);

}  // namespace baton::brokers
