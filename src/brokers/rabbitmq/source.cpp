#include "brokers/rabbitmq/source.hpp"

#include <poll.h>

#include <fmt/format.h>

#include "brokers/rabbitmq/connection.hpp"
#include "brokers/rabbitmq/form.hpp"
#include "event/json.hpp"
#include "intake/broker_feed.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr amqp_channel_t channel = 1;

struct Options {
    RabbitSettings server;
    std::string queue;
    std::uint16_t prefetch = 0;
    intake::BrokerFeed::Pace pace;
};

struct RabbitBatch final : intake::BrokerBatch {
    std::vector<amqp_envelope_t> envelopes;

    ~RabbitBatch() override {
        events.clear();
        for (auto& envelope : envelopes) amqp_destroy_envelope(&envelope);
    }
};

amqp_bytes_t bytes_of(std::string_view text) {
    return {text.size(), const_cast<char*>(text.data())};  // the library only reads them
}

std::string_view view_of(const amqp_bytes_t& bytes) {
    return bytes.len == 0 ? std::string_view("")
                          : std::string_view(static_cast<const char*>(bytes.bytes), bytes.len);
}

// Write a value of a header's table as text; what is inside of lists and tables as JSON.
std::string text_of(const amqp_field_value_t& value, bool inside) {
    const auto quoted = [inside](std::string_view text) {
        std::string out;
        if (!inside) return std::string(text);
        append_json_string(out, text);
        return out;
    };
    std::string out;
    switch (value.kind) {
        case AMQP_FIELD_KIND_UTF8:
        case AMQP_FIELD_KIND_BYTES:
            return quoted(view_of(value.value.bytes));
        case AMQP_FIELD_KIND_BOOLEAN:
            return value.value.boolean != 0 ? "true" : "false";
        case AMQP_FIELD_KIND_I8:
            return std::to_string(value.value.i8);
        case AMQP_FIELD_KIND_U8:
            return std::to_string(value.value.u8);
        case AMQP_FIELD_KIND_I16:
            return std::to_string(value.value.i16);
        case AMQP_FIELD_KIND_U16:
            return std::to_string(value.value.u16);
        case AMQP_FIELD_KIND_I32:
            return std::to_string(value.value.i32);
        case AMQP_FIELD_KIND_U32:
            return std::to_string(value.value.u32);
        case AMQP_FIELD_KIND_I64:
            return std::to_string(value.value.i64);
        case AMQP_FIELD_KIND_U64:
        case AMQP_FIELD_KIND_TIMESTAMP:
            return std::to_string(value.value.u64);
        case AMQP_FIELD_KIND_F32:
            return fmt::format("{}", value.value.f32);
        case AMQP_FIELD_KIND_F64:
            return fmt::format("{}", value.value.f64);
        case AMQP_FIELD_KIND_DECIMAL:
            return fmt::format("{}e-{}", value.value.decimal.value, value.value.decimal.decimals);
        case AMQP_FIELD_KIND_ARRAY:
            for (int i = 0; i < value.value.array.num_entries; ++i)
                out += (i > 0 ? "," : "") + text_of(value.value.array.entries[i], true);
            return "[" + out + "]";
        case AMQP_FIELD_KIND_TABLE:
            for (int i = 0; i < value.value.table.num_entries; ++i) {
                if (i > 0) out += ',';
                append_json_string(out, view_of(value.value.table.entries[i].key));
                out += ':' + text_of(value.value.table.entries[i].value, true);
            }
            return "{" + out + "}";
        default:
            return inside ? "null" : "";
    }
}

class RabbitFeed final : public intake::BrokerFeed {
  public:
    RabbitFeed(const Options& options, const intake::Decoder& decoder)
        : intake::BrokerFeed(options.pace),
          options_(options),
          decoder_(decoder),
          connection_(options.server) {
        connection_.connect();
        connection_.log_in();
        amqp_connection_state_t state = connection_.native();
        amqp_basic_qos(state, channel, 0, options.prefetch, 0);
        connection_.expect_ok(amqp_get_rpc_reply(state), "setting the prefetch");
        amqp_basic_consume(state, channel, bytes_of(options.queue), amqp_empty_bytes, 0, 0, 0,
                           amqp_empty_table);
        connection_.expect_ok(amqp_get_rpc_reply(state), "consuming queue " + options.queue);
    }

