#pragma once
// One connection to an AMQP 1.0 broker: Proton's engine over our own bytes, with one session. Nothing waits
// unless wait() is called, and nothing happens by itself: no reconnecting, no settling, no resending. When
// the connection is over, the object is of no more use, and neither is what the engine gave.
//
// Every call throws ConnectionError when the connection breaks, AccessRefused when the broker does not let us
// in, and Amqp1Ended when the broker ended the connection with an error.

#include <proton/connection_driver.h>
#include <proton/engine.h>

#include <chrono>

#include "baton/error.hpp"
#include "brokers/amqp1/settings.hpp"

namespace baton::brokers {

// An error as AMQP has them: a name like amqp:not-found, and the broker's own words.
struct Amqp1Error {
    std::string name;
    std::string words;

    static Amqp1Error of(pn_condition_t* condition);
    std::string text() const;
    // True when nothing like it is taken until somebody mends login, rights, settings or the broker's
    // addresses.
    bool is_refusal() const;
    // True when a broker says this because of one message that it was sent.
    bool blames_a_message() const;
    // True when the same may be taken a moment later.
    bool passes() const;
};

class Amqp1Ended : public ConnectionError {
  public:
    Amqp1Ended(Amqp1Error error, const std::string& words)
        : ConnectionError(words), error_(std::move(error)) {}
    const Amqp1Error& error() const { return error_; }

  private:
    Amqp1Error error_;
};

class Amqp1Connection {
  public:
    using Clock = std::chrono::steady_clock;

    // Start to connect. The container id is how the broker knows who we are.
    Amqp1Connection(const Amqp1Server& server, const std::string& container);
    ~Amqp1Connection();
    Amqp1Connection(const Amqp1Connection&) = delete;
    Amqp1Connection& operator=(const Amqp1Connection&) = delete;

    // Go on connecting; true once the broker has opened the connection.
    bool open();
    // Wait for that.
    void open_wholly();

    // Begin a link to or from an address. Whether the broker wants it is told by an event.
    pn_link_t* sender(const std::string& address);
    pn_link_t* receiver(const std::string& address);

    // Wait until the broker has taken the link. Throws when it does not.
    void need(pn_link_t* link, const std::string& address);
    // What to say of a link that the broker refused or ended.
    std::string words_of_end(const std::string& address, const Amqp1Error& error) const;

    // Move bytes in both directions, as far as they go now.
    void move();
    // Return the next thing that has happened to a link or a delivery, or null.
    pn_event_t* next();
    bool has_to_write();
    // When bytes last went to the broker, heartbeats not counted.
    Clock::time_point sent_at() const { return sent_at_; }

    int descriptor() const { return stream_.descriptor(); }
    void wait(std::chrono::milliseconds patience) { stream_.wait(has_to_write() || !ready_, patience); }
    // When move() has to be called next although nothing comes.
    Clock::time_point next_tick() const { return next_tick_; }
    // Say goodbye, as far as that goes without waiting.
    void close();

    const Amqp1Server& server() const { return server_; }

  private:
    pn_link_t* begin(pn_link_t* link, pn_terminus_t* terminus, const std::string& address);
    void write();
    void read();
    void tick();
    [[noreturn]] void end(const std::string& doing, pn_condition_t* condition);

    Amqp1Server server_;
    wire::ByteStream stream_;
    pn_connection_driver_t driver_{};
    pn_session_t* session_ = nullptr;
    bool ready_ = false;   // bytes flow
    bool opened_ = false;  // the broker said so
    std::string broken_;   // why no bytes move any more
    std::uint64_t links_ = 0;
    Clock::time_point started_ = Clock::now();
    Clock::time_point sent_at_ = started_;
    Clock::time_point next_tick_ = Clock::time_point::max();
};

}  // namespace baton::brokers
