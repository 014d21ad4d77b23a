#include "tables/adopted_reader.hpp"

#include <algorithm>

#include "tables/lease.hpp"

namespace baton::tables {

using namespace std::chrono_literals;
using postgres::Connection;
using relay::BatchPtr;
using relay::Failure;
using relay::milliseconds;

namespace {

// In the order of baton_internal.relay_event_sql().
constexpr const char* read_batch =
    "select e.id, e.event_id, e.tenant_id, e.aggregate_type, e.aggregate_id, e.event_type, e.schema_version, "
    "coalesce(nullif(array_to_string(e.routing_keys, ','), ''), e.topic), e.partition_key, "
    "case when e.fits then e.payload::text end, case when e.fits then e.headers::text end, e.trace_id, "
    "e.correlation_id, e.causation_id, e.idempotency_key, "
    "(extract(epoch from case when e.occurred_at >= '0001-01-01 00:00+00' and e.occurred_at < '9999-12-31 "
    "00:00+00' then e.occurred_at else now() end) * 1000000)::bigint, e.attempt, "
    "case when not e.fits then e.bytes end "
    "from (select e.*, e.bytes <= $5 and (e.upto <= $6 or e.upto = e.bytes) as fits "
    "from (select e.*, sum(case when e.bytes <= $5 then e.bytes else 0 end) "
    "over (order by e.place rows unbounded preceding) as upto "
    "from (select e.*, (coalesce(octet_length(e.payload::text), 0) + coalesce(octet_length(e.headers::text), "
    "0))::bigint as bytes from baton.read_consumer_batch($1, $2, $3, $4) with ordinality as e (id, event_id, "
    "tenant_id, aggregate_type, aggregate_id, event_type, schema_version, topic, partition_key, "
    "routing_keys, "
    "payload, headers, trace_id, correlation_id, causation_id, idempotency_key, occurred_at, attempt, "
    "place)) "
    "e) e) e order by e.place";

}  // namespace

std::unique_ptr<AdoptedReader> AdoptedReader::take(const ReaderOptions& options, Holder& holder) {
    auto patience = std::make_shared<postgres::Patience>(postgres::Patience::short_work);
    auto db = std::make_unique<Connection>(options.conninfo, "baton relay " + options.table, patience);
    std::unique_ptr<AdoptedReader> made(new AdoptedReader(options, std::move(patience), std::move(db)));
    if (made->begin_batch()) return made;
    holder = {"another member of " + options.consumer, "its batch is done"};
    return nullptr;
}

AdoptedReader::AdoptedReader(const ReaderOptions& options, PatiencePtr patience,
                             std::unique_ptr<Connection> db)
    : TableFeed(std::move(patience), options.max_event_bytes),
      options_(options),
      limit_(options.batch),
      db_(std::move(db)) {}

void AdoptedReader::give_up(const std::string& why) {
    const std::lock_guard lock(mutex_);
    failure_ = why;
    written_.notify_all();
}

// Lock the offset and read what is after it. When there is nothing the lock is given back.
bool AdoptedReader::begin_batch() {
    began_ = kept_at_ = Clock::now();
    patience_->lasts_until(session_end(kept_at_, options_.lease));
    db_->exec(
        "begin; set local lock_timeout = '100ms'; set local statement_timeout = 0; "
        "set local idle_in_transaction_session_timeout = " +
        std::to_string(options_.lease.count()));
    const std::int64_t limit = load_limit_.bytes();
    try {
        auto rows = db_->query(read_batch, {options_.table, options_.consumer, options_.partition, limit_,
                                            limit, static_cast<std::int64_t>(options_.batch_bytes)});
        if (!rows.empty()) {
            current_ = std::make_shared<AdoptedBatch>(std::move(rows), PayloadKind::json, limit);
            // The server unpacks what it does not send.
            limit_ = current_->cut ? static_cast<int>(current_->events.size())
                                   : std::min(std::max(limit_, 1) * 4, options_.batch);
            current_->number = next_number_++;
            given_ = false;
            return true;
        }
    } catch (const SqlError& error) {
        db_->exec("rollback");
        no_batch();
        if (error.sqlstate() == "55P03") return false;
        throw;
    }
    db_->exec("commit");
    no_batch();
    nap_ = std::min(std::max<milliseconds>(nap_ * 2, 5ms), options_.poll);
    sleep_until_ = Clock::now() + nap_;
    return true;
}

// Without a batch there is nothing that could be lost.
void AdoptedReader::no_batch() {
    current_.reset();
    patience_->lasts_until(Clock::time_point::max());
}

BatchPtr AdoptedReader::read(milliseconds patience) {
    return guarded([&]() -> BatchPtr {
        const auto deadline = Clock::now() + patience;
        for (;;) {
            do_chores();
            if (!current_ && Clock::now() >= sleep_until_ && !begin_batch())
                sleep_until_ = Clock::now() + 50ms;
            if (current_ && !given_) {
                given_ = true;
                nap_ = 0ms;
                return current_;
            }
            if (wakeup_.interrupted() || Clock::now() >= deadline) return nullptr;
            wait(current_ ? deadline : std::min(deadline, sleep_until_));
        }
    });
}

void AdoptedReader::close() {
    guarded([&] {
        do_chores();
        if (current_) db_->exec("rollback");
        no_batch();
    });
}

void AdoptedReader::wait(Clock::time_point until) {
    until = std::min(until, patience_->end());
    if (current_) until = std::min({until, kept_at_ + options_.lease / 4, began_ + options_.hold_limit});
    wakeup_.wait(until);
}

void AdoptedReader::settle(const BatchPtr& batch, std::size_t done, std::vector<Failure> failures) {
    const std::lock_guard lock(mutex_);
    if (!refused_.empty()) return;
    done_ = done;
    unwritten_ = true;
    if (!failures.empty()) {
        const auto& first = failures.front();
        done_ = static_cast<std::size_t>(first.event - batch->events.data());
        refused_ = "event " + std::string(first.event->source_id) + " cannot be delivered: " + first.error;
    }
    wakeup_.ring();
}

void AdoptedReader::flush() {
    std::unique_lock lock(mutex_);
    flushing_ = true;
    wakeup_.ring();
    written_.wait(lock, [&] { return !unwritten_ || !failure_.empty(); });
    if (unwritten_) throw ConnectionError("the offset was not written: " + failure_);
}

// Move the offset when the batch is done, when it can go no further, or when that is asked for.
void AdoptedReader::do_chores() {
    if (patience_->over()) throw ConnectionError("the database does not answer, and the lease would run out");
    std::size_t done = 0;
    std::string refused;
    bool complete = false;
    {
        const std::lock_guard lock(mutex_);
        done = done_;
        refused = refused_;
        complete =
            unwritten_ && (flushing_ || !refused.empty() || (current_ && done == current_->events.size()));
        flushing_ = false;
    }
    if (complete) {
        move_offset(done);
        if (!refused.empty())
            throw Error(refused, "mend it or its destination, or skip it with baton.set_consumer_offset()");
    } else if (current_ && Clock::now() >= began_ + options_.hold_limit) {
        end_long_batch(done);
    } else if (current_ && Clock::now() >= kept_at_ + options_.lease / 4) {
        const auto now = Clock::now();
        db_->exec("select 1");
        kept_at_ = now;
        patience_->lasts_until(session_end(now, options_.lease));
    }
}

void AdoptedReader::end_long_batch(std::size_t done) {
    if (done > 0)
        move_offset(done);
    else
        db_->exec("rollback");
    no_batch();
    throw relay::HeldTooLong("events of " + options_.table + " were held for " +
                             postgres::in_words(options_.hold_limit) +
                             " without being delivered: they are given back until the sink takes events");
}

void AdoptedReader::move_offset(std::size_t done) {
    if (!current_) throw LeaseLost("a batch was given back before it was settled", "BT001");
    if (done > 0)
        db_->query(
            "select baton.advance_consumer_offset($1, $2, $3::bigint, $4)",
            {options_.table, options_.consumer, current_->events[done - 1].source_id, options_.partition});
    db_->exec("commit");
    no_batch();
    const std::lock_guard lock(mutex_);
    unwritten_ = false;
    done_ = 0;
    written_.notify_all();
}

}  // namespace baton::tables
