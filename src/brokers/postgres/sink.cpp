#include "brokers/postgres/sink.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>

#include "base/text.hpp"
#include "brokers/lease_is_over.hpp"
#include "event/headers.hpp"
#include "event/json.hpp"
#include "event/trace.hpp"
#include "postgres/connection.hpp"
#include "wire/encoding.hpp"

namespace baton::brokers {

namespace {

using relay::Verdict;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t batch_messages = 1000;
constexpr std::size_t batch_bytes = 4U << 20;

// Where the server or the role commits without waiting for the disk, this statement still does.
constexpr const char* statement =
    "select count(*) from (select set_config('synchronous_commit', case "
    "current_setting('synchronous_commit') when 'off' "
    "then 'on' else current_setting('synchronous_commit') end, true)) as s, baton.receive_many($1, "
    "$2::jsonb) as r";

struct Options {
    std::string url;
    std::string inbox;  // when it is the same for every event
    std::string source;
    std::string sequence_header;
    std::string priority_header;
    milliseconds timeout{};
};

// A message that waits or is under way, as the inbox wants it.
struct Entry {
    std::uint64_t ticket;
    std::string inbox;
    std::string json;
    std::string_view body;
    bool from_broker = false;  // nobody but the inbox can keep it
    bool alone = false;        // its batch was refused: find out whose fault it was
    bool buried = false;       // it goes as a dead letter
};

// Whose fault an error is: bad data, a constraint, a limit are the message's; no such inbox, no privilege, no
// baton, another kind of inbox are the destination's.
Verdict verdict_on_state(const SqlError& error) {
    const std::string_view state = error.sqlstate();
    const std::string_view kind = state.substr(0, 2);
    if (kind == "22" || kind == "23" || kind == "54") return Verdict::rejected;
    const bool shut = kind == "42" || kind == "0A" || kind == "28" || kind == "3D" || kind == "3F";
    return shut || state == "BT004" ? Verdict::shut : Verdict::retry;
}

std::string words_of(const SqlError& error) {
    const std::string detail = error.detail().empty() ? "" : " (" + error.detail() + ")";
    return std::string(error.what()) + detail + " [" + error.sqlstate() + "]";
}

void append_bytes(std::string& out, std::string_view body) {
    if (body.data() == nullptr) return;
    out += ",\"payload_raw\":\"";
    append_base64(out, body);
    out += '"';
}

void append_error(std::string& out, std::string_view error) {
    out += ",\"error\":";
    append_json_string(out, error);
}

// A whole number in a header that the settings name.
void append_number(std::string& out, const char* name, const Message& message, const std::string& header) {
    const Header* found = header.empty() ? nullptr : find_header(message.headers, header);
    if (found == nullptr || found->value.empty()) return;
    std::int64_t value = 0;
    const char* const end = found->value.data() + found->value.size();
    if (std::from_chars(found->value.data(), end, value).ptr != end) return;
    out.append(",\"").append(name).append("\":").append(std::to_string(value));
}

// Text of the server has no place for the byte 0.
void append_text(std::string& out, std::string_view text) {
    if (text.find('\0') == std::string_view::npos) return append_json_string(out, text);
    std::string readable;
    for (const char c : text) c == '\0' ? readable.append("\ufffd") : readable.append(1, c);
    append_json_string(out, readable);
}

void append_field(std::string& out, const char* name, const Field& value) {
    if (!value) return;
    out.append(",\"").append(name).append("\":");
    append_text(out, *value);
}

// What the inbox is told about where the message came from: the settings' word, else the broker's.
std::string source_of(const Message& message, const Options& options) {
    if (!options.source.empty()) return options.source;
    if (message.event == nullptr || !message.event->from_broker) return "baton";
    const auto source = message.event->source_id;
    return std::string(source.substr(0, source.find(':')))
        .append(":")
        .append(message.event->topic.value_or(""));
}

// The trace of an event that had none may have begun on the way.
Field trace_of(const Message& message) {
    if (message.event->trace_id) return message.event->trace_id;
    const Header* header = find_header(message.headers, "traceparent");
    const auto trace = header == nullptr ? std::string_view() : trace_id_of(header->value);
    return trace.empty() ? Field() : Field(trace);
}

// The message as the inbox wants it.
std::string as_inbox_message(const Message& message, const Options& options) {
    std::string out = "{\"event_id\":";
    append_text(out, message.message_id);
    append_field(out, "source", source_of(message, options));
    append_number(out, "sequence_num", message, options.sequence_header);
    append_number(out, "priority", message, options.priority_header);
    if (const Event* event = message.event) {
        append_field(out, "event_type",
                     event->malformed && !event->event_type ? Field("malformed") : event->event_type);
        append_field(out, "aggregate_id", event->aggregate_id);
        append_field(out, "tenant_id", event->tenant_id);
        append_field(out, "correlation_id", event->correlation_id);
        append_field(out, "causation_id", event->causation_id);
        append_field(out, "idempotency_key", event->idempotency_key);
        append_field(out, "schema_version", event->schema_version);
        append_field(out, "trace_id", trace_of(message));
    }
    out += ",\"headers\":{";
    const char* separator = "";
    const auto add_header = [&](std::string_view name, std::string_view value) {
        out += separator;
        separator = ",";
        append_text(out, name);
        out += ':';
        append_text(out, value);
    };
    for (const auto& header : message.headers) add_header(header.name, header.value);
    if (!message.key.empty()) add_header("partition-key", message.key);
    if (!message.content_type.empty()) add_header("content-type", message.content_type);
    out += '}';
    if (message.event != nullptr && message.event->malformed) {
        append_bytes(out, message.body);
        append_error(out, *message.event->malformed);
    } else if (is_json_type(message.content_type) && is_json(message.body)) {
        out.append(",\"payload\":").append(message.body);
    } else {
        append_bytes(out, message.body);
    }
    return out + "}";
}

// The least that any text of an inbox may have, in bytes: tenants have that, other texts more.
constexpr std::size_t every_text_may_have = 500;

// An id that an inbox takes: the digest of one that is too long is the same for each redelivery.
std::string short_id(std::string_view json_string) {
    if (json_string.size() <= every_text_may_have) return std::string(json_string);
    return "\"sha256:" + to_hex(wire::sha256(json_string)) + '"';
}

// A message that the server refused for its content, as a dead letter: its bytes and the server's words, and
// nothing else that it may have stumbled over.
std::string as_dead_letter(const Entry& entry, const std::string& error) {
    const auto members = json_members(entry.json);
    std::string out = "{";
    for (const auto& [name, value] : members) {
        const bool is_text = name == "source" || name == "event_type" || name == "tenant_id";
        if (name == "event_id")
            out.append(out.size() > 1 ? ",\"" : "\"").append(name).append("\":").append(short_id(value));
        else if (name == "headers" || (is_text && value.size() <= every_text_may_have))
            out.append(out.size() > 1 ? ",\"" : "\"").append(name).append("\":").append(value);
    }
    append_bytes(out, entry.body);
    append_error(out, error);
    return out + "}";
}

class PostgresSink final : public relay::Sink {
  public:
    explicit PostgresSink(Options options) : options_(std::move(options)) {}

