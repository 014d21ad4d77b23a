#include "brokers/nats/sink.hpp"

#include <algorithm>

#include "brokers/fixed_destination.hpp"
#include "brokers/lease_is_over.hpp"
#include "brokers/nats/session.hpp"
#include "event/router.hpp"
#include "wire/access_refused.hpp"

namespace baton::brokers {

namespace {

using relay::Verdict;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Whose fault it is that JetStream or the library did not take a message.
Verdict verdict_on_answer(natsStatus status, int code) {
    switch (code) {
        case JSStreamMessageExceedsMaximumErr:
        case 10097:  // header size exceeds maximum
            return Verdict::rejected;
        case JSStreamSealedErr:
            return Verdict::shut;
        default:
            break;
    }
    switch (status) {
        case NATS_MAX_PAYLOAD:
        case NATS_INVALID_SUBJECT:
        case NATS_INVALID_ARG:
            return Verdict::rejected;
        case NATS_NO_RESPONDERS:
        case NATS_NOT_PERMITTED:
            return Verdict::shut;
        default:
            return Verdict::retry;
    }
}

constexpr std::size_t few = 10;

// Return what keeps a header from being a line of text, or nothing.
std::string flaw_of(const Header& header) {
    if (header.name.empty()) return "a header has no name";
    for (const char c : header.name)
        if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7F || c == ':')
            return "the name of header \"" + header.name + "\" has characters that nats does not take";
    if (header.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos) return {};
    return "the value of header \"" + header.name + "\" has line breaks, which nats does not take";
}

// Return the subject with a wildcard in place of what is not known before there is an event: everything from
// the first name with a field in it, since a value may be several names.
std::string pattern_of(const std::string& subject) {
    const auto brace = subject.find_first_of("{}");
    if (brace == std::string::npos) return subject;
    const auto dot = subject.rfind('.', brace);
    return (dot == std::string::npos ? "" : subject.substr(0, dot + 1)) + ">";
}

class NatsSink final : public relay::Sink {
  public:
    explicit NatsSink(NatsOptions options) : options_(std::move(options)) {}

    relay::SinkTraits traits() const override { return {.max_message_bytes = max_payload_}; }

    void check() override {
        connect();
        session_->check_jetstream();
        if (options_.create_stream) session_->create_stream(options_);
        if (!options_.stream.empty() && !session_->has_stream(options_.stream))
            throw Error("nats has no stream " + options_.stream, "make it, or set create_stream");
        for (const auto& subject : options_.subjects) check_subject(subject);
    }

    void send(std::span<const Message> messages) override {
        if (session_ == nullptr) try_to_connect();
        for (const auto& message : messages) {
            if (!may_send())
                done_.push_back({message.ticket, Verdict::retry, lease_is_over, {}});
            else if (session_ == nullptr)
                done_.push_back({message.ticket, no_session_, trouble_, {}});
            else
                publish(message);
        }
        // The library waits a little before it writes a few messages out.
        if (session_ != nullptr && messages.size() < few) session_->write_out();
    }

    void collect(std::vector<relay::Delivery>& deliveries, milliseconds patience) override {
        if (session_ != nullptr) {
            const auto taken = session_->take(done_.empty() ? patience : milliseconds(0));
            for (const auto& answer : taken.answers) judge(answer);
            if (taken.closed) {
                trouble_ = session_->last_error();
                no_session_ = Verdict::retry;
                session_.reset();
                back_off();
            }
        }
        std::move(done_.begin(), done_.end(), std::back_inserter(deliveries));
        done_.clear();
    }

    std::string trouble() override { return trouble_; }

  private:
    void check_subject(const std::string& subject) {
        const auto streams = session_->streams_of(subject);
        const std::string named = (subject.ends_with('>') ? "a subject like " : "the subject ") + subject;
        if (streams.empty())
            throw Error("no stream takes " + named, "make one, or set stream and create_stream");
        if (!options_.stream.empty() && std::ranges::find(streams, options_.stream) == streams.end())
            throw Error("the stream " + options_.stream + " does not take " + named + ", but " +
                            streams.front() + " does",
                        "mend the subjects of the stream, or the names in the settings");
    }