  protected:
    std::shared_ptr<intake::BrokerBatch> receive(Clock::time_point until) override;
    void acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) override;
    bool send_acknowledgements() override;
    void idle(Clock::time_point until) override;
    void leave() override;

  private:
    bool take(RabbitBatch& batch);
    void add(RabbitBatch& batch, const amqp_envelope_t& envelope);
    void add_headers(RabbitBatch& batch, const amqp_basic_properties_t& properties,
                     intake::Incoming& incoming);
    [[noreturn]] void hear_the_end();

    const Options& options_;
    const intake::Decoder& decoder_;
    RabbitConnection connection_;
    std::uint64_t settled_ = 0;  // delivery tags
    std::uint64_t acknowledged_ = 0;
    Clock::time_point beat_at_{};
};

std::shared_ptr<intake::BrokerBatch> RabbitFeed::receive(Clock::time_point until) {
    amqp_connection_state_t state = connection_.native();
    // The library's heartbeat runs only inside its calls.
    until = std::min(until, Clock::now() + milliseconds(options_.server.heartbeat) / 2);
    auto batch = std::make_shared<RabbitBatch>();
    if (amqp_frames_enqueued(state) == 0 && amqp_data_in_buffer(state) == 0)
        wait(connection_.fd(), POLLIN, until);
    while (!is_full(*batch) && take(*batch)) {
    }
    return batch->events.empty() ? nullptr : batch;
}

// Read the next message, if one has begun to come; false when none has.
bool RabbitFeed::take(RabbitBatch& batch) {
    const timeval now{};
    amqp_envelope_t envelope;
    amqp_maybe_release_buffers(connection_.native());
    const amqp_rpc_reply_t reply = amqp_consume_message(connection_.native(), &envelope, &now, 0);
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && reply.library_error == AMQP_STATUS_TIMEOUT)
        return false;
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
        reply.library_error == AMQP_STATUS_UNEXPECTED_STATE)
        hear_the_end();
    connection_.expect_ok(reply, "consuming queue " + options_.queue);
    batch.envelopes.push_back(envelope);
    add(batch, batch.envelopes.back());
    return true;
}

// Something else than a message came: that is the end of the connection, the channel or the consumer.
void RabbitFeed::hear_the_end() {
    amqp_frame_t frame;
    connection_.expect_ok(amqp_simple_wait_frame(connection_.native(), &frame), "listening");
    std::string_view words = "something unexpected";
    if (frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_CHANNEL_CLOSE_METHOD)
        words = view_of(static_cast<amqp_channel_close_t*>(frame.payload.method.decoded)->reply_text);
    else if (frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_CONNECTION_CLOSE_METHOD)
        words = view_of(static_cast<amqp_connection_close_t*>(frame.payload.method.decoded)->reply_text);
    else if (frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_CANCEL_METHOD)
        words = "the queue is gone";
    throw ConnectionError("rabbitmq, consuming queue " + options_.queue + ": " + std::string(words));
}

void RabbitFeed::add(RabbitBatch& batch, const amqp_envelope_t& envelope) {
    const amqp_message_t& message = envelope.message;
    const auto& properties = message.properties;
    const auto has = [&properties](amqp_flags_t flag) { return (properties._flags & flag) != 0; };
    intake::Incoming incoming;
    incoming.topic = view_of(envelope.routing_key);
    incoming.body = view_of(message.body);
    if (has(AMQP_BASIC_CONTENT_TYPE_FLAG)) incoming.content_type = view_of(properties.content_type);
    if (has(AMQP_BASIC_MESSAGE_ID_FLAG)) incoming.message_id = view_of(properties.message_id);
    if (has(AMQP_BASIC_TIMESTAMP_FLAG))
        incoming.time = intake::broker_time(std::chrono::seconds(properties.timestamp));
    add_headers(batch, properties, incoming);
    decoder_.decode(incoming, batch);
}