    relay::SinkTraits traits() const override {
        return {.keeps_order_after_failure = true, .keeps_poison = true};
    }

    void check() override {
        postgres::Connection connection(options_.url, "baton relay");
        if (connection.value(
                "select to_regprocedure('baton.receive_many(text, jsonb, name[])') is not null") != "t")
            throw Error("the database has no baton: run baton init on it");
        if (!options_.inbox.empty())
            connection.query("select * from baton.receive_many($1, '[]')", {options_.inbox});
    }

    void send(std::span<const Message> messages) override {
        for (const auto& message : messages) {
            // Once something failed, nothing is taken until that is known: none may overtake.
            if (refusing_)
                done_.push_back({message.ticket, Verdict::retry, trouble_, {}});
            else
                waiting_.push_back({message.ticket, message.destination, as_inbox_message(message, options_),
                                    message.body, message.event != nullptr && message.event->from_broker});
        }
        attempt([this] { begin_batch(); });
    }

    void collect(std::vector<relay::Delivery>& deliveries, milliseconds patience) override {
        const auto end = Clock::now() + patience;
        attempt([&] {
            do {
                begin_batch();
                if (flying_.empty()) break;
                finish_batch(done_.empty() ? std::chrono::ceil<milliseconds>(end - Clock::now())
                                           : milliseconds(0));
            } while (done_.empty() && Clock::now() < end);
        });
        std::move(done_.begin(), done_.end(), std::back_inserter(deliveries));
        done_.clear();
        refusing_ = false;
    }

    std::string trouble() override { return trouble_; }

  private:
    // Do it; when the connection or the server fails, everything held here is to be sent again.
    template <class Step>
    void attempt(const Step& step) {
        try {
            step();
        } catch (const std::exception& error) {
            give_back(error.what());
            connection_.reset();
        }
    }

    // `verdict` is on the batch under way; those that wait behind it are only kept from overtaking.
    void give_back(const std::string& why, Verdict verdict = Verdict::retry) {
        trouble_ = why;
        refusing_ = !flying_.empty() || !waiting_.empty();
        for (const auto& entry : flying_) done_.push_back({entry.ticket, verdict, why, {}});
        for (const auto& entry : waiting_) done_.push_back({entry.ticket, Verdict::retry, why, {}});
        flying_.clear();
        waiting_.clear();
    }