    void connect() {
        if (session_ != nullptr) return;
        session_ = std::make_unique<NatsSession>(options_);
        max_payload_ = session_->max_payload();
    }

    // Connect unless the last attempt was a moment ago.
    void try_to_connect() {
        if (Clock::now() < next_attempt_) return;
        try {
            connect();
            if (options_.create_stream) session_->create_stream(options_);
            if (!may_send()) throw ConnectionError(lease_is_over);
            pause_ = milliseconds(50);
            trouble_.clear();
        } catch (const std::exception& error) {
            session_.reset();
            trouble_ = error.what();
            no_session_ = wire::verdict_on(error);
            back_off();
        }
    }

    void back_off() {
        next_attempt_ = Clock::now() + pause_;
        pause_ = std::min(pause_ * 2, milliseconds(2000));
    }

    void publish(const Message& message) {
        std::string flaw = flaw_of({"Nats-Msg-Id", message.message_id});
        if (flaw.empty()) flaw = flaw_of({"partition-key", std::string(message.key)});
        for (const auto& header : message.headers)
            if (flaw.empty()) flaw = flaw_of(header);
        if (!flaw.empty()) {
            done_.push_back({message.ticket, Verdict::rejected, flaw, {}});
            return;
        }
        const natsStatus status = session_->publish(message);
        if (status == NATS_OK) return;
        std::string words = natsStatus_GetText(status);
        if (status == NATS_MAX_PAYLOAD) {
            max_payload_ = session_->max_payload();
            words = "the message has " + std::to_string(message.body.size()) +
                    " bytes and its headers, the server's max_payload is " + std::to_string(max_payload_);
        }
        done_.push_back({message.ticket, verdict_on_answer(status, 0), std::move(words), {}});
    }

    // Turn the server's answer into a verdict. The server is not asked whether a stream is there: a missing
    // one, and one that is just being elected or recovered, both take the message once they answer.
    void judge(const NatsAnswer& answer) {
        if (answer.status == NATS_OK) {
            trouble_.clear();
            done_.push_back({answer.ticket, Verdict::delivered, {}, {}});
            return;
        }
        std::string words = answer.words;
        const Verdict verdict =
            answer.not_permitted ? Verdict::shut : verdict_on_answer(answer.status, answer.code);
        if (answer.status == NATS_NO_RESPONDERS)
            words = "no responders: no stream takes the subject " + answer.subject + ", or it has no leader";
        if (verdict != Verdict::rejected) trouble_ = words;
        done_.push_back({answer.ticket, verdict, std::move(words), {}});
    }

    NatsOptions options_;
    std::unique_ptr<NatsSession> session_;
    std::size_t max_payload_ = 0;          // of the server that was connected to last
    Verdict no_session_ = Verdict::retry;  // what it means that there is none
    std::vector<relay::Delivery> done_;
    std::string trouble_;
    Clock::time_point next_attempt_{};
    milliseconds pause_{50};
};

}  // namespace

std::unique_ptr<relay::Sink> make_nats_sink(const relay::Settings& settings) {
    NatsOptions options = read_nats_server(settings);
    options.subject = fixed_destination(settings, "subject");
    for (const auto& each : split_destinations(settings.text("subject", "{topic}")))
        options.subjects.push_back(pattern_of(each));
    options.stream = settings.text("stream", "");
    options.create_stream = settings.boolean("create_stream", false);
    options.stream_subjects = settings.list("stream_subjects");
    if (options.stream_subjects.empty() && !options.subject.empty())
        options.stream_subjects = {options.subject};
    if (options.create_stream && options.stream.empty())
        settings.refuse("create_stream", "needs a name for the stream", "set stream");
    if (options.create_stream && options.stream_subjects.empty())
        settings.refuse("create_stream", "needs the subjects of the stream", "set stream_subjects");
    options.ack_timeout = settings.duration("ack_timeout", std::chrono::seconds(10));
    return std::make_unique<NatsSink>(std::move(options));
}

}  // namespace baton::brokers
