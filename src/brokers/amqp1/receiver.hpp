#pragma once
// A link on which messages come from an address, on a connection of its own. No more than `credit` messages
// are with us and not settled.
//
// Every call may throw as Amqp1Connection's do, and when the broker ends the link.

#include <algorithm>
#include <optional>
#include <string>

#include "brokers/amqp1/connection.hpp"

namespace baton::brokers {

class Amqp1Receiver {
  public:
    struct Taken {
        pn_delivery_t* delivery;
        std::string bytes;
    };

    // Connect, and wait until the broker has taken the link.
    Amqp1Receiver(const Amqp1Server& server, const std::string& container, const std::string& address,
                  int credit);

    // Move bytes, and hear what they say.
    void move();
    // Return the next message that has come as a whole, if one has.
    std::optional<Taken> take();
    // The message is safe with us: the broker may forget it.
    void accept(pn_delivery_t* delivery);
    // Give everything back that was not accepted, and wait up to `patience` until the broker has heard all.
    void leave(std::chrono::milliseconds patience);

    Amqp1Connection& connection() { return connection_; }

  private:
    void give_credit();

    Amqp1Connection connection_;
    std::string address_;
    int credit_;
    int held_ = 0;  // taken and not settled
    bool closed_ = false;
    pn_link_t* link_ = nullptr;
    std::string partial_;  // of the message that is coming
};

}  // namespace baton::brokers