// The table of headers, and the properties that have no other place.
void RabbitFeed::add_headers(RabbitBatch& batch, const amqp_basic_properties_t& properties,
                             intake::Incoming& incoming) {
    if ((properties._flags & AMQP_BASIC_HEADERS_FLAG) != 0)
        for (int i = 0; i < properties.headers.num_entries; ++i) {
            const auto& entry = properties.headers.entries[i];
            const bool bytes =
                entry.value.kind == AMQP_FIELD_KIND_UTF8 || entry.value.kind == AMQP_FIELD_KIND_BYTES;
            incoming.headers.push_back({view_of(entry.key), bytes ? view_of(entry.value.value.bytes)
                                                                  : batch.keep(text_of(entry.value, false))});
        }
    const auto add = [&](amqp_flags_t flag, const char* name, const amqp_bytes_t& value) {
        if ((properties._flags & flag) == 0) return;
        for (const auto& header : incoming.headers)
            if (header.name == name) return;
        incoming.headers.push_back({name, view_of(value)});
    };
    add(AMQP_BASIC_TYPE_FLAG, "event-type", properties.type);
    add(AMQP_BASIC_CORRELATION_ID_FLAG, "correlation-id", properties.correlation_id);
    add(AMQP_BASIC_CONTENT_ENCODING_FLAG, "content-encoding", properties.content_encoding);
    add(AMQP_BASIC_REPLY_TO_FLAG, "reply-to", properties.reply_to);
    add(AMQP_BASIC_APP_ID_FLAG, "app-id", properties.app_id);
    add(AMQP_BASIC_USER_ID_FLAG, "user-id", properties.user_id);
    if ((properties._flags & AMQP_BASIC_PRIORITY_FLAG) != 0)
        incoming.headers.push_back({"priority", batch.keep(std::to_string(properties.priority))});
}

void RabbitFeed::acknowledge(const intake::BrokerBatch& batch, std::size_t, std::size_t to) {
    settled_ = static_cast<const RabbitBatch&>(batch).envelopes[to - 1].delivery_tag;
}

bool RabbitFeed::send_acknowledgements() {
    if (settled_ > acknowledged_)
        connection_.expect_ok(amqp_basic_ack(connection_.native(), channel, settled_, 1), "acknowledging");
    acknowledged_ = settled_;
    return true;
}

// Without reading, which would fill memory, tell the broker that we are there.
void RabbitFeed::idle(Clock::time_point until) {
    if (Clock::now() >= beat_at_) {
        amqp_frame_t beat{};
        beat.frame_type = AMQP_FRAME_HEARTBEAT;
        connection_.expect_ok(amqp_send_frame(connection_.native(), &beat), "sending a heartbeat");
        beat_at_ = Clock::now() + milliseconds(options_.server.heartbeat) / 2;
    }
    wait(-1, 0, until);
}

// Closing the channel also makes sure that the acknowledgements before it have been heard.
void RabbitFeed::leave() {
    connection_.expect_ok(amqp_channel_close(connection_.native(), channel, AMQP_REPLY_SUCCESS),
                          "closing the channel");
}

class RabbitSource final : public BrokerSource {
  public:
    RabbitSource(Options options, intake::Decoder decoder)
        : options_(std::move(options)), decoder_(std::move(decoder)) {}

    std::unique_ptr<relay::Feed> open() const override {
        return std::make_unique<RabbitFeed>(options_, decoder_);
    }

    void check() const override {
        RabbitConnection trial(options_.server);
        trial.connect();
        trial.log_in();
        amqp_queue_declare(trial.native(), channel, bytes_of(options_.queue), 1, 0, 0, 0, amqp_empty_table);
        trial.expect_ok(amqp_get_rpc_reply(trial.native()), "looking for queue " + options_.queue);
    }

  private:
    Options options_;
    intake::Decoder decoder_;
};

}  // namespace

std::unique_ptr<BrokerSource> make_rabbitmq_source(const relay::Settings& settings, const Reader&) {
    Options options;
    options.server = read_rabbit_server(settings);
    options.queue = settings.text("queue");
    if (options.queue.size() > 255) settings.refuse("queue", "is longer than 255 bytes");
    options.prefetch = static_cast<std::uint16_t>(settings.count("prefetch", 2000, 65535));
    options.pace = intake::BrokerFeed::Pace::read(settings);
    return std::make_unique<RabbitSource>(std::move(options),
                                          intake::Decoder(settings, "rabbitmq", rabbitmq_form.headers));
}

}  // namespace baton::brokers
