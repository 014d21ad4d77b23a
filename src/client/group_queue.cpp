#include <algorithm>

#include "client/queue.hpp"

namespace baton::client {

namespace {

using postgres::Connection;
using postgres::Result;
using Clock = std::chrono::steady_clock;

// A consumer counts as gone when nothing was heard of it for a minute.
constexpr std::chrono::seconds heartbeat_every{20};

constexpr const char* poll_sql =
    "select id, event_id, event_type, case when $5 then payload #>> '{}' else payload::text end, "
    "payload_bytes, schema_version, attempt, headers, aggregate_id, trace_id, "
    "(extract(epoch from occurred_at) * 1000000)::bigint, aggregate_type, partition_key, topic, tenant_id, "
    "correlation_id, causation_id, idempotency_key, lease_token from baton.poll_outbox($1, $2, $3, $4)";

enum Place {
    id,
    event_id,
    event_type,
    payload,
    payload_bytes,
    schema_version,
    attempt,
    headers,
    aggregate_id,
    trace_id,
    occurred_at,
    aggregate_type,
    partition_key,
    topic,
    tenant_id,
    correlation_id,
    causation_id,
    idempotency_key,
    lease_token
};

std::string read_bytes(const Result& rows, int row, int column) {
    std::size_t length = 0;
    const std::unique_ptr<unsigned char, decltype(&PQfreemem)> bytes(
        PQunescapeBytea(reinterpret_cast<const unsigned char*>(rows.view(row, column).data()), &length),
        &PQfreemem);
    if (!bytes) throw Error("out of memory");
    return {reinterpret_cast<const char*>(bytes.get()), length};
}

Delivery read_event(const Result& rows, int row) {
    Delivery event;
    event.position = rows.number(row, id);
    event.id = EventId(rows.text(row, event_id));
    event.type = rows.text(row, event_type);
    event.payload =
        rows.is_null(row, payload_bytes) ? rows.text(row, payload) : read_bytes(rows, row, payload_bytes);
    event.schema_version = rows.number<int>(row, schema_version);
    event.attempt = rows.number<int>(row, attempt);
    event.headers = read_headers(rows, row, headers);
    event.aggregate_id = rows.optional_text(row, aggregate_id);
    event.trace_id = rows.optional_text(row, trace_id);
    event.at = Timestamp(std::chrono::microseconds(rows.number(row, occurred_at)));
    event.aggregate_type = rows.optional_text(row, aggregate_type);
    event.partition_key = rows.optional_text(row, partition_key);
    event.topic = rows.optional_text(row, topic);
    event.tenant_id = rows.optional_text(row, tenant_id);
    event.correlation_id = rows.optional_text(row, correlation_id);
    event.causation_id = rows.optional_text(row, causation_id);
    event.idempotency_key = rows.optional_text(row, idempotency_key);
    return event;
}

class GroupQueue final : public Queue {
  public:
    explicit GroupQueue(QueueOptions options) : options_(std::move(options)) {}

    void open(Connection& db) override {
        const auto group =
            db.query("select outbox, payload_type from baton.describe_group($1)", {options_.name});
        outbox_ = group.text(0, 0);
        holds_text_ = group.view(0, 1) == "text";
    }

    Batch take(Connection& db) override {
        const auto rows = db.query(
            poll_sql, {options_.name, options_.worker, options_.batch, options_.lease_seconds, holds_text_});
        Batch batch;
        if (rows.empty()) {
            show_life(db);
            return batch;
        }
        last_heard_ = Clock::now();
        batch.token = rows.text(0, lease_token);
        for (int row = 0; row < rows.rows(); ++row) batch.deliveries.push_back(read_event(rows, row));
        return batch;
    }

    void settle(Connection& db, const std::string& token, std::span<const Delivery> done) override {
        std::vector<long long> ids;
        for (const auto& event : done) ids.push_back(event.position);
        db.query("select baton.commit_events($1, $2, $3::bigint[], $4)",
                 {options_.name, options_.worker, postgres::array_literal(ids), token});
    }

    Parked fail(Connection& db, const std::string& token, const Delivery& event,
                const Failure& failure) override try {
        const auto rows =
            db.query("select id, state from baton.fail_events($1, $2, array[$3::bigint], $4, $5, $6, $7)",
                     {options_.name, options_.worker, event.position, failure.error, failure.permanent, token,
                      interval_or_null(failure.after)});
        Parked parked;
        for (int row = 0; row < rows.rows(); ++row) {
            if (rows.number(row, 0) == event.position)
                parked.dead = rows.view(row, 1) == "dead";
            else
                parked.held_back.push_back(rows.number(row, 0));
        }
        return parked;
    } catch (const SqlError& error) {  // not in the lease any more, but others are
        if (error.sqlstate() != "BT002") throw;
        throw LeaseLost(error.what(), "BT001", error.detail(), error.hint());
    }

    void release(Connection& db, const std::string& token, std::span<const Delivery> /*left*/) override {
        db.query("select baton.release_lease($1, $2, $3)", {options_.name, options_.worker, token});
    }

    void extend(Connection& db, const std::string& token, std::span<const EventId> /*ids*/) const override {
        db.query("select baton.extend_lease($1, $2, $3, $4), baton.consumer_heartbeat($1, $2)",
                 {options_.name, options_.worker, options_.lease_seconds, token});
    }

    bool one_lease_for_all() const override { return true; }

    QueueNames names() const override { return {outbox_, options_.name}; }

    std::unique_ptr<postgres::Doorbell> doorbell() const override {
        return postgres::make_doorbell(options_.conninfo, outbox_, options_.worker + " " + options_.name,
                                       "auto",
                                       std::make_shared<postgres::Patience>(postgres::Patience::short_work));
    }

  private:
    // An idle consumer says now and then that it is there.
    void show_life(Connection& db) {
        if (Clock::now() < last_heard_ + heartbeat_every) return;
        db.query("select baton.consumer_heartbeat($1, $2)", {options_.name, options_.worker});
        last_heard_ = Clock::now();
    }

    QueueOptions options_;
    std::string outbox_;
    bool holds_text_ = false;
    Clock::time_point last_heard_{};
};

}  // namespace

std::unique_ptr<Queue> make_group_queue(QueueOptions options) {
    return std::make_unique<GroupQueue>(std::move(options));
}

}  // namespace baton::client
