#include "client/queue.hpp"

namespace baton::client {

namespace {

using postgres::Connection;
using postgres::Result;

constexpr const char* claim_sql =
    "select event_id, event_type, source, aggregate_id, payload, headers, trace_id, "
    "(extract(epoch from received_at) * 1000000)::bigint, sequence_num, attempt, lease_token, "
    "coalesce(headers ->> 'schema-version', headers ->> 'schema_version') "
    "from baton.claim_inbox($1, $2, $3, $4, nullif($5, ''))";

enum Place {
    event_id,
    event_type,
    source,
    aggregate_id,
    payload,
    headers,
    trace_id,
    received_at,
    sequence_num,
    attempt,
    lease_token,
    schema_version
};

// A sender's word, so it may be anything.
int read_version(const Result& rows, int row) {
    const auto text = rows.view(row, schema_version);
    int version = 1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
    return error == std::errc{} && end == text.data() + text.size() ? version : 1;
}

std::optional<std::string> header(const Delivery& message, const char* name) {
    const auto found = message.headers.find(name);
    return found == message.headers.end() ? std::nullopt : std::optional(found->second);
}

Delivery read_message(const Result& rows, int row) {
    Delivery message;
    message.id = EventId(rows.text(row, event_id));
    message.type = rows.text(row, event_type);
    message.source = rows.optional_text(row, source);
    message.aggregate_id = rows.optional_text(row, aggregate_id);
    message.payload = rows.text(row, payload);
    message.headers = read_headers(rows, row, headers);
    message.trace_id = rows.optional_text(row, trace_id);
    message.at = Timestamp(std::chrono::microseconds(rows.number(row, received_at)));
    if (!rows.is_null(row, sequence_num)) message.sequence = rows.number(row, sequence_num);
    message.attempt = rows.number<int>(row, attempt);
    message.schema_version = read_version(rows, row);
    message.correlation_id = header(message, "correlation-id");
    message.causation_id = header(message, "causation-id");
    message.idempotency_key = header(message, "idempotency-key");
    return message;
}

std::string ids_of(std::span<const Delivery> messages) {
    std::vector<std::string> ids;
    for (const auto& message : messages) ids.push_back(message.id.str());
    return postgres::array_literal(ids);
}

class InboxQueue final : public Queue {
  public:
    explicit InboxQueue(QueueOptions options) : options_(std::move(options)) {}

    // The first claim says what is wrong, if something is.
    void open(Connection&) override {}

    Batch take(Connection& db) override {
        const auto rows = db.query(claim_sql, {options_.name, options_.worker, options_.batch,
                                               options_.lease_seconds, options_.tier});
        Batch batch;
        if (rows.empty()) return batch;
        batch.token = rows.text(0, lease_token);
        for (int row = 0; row < rows.rows(); ++row) batch.deliveries.push_back(read_message(rows, row));
        return batch;
    }

    void settle(Connection& db, const std::string& token, std::span<const Delivery> done) override {
        db.query("select baton.complete_inbox($1, $2::text[], $3)", {options_.name, ids_of(done), token});
    }

    Parked fail(Connection& db, const std::string& token, const Delivery& message,
                const Failure& failure) override {
        db.query(
            "select baton.fail_inbox($1, $2::text, $3, permanent => $4, lease_token => $5, retry_after => "
            "$6)",
            {options_.name, message.id.str(), failure.error, failure.permanent, token,
             interval_or_null(failure.after)});
        return {.dead = failure.permanent, .held_back = {}};
    }

    // One by one: some may be settled or lost, and the others are still to be given back.
    void release(Connection& db, const std::string& token, std::span<const Delivery> left) override {
        for (const auto& message : left) try {
                db.query("select baton.release_inbox($1, $2::text[], $3)",
                         {options_.name, ids_of({&message, 1}), token});
            } catch (const LeaseLost&) {
            }
    }

    void extend(Connection& db, const std::string& token, std::span<const EventId> ids) const override {
        std::vector<std::string> texts;
        for (const auto& id : ids) texts.push_back(id.str());
        db.query("select baton.extend_inbox_lease($1, $2::text[], $3, $4)",
                 {options_.name, postgres::array_literal(texts), token, options_.lease_seconds});
    }

    bool one_lease_for_all() const override { return false; }

    QueueNames names() const override { return {options_.name, {}}; }

  private:
    QueueOptions options_;
};

}  // namespace

std::unique_ptr<Queue> make_inbox_queue(QueueOptions options) {
    return std::make_unique<InboxQueue>(std::move(options));
}

}  // namespace baton::client
