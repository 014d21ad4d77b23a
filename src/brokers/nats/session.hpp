#pragma once
// One connection to a NATS server and what is in flight on it. It never reconnects by itself: when it is
// over, everything that was in flight is to be sent again on a new one, and nothing waits in hidden buffers.

#include <nats/nats.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "event/event.hpp"
#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

struct NatsOptions {
    std::vector<std::string> urls;
    std::string subject;                // when it is the same for every event
    std::vector<std::string> subjects;  // where events may go, with wildcards for what only an event knows
    std::string stream;
    bool create_stream = false;
    std::vector<std::string> stream_subjects;
    std::string username, password, token, credentials;
    std::string tls_ca, tls_cert, tls_key;
    std::chrono::milliseconds ack_timeout{}, connect_timeout{}, heartbeat{};
};

// Read what says where the servers are and how to talk to them; throws SettingsError.
NatsOptions read_nats_server(const relay::Settings& settings);

// The library's words; it puts the places in its own source before them, which help nobody.
std::string without_source_positions(std::string_view words);
std::string nats_words(natsStatus status);

using NatsOptionsPtr = std::unique_ptr<natsOptions, decltype(&natsOptions_Destroy)>;
// Make them what the library wants; throws ConnectionError.
NatsOptionsPtr make_nats_options(const NatsOptions& options);

// What became of a message, before anybody asked the server about it.
struct NatsAnswer {
    std::uint64_t ticket;
    std::string subject;
    natsStatus status;
    int code;  // JetStream's own, 0 when it gave none
    std::string words;
    bool not_permitted;
};

class NatsSession {
  public:
    // Connect; throws ConnectionError.
    explicit NatsSession(const NatsOptions& options);
    ~NatsSession();
    NatsSession(const NatsSession&) = delete;
    NatsSession& operator=(const NatsSession&) = delete;

    // Start publishing. Returns NATS_OK, or why it was not taken.
    natsStatus publish(const Message& message);
    // Let what was published leave at once.
    void write_out();
    struct Taken {
        std::vector<NatsAnswer> answers;
        bool closed;  // then everything that was in flight is among them, and the session is of no more use
    };
    // Take the answers that came, waiting up to `patience` for the first.
    Taken take(std::chrono::milliseconds patience);

    // The streams that take this subject, or some of those that its wildcards stand for. This and those that
    // follow throw ConnectionError when the server does not say.
    std::vector<std::string> streams_of(const std::string& subject);
    bool has_stream(const std::string& name);
    void create_stream(const NatsOptions& options);
    // Throws Error when JetStream is not there for us.
    void check_jetstream();
    std::string last_error() const;
    // How many bytes the server takes as one message with its headers.
    std::size_t max_payload() const;

  private:
    struct Shared;
    static void on_ack(jsCtx*, natsMsg* message, jsPubAck*, jsPubAckErr* error, void* id);
    static void on_error(natsConnection* connection, natsSubscription*, natsStatus, void* id);
    static void on_closed(natsConnection*, void* id);

    std::chrono::milliseconds ack_timeout_;
    std::shared_ptr<Shared> shared_;
    natsConnection* connection_ = nullptr;
    jsCtx* jetstream_ = nullptr;
};

}  // namespace baton::brokers