    // Send the next batch, unless one is under way or there is none.
    void begin_batch() {
        if (!flying_.empty() || waiting_.empty()) return;
        if (!connection_) connection_ = std::make_unique<postgres::Connection>(options_.url, "baton relay");
        if (!may_send()) throw ConnectionError(lease_is_over);
        PQsetnonblocking(connection_->native(), 1);
        const std::string inbox = waiting_.front().inbox;
        std::string messages = "[";
        while (!waiting_.empty() && waiting_.front().inbox == inbox && flying_.size() < batch_messages) {
            Entry& next = waiting_.front();
            const bool first = flying_.empty();
            if (!first &&
                (next.alone || flying_.front().alone || messages.size() + next.json.size() > batch_bytes))
                break;
            messages.append(first ? "" : ",").append(next.json);
            flying_.push_back(std::move(next));
            waiting_.pop_front();
        }
        messages += ']';
        const std::array<const char*, 2> values{inbox.c_str(), messages.c_str()};
        if (PQsendQueryParams(connection_->native(), statement, 2, nullptr, values.data(), nullptr, nullptr,
                              0) == 0)
            throw ConnectionError(PQerrorMessage(connection_->native()));
        sent_at_ = Clock::now();
    }

    // Wait for the answer to the batch under way, at most so long.
    void finish_batch(milliseconds patience) {
        const auto end = Clock::now() + std::max(patience, milliseconds(0));
        PGconn* native = connection_->native();
        for (;;) {
            const int unsent = PQflush(native);
            if (unsent < 0 || PQconsumeInput(native) == 0)
                throw ConnectionError(PQerrorMessage(native), true);
            if (unsent == 0 && PQisBusy(native) == 0) return take_answer();
            if (Clock::now() - sent_at_ > options_.timeout)
                throw ConnectionError("the server does not answer", true);
            const auto left =
                std::chrono::ceil<milliseconds>(std::min(end, sent_at_ + options_.timeout) - Clock::now());
            if (Clock::now() >= end) return;
            pollfd socket{PQsocket(native), static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN), 0};
            ::poll(&socket, 1, static_cast<int>(std::max<milliseconds::rep>(left.count(), 1)));
        }
    }

    void take_answer() {
        PGresult* answer = PQgetResult(connection_->native());
        try {
            connection_->check(answer);
        } catch (const SqlError& error) {
            drain();
            const Verdict verdict = verdict_on_state(error);
            if (verdict == Verdict::retry) throw;
            if (verdict == Verdict::shut) return give_back(words_of(error), Verdict::shut);
            // Nothing but the inbox keeps what came from a broker: it waits until the inbox can take it.
            if (flying_.front().from_broker && flying_.front().buried) throw;
            return blame(error);
        }
        drain();
        trouble_.clear();
        for (const auto& entry : flying_) done_.push_back({entry.ticket, Verdict::delivered, {}, {}});
        flying_.clear();
    }

    // Read up to the end of the statement's answer.
    void drain() {
        while (PGresult* rest = PQgetResult(connection_->native())) PQclear(rest);
    }

    // The server refused the batch: reject its only message, or send each again by itself. What came from a
    // broker is not rejected but sent again as a dead letter.
    void blame(const SqlError& error) {
        Entry& first = flying_.front();
        if (flying_.size() == 1 && first.from_broker) {
            first.json = as_dead_letter(first, words_of(error));
            first.buried = first.alone = true;
            waiting_.push_front(std::move(first));
        } else if (flying_.size() == 1) {
            done_.push_back({first.ticket, Verdict::rejected, words_of(error), {}});
        } else {
            for (auto entry = flying_.rbegin(); entry != flying_.rend(); ++entry) {
                entry->alone = true;
                waiting_.push_front(std::move(*entry));
            }
        }
        flying_.clear();
    }

    Options options_;
    std::unique_ptr<postgres::Connection> connection_;
    std::deque<Entry> waiting_;
    std::vector<Entry> flying_;
    Clock::time_point sent_at_{};
    std::vector<relay::Delivery> done_;
    std::string trouble_;
    bool refusing_ = false;
};

}  // namespace

std::unique_ptr<relay::Sink> make_postgres_sink(const relay::Settings& settings) {
    Options options;
    options.url = settings.text("url");
    const std::string inbox = settings.text("inbox", "");
    if (inbox.find_first_of("{,") == std::string::npos) options.inbox = inbox;
    options.source = settings.text("source", "");
    options.sequence_header = settings.text("sequence_header", "");
    options.priority_header = settings.text("priority_header", "");
    options.timeout = settings.duration("timeout", std::chrono::seconds(30));
    return std::make_unique<PostgresSink>(std::move(options));
}

}  // namespace baton::brokers
