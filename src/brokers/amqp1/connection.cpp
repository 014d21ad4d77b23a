#include "brokers/amqp1/connection.hpp"

#include <proton/sasl.h>

#include <algorithm>
#include <array>

#include "wire/access_refused.hpp"

namespace baton::brokers {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

constexpr std::uint32_t frame_bytes = 16 * 1024;
// What the engine keeps of messages that nobody has taken yet.
constexpr std::size_t session_bytes = 16 << 20;
constexpr std::size_t heartbeat_bytes = 8;

template <std::size_t Count>
bool is_one_of(const std::string& name, const std::array<std::string_view, Count>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Amqp1Error Amqp1Error::of(pn_condition_t* condition) {
    Amqp1Error error;
    if (condition == nullptr || !pn_condition_is_set(condition)) return error;
    if (const char* name = pn_condition_get_name(condition)) error.name = name;
    if (const char* words = pn_condition_get_description(condition)) error.words = words;
    return error;
}

std::string Amqp1Error::text() const {
    if (name.empty()) return "no reason given";
    return name + (words.empty() ? "" : ": " + words);
}

bool Amqp1Error::is_refusal() const {
    constexpr std::array<std::string_view, 7> names{"amqp:not-found",          "amqp:unauthorized-access",
                                                    "amqp:not-allowed",        "amqp:resource-deleted",
                                                    "amqp:not-implemented",    "amqp:link:redirect",
                                                    "amqp:connection:redirect"};
    return is_one_of(name, names);
}

bool Amqp1Error::blames_a_message() const {
    constexpr std::array<std::string_view, 5> names{"amqp:link:message-size-exceeded", "amqp:decode-error",
                                                    "amqp:invalid-field", "amqp:connection:framing-error",
                                                    "amqp:frame-size-too-small"};
    return is_one_of(name, names);
}

// ActiveMQ Artemis says "failed" of whatever went wrong inside of it.
bool Amqp1Error::passes() const {
    constexpr std::array<std::string_view, 11> names{"amqp:resource-limit-exceeded",
                                                     "amqp:internal-error",
                                                     "amqp:resource-locked",
                                                     "amqp:illegal-state",
                                                     "amqp:link:transfer-limit-exceeded",
                                                     "amqp:link:detach-forced",
                                                     "amqp:connection:forced",
                                                     "amqp:transaction:timeout",
                                                     "com.microsoft:server-busy",
                                                     "com.microsoft:timeout",
                                                     "failed"};
    return is_one_of(name, names);
}

Amqp1Connection::Amqp1Connection(const Amqp1Server& server, const std::string& container)
    : server_(server), stream_(server.host, server.port, server.tls) {
    if (pn_connection_driver_init(&driver_, nullptr, nullptr) != 0) throw Error("out of memory");
    pn_connection_set_container(driver_.connection, container.c_str());
    pn_connection_set_hostname(driver_.connection, server_.host.c_str());
    if (!server_.mechanism.empty()) {
        pn_sasl_t* sasl = pn_sasl(driver_.transport);
        pn_sasl_allowed_mechs(sasl, server_.mechanism.c_str());
        pn_sasl_set_allow_insecure_mechs(sasl, true);  // where the url says amqp:// that is wanted
        if (server_.mechanism == "PLAIN") {
            pn_connection_set_user(driver_.connection, server_.user.c_str());
            pn_connection_set_password(driver_.connection, server_.password.c_str());
        }
    }
    pn_transport_set_max_frame(driver_.transport, frame_bytes);
    pn_transport_set_idle_timeout(driver_.transport, static_cast<pn_millis_t>(server_.keep_alive.count()));
    pn_connection_open(driver_.connection);
    session_ = pn_session(driver_.connection);
    pn_session_set_incoming_capacity(session_, session_bytes);
    pn_session_open(session_);
}

Amqp1Connection::~Amqp1Connection() {
    pn_connection_driver_destroy(&driver_);
}

bool Amqp1Connection::open() {
    if (opened_) return true;
    if (Clock::now() > started_ + server_.connect_timeout)
        throw ConnectionError("amqp1: no answer from " + server_.place() + " within " +
                              std::to_string(server_.connect_timeout.count()) + " ms");
    ready_ = ready_ || stream_.ready();
    if (!ready_) return false;
    move();
    while (next() != nullptr) {
    }
    move();
    return opened_;
}

void Amqp1Connection::open_wholly() {
    while (!open()) wait(20ms);
}

pn_link_t* Amqp1Connection::begin(pn_link_t* link, pn_terminus_t* terminus, const std::string& address) {
    pn_terminus_set_address(terminus, address.c_str());
    if (!server_.capability.empty()) {
        pn_data_t* capabilities = pn_terminus_capabilities(terminus);
        pn_data_put_symbol(capabilities, pn_bytes(server_.capability.size(), server_.capability.data()));
    }
    pn_link_set_snd_settle_mode(link, PN_SND_UNSETTLED);
    pn_link_set_rcv_settle_mode(link, PN_RCV_FIRST);
    pn_link_open(link);
    return link;
}

pn_link_t* Amqp1Connection::sender(const std::string& address) {
    pn_link_t* link = pn_sender(session_, ("out-" + std::to_string(++links_)).c_str());
    pn_terminus_set_address(pn_link_source(link), "baton");
    return begin(link, pn_link_target(link), address);
}

pn_link_t* Amqp1Connection::receiver(const std::string& address) {
    pn_link_t* link = pn_receiver(session_, ("in-" + std::to_string(++links_)).c_str());
    pn_terminus_set_address(pn_link_target(link), "baton");
    return begin(link, pn_link_source(link), address);
}

std::string Amqp1Connection::words_of_end(const std::string& address, const Amqp1Error& error) const {
    std::string words =
        "amqp1: the broker at " + server_.place() + " refuses address \"" + address + "\": " + error.text();
    if (error.name == "amqp:not-found" || error.name == "amqp:resource-deleted")
        words += " (make it at the broker, or let the broker make addresses by itself)";
    if (error.name == "amqp:unauthorized-access") words += " (the login lacks the right to use it)";
    return words;
}

// A broker that refuses a link opens it with nothing at the other end, and closes it with an error then.
void Amqp1Connection::need(pn_link_t* link, const std::string& address) {
    const auto end = Clock::now() + server_.connect_timeout;
    const bool sends = pn_link_is_sender(link);
    bool taken = false;
    for (;;) {
        move();
        while (pn_event_t* event = next()) {
            if (pn_event_link(event) != link) continue;
            const auto type = pn_event_type(event);
            if (type == PN_LINK_REMOTE_CLOSE || type == PN_LINK_REMOTE_DETACH) {
                const auto error = Amqp1Error::of(pn_link_remote_condition(link));
                if (error.is_refusal()) throw wire::AccessRefused(words_of_end(address, error));
                throw Amqp1Ended(error, words_of_end(address, error));
            }
            pn_terminus_t* there = sends ? pn_link_remote_target(link) : pn_link_remote_source(link);
            taken = taken || pn_terminus_get_type(there) != PN_UNSPECIFIED;
        }
        if (taken && (!sends || pn_link_credit(link) > 0 || Clock::now() > end)) return;
        if (Clock::now() > end)
            throw ConnectionError("amqp1: no answer about address \"" + address + "\" from " +
                                  server_.place() + " within " +
                                  std::to_string(server_.connect_timeout.count()) + " ms");
        wait(20ms);
    }
}

void Amqp1Connection::move() {
    if (!ready_) return;
    read();
    tick();
    write();
}

// A server may answer and hang up while we write: its last words come first, then the failure.
void Amqp1Connection::write() {
    if (!broken_.empty()) return;
    try {
        for (;;) {
            const pn_bytes_t bytes = pn_connection_driver_write_buffer(&driver_);
            if (bytes.size == 0) return;
            const std::size_t sent = stream_.write({bytes.start, bytes.size});
            if (sent == 0) return;
            pn_connection_driver_write_done(&driver_, sent);
            if (sent > heartbeat_bytes) sent_at_ = Clock::now();
        }
    } catch (const ConnectionError& error) {
        broken_ = error.what();
    }
}

void Amqp1Connection::read() {
    if (!broken_.empty()) return;
    try {
        for (;;) {
            const pn_rwbytes_t room = pn_connection_driver_read_buffer(&driver_);
            if (room.size == 0) return;
            const std::size_t received = stream_.read(room.start, room.size);
            if (received == 0) return;
            pn_connection_driver_read_done(&driver_, received);
        }
    } catch (const ConnectionError& error) {
        broken_ = error.what();
    }
}

// Let the engine send a heartbeat, and notice that none has come.
void Amqp1Connection::tick() {
    const auto now = std::chrono::duration_cast<milliseconds>(Clock::now().time_since_epoch());
    const auto next = pn_transport_tick(driver_.transport, now.count());
    next_tick_ = next == 0 ? Clock::time_point::max() : Clock::time_point(milliseconds(next));
}

bool Amqp1Connection::has_to_write() {
    return pn_connection_driver_write_buffer(&driver_).size > 0;
}

void Amqp1Connection::end(const std::string& doing, pn_condition_t* condition) {
    const auto error = Amqp1Error::of(condition);
    std::string words = "amqp1: the broker at " + server_.place() + " " + doing + ": " + error.text();
    if (!opened_ && error.name == "amqp:connection:framing-error")
        words += " (is this the port of AMQP 1.0, and is TLS on where it must be?)";
    if (error.is_refusal()) throw wire::AccessRefused(words);
    throw Amqp1Ended(error, words);
}

pn_event_t* Amqp1Connection::next() {
    while (pn_event_t* event = pn_connection_driver_next_event(&driver_)) {
        switch (pn_event_type(event)) {
            case PN_CONNECTION_REMOTE_OPEN:
                opened_ = true;
                break;
            case PN_CONNECTION_REMOTE_CLOSE:
                end("ended the connection", pn_connection_remote_condition(driver_.connection));
            case PN_SESSION_REMOTE_CLOSE:
                end("ended the session", pn_session_remote_condition(session_));
            case PN_TRANSPORT_ERROR:
                end(opened_ ? "is out of reach" : "does not let us in",
                    pn_transport_condition(driver_.transport));
            case PN_LINK_REMOTE_OPEN:
            case PN_LINK_REMOTE_DETACH:
            case PN_LINK_REMOTE_CLOSE:
            case PN_LINK_FLOW:
            case PN_DELIVERY:
                return event;
            default:
                break;
        }
    }
    if (!broken_.empty()) throw ConnectionError("amqp1: " + broken_);
    return nullptr;
}

void Amqp1Connection::close() {
    pn_connection_close(driver_.connection);
    write();
}

}  // namespace baton::brokers
