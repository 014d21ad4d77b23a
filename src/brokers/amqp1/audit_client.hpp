#pragma once
// A queue of an AMQP 1.0 broker, made where the broker makes queues by itself, and read.

#include <chrono>
#include <string>
#include <vector>

#include "brokers/amqp1/message.hpp"
#include "brokers/amqp1/receiver.hpp"
#include "brokers/received.hpp"

namespace baton::brokers {

class Amqp1Client {
  public:
    // Connect and begin to read. Throws Error.
    Amqp1Client(const Amqp1Server& server, const std::string& address);

    // Append what has come, waiting up to `patience` for the first. What was appended will not come again,
    // unless the connection breaks.
    void read(std::vector<Received>& all, std::chrono::milliseconds patience);
    // Append everything that was there when this was called, and read no more after that.
    void read_rest(std::vector<Received>& all);

    // Let the broker make the address, if it is not there.
    static void make(const Amqp1Server& server, const std::string& address);

  private:
    void take(std::vector<Received>& all);
    void send_mark();

    std::string address_;
    Amqp1Receiver receiver_;
    Amqp1Codec codec_;
    std::string mark_;  // the id of a message of our own
    bool mark_came_ = false;
};

}  // namespace baton::brokers
