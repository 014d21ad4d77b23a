#pragma once
// One connection to a NATS server, and the messages in flight on it. A session never reconnects by itself.
// When it is over, everything in flight is to be sent again on a new session. Nothing waits in hidden
// buffers.

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
    std::string subject;                // set when it is the same for every event
    std::vector<std::string> subjects;  // where events may go, with wildcards for what only an event knows
    std::string stream;
    bool create_stream = false;
    std::vector<std::string> stream_subjects;
    std::string username, password, token, credentials;
    std::string tls_ca, tls_cert, tls_key;
    std::chrono::milliseconds ack_timeout{}, connect_timeout{}, heartbeat{};
};

// Read where the servers are and how to talk to them. Throws SettingsError.
NatsOptions read_nats_server(const relay::Settings& settings);

// The library's words, without the places in the library's source that stand before them.
std::string without_source_positions(std::string_view words);
std::string nats_words(natsStatus status);

using NatsOptionsPtr = std::unique_ptr<natsOptions, decltype(&natsOptions_Destroy)>;
// Make the library's options. Throws ConnectionError.
NatsOptionsPtr make_nats_options(const NatsOptions& options);

// What became of a message.
struct NatsAnswer {
    std::uint64_t ticket;
    std::string subject;
    natsStatus status;
    int code;  // JetStream's own code, 0 when there is none
    std::string words;
    bool not_permitted;
};

class NatsSession {
  public:
    // Connect. Throws ConnectionError.
    explicit NatsSession(const NatsOptions& options);
    ~NatsSession();
    NatsSession(const NatsSession&) = delete;
    NatsSession& operator=(const NatsSession&) = delete;

    // Start to publish a message. Returns NATS_OK, or why the message was not taken.
    natsStatus publish(const Message& message);
    // Write out what was published, at once.
    void write_out();
    struct Taken {
        std::vector<NatsAnswer> answers;
        bool closed;  // then the answers hold everything that was in flight, and the session is over
    };
    // Take the answers that came. Waits up to `patience` for the first.
    Taken take(std::chrono::milliseconds patience);

    // The streams that take this subject, or some of the subjects that its wildcards stand for. This function
    // and the next ones throw ConnectionError when the server does not answer.
    std::vector<std::string> streams_of(const std::string& subject);
    bool has_stream(const std::string& name);
    void create_stream(const NatsOptions& options);
    // Throws Error when the server has no JetStream for us.
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
