#include "tables/adopted_source.hpp"

#include <algorithm>
#include <set>

#include "tables/follow.hpp"
#include "tables/lease.hpp"

namespace baton::tables {

using namespace std::chrono_literals;
using postgres::Connection;
using relay::BatchPtr;
using relay::Failure;
using relay::milliseconds;

namespace {

// One batch is on its way to the sink, the next is there when it is done.
constexpr std::size_t claims_at_once = 2;

std::string interval(milliseconds time) {
    return std::to_string(time.count()) + " ms";
}

// What asynchronous commits made visible may leave the database only when it is on disk. A commit of our own
// that waits for the disk brings everything before it there.
constexpr const char* wait_for_disk =
    "select set_config('synchronous_commit', 'local', true) where current_setting('synchronous_commit') = "
    "'off'";

}  // namespace

std::unique_ptr<AdoptedSource> AdoptedSource::take(const AdoptedOptions& options, Holder& holder) {
    auto patience = std::make_shared<postgres::Patience>(postgres::Patience::short_work);
    auto db = std::make_unique<Connection>(options.conninfo, "baton relay " + options.table, patience);
    auto table = AdoptedTable::find(*db, options.table);
    const bool ordered = options.ordered.value_or(table.has_partition_key());
    // Without the worker's name in the table nothing else would keep a slow relay from settling.
    const bool alone = ordered || (table.keeps_locks() && !table.knows_worker());
    std::string epoch;
    const auto asked = Clock::now();
    if (alone) {
        patience->lasts_until(session_end(asked, options.lease));
        const auto taken = take_or_follow([&](const std::string& gone) {
            return db->query(
                "select epoch, held_by, held_until from baton_internal.take_adopted($1, $2, $3::interval, "
                "nullif($4, ''))",
                {table.id(), options.owner, interval(options.lease), gone});
        });
        if (taken.is_null(0, 0)) {
            holder = {taken.text(0, 1), taken.text(0, 2)};
            return nullptr;
        }
        epoch = taken.text(0, 0);
    }
    std::unique_ptr<AdoptedSource> made(
        new AdoptedSource(options, std::move(patience), std::move(table), ordered, std::move(db)));
    made->epoch_ = std::move(epoch);
    made->owned_at_ = asked;
    made->reckon();
    return made;
}

AdoptedSource::AdoptedSource(const AdoptedOptions& options, PatiencePtr patience, AdoptedTable table,
                             bool ordered, Session db)
    : TableFeed(std::move(patience), options.max_event_bytes),
      options_(options),
      table_(std::move(table)),
      ordered_(ordered),
      db_(std::move(db)),
      limit_(std::min(options.batch, 100)) {
    worker_ = table_.worker_name(*db_, options_.owner);
    if (table_.keeps_locks()) table_.release_all(*db_, worker_);  // of a session that broke
    if (ordered_)
        for (auto& row : table_.held(*db_, worker_)) waiting_keys_[row.key].rows.push_back(std::move(row.id));
}

void AdoptedSource::give_up(const std::string& why) {
    const std::lock_guard lock(mutex_);
    failure_ = why;
    is_written_.notify_all();
}

BatchPtr AdoptedSource::read(milliseconds patience) {
    return guarded([&]() -> BatchPtr {
        const auto deadline = Clock::now() + patience;
        for (;;) {
            do_chores();
            const bool room = claims_.size() < claims_at_once;
            if (room && Clock::now() >= sleep_until_) {
                if (auto batch = claim()) return batch;
            }
            if (wakeup_.interrupted() || Clock::now() >= deadline) return nullptr;
            wait(room ? std::min(deadline, sleep_until_) : deadline);
        }
    });
}

// Give back what is claimed and not settled.
void AdoptedSource::close() {
    guarded([&] {
        take_notes();
        write(true);
        std::vector<std::string> rest;
        for (const auto& [number, claim] : claims_)
            for (std::size_t i = claim.done; i < claim.batch->events.size(); ++i)
                rest.emplace_back(claim.batch->events[i].source_id);
        if (table_.keeps_locks()) table_.release(*db_, rest, worker_);
        claims_.clear();
        if (!epoch_.empty()) db_->query("select baton_internal.leave_adopted($1, $2)", {table_.id(), epoch_});
    });
}

void AdoptedSource::wait(Clock::time_point until) {
    until = std::min(until, patience_->end());
    for (const auto& [number, claim] : claims_)
        until = std::min({until, claim.kept_at + held_for() / 4, claim.began + options_.hold_limit});
    if (!epoch_.empty()) until = std::min(until, owned_at_ + options_.lease / 4);
    wakeup_.wait(until);
}

// Claim the next rows. The longer there are none, the less often it is looked.
BatchPtr AdoptedSource::claim() {
    Claim claimed;
    claimed.began = claimed.kept_at = Clock::now();
    const auto batch = claim_rows(claimed, limit_);
    if (!batch) {
        nap_ = std::min(std::max<milliseconds>(nap_ * 2, 5ms), options_.poll);
        sleep_until_ = Clock::now() + nap_;
        return nullptr;
    }
    nap_ = 0ms;
    sleep_until_ = {};
    adapt_limit(*batch);
    batch->parks_heeded = parks_;
    batch->number = next_number_++;
    claimed.batch = batch;
    claims_.emplace(batch->number, std::move(claimed));
    reckon();
    return batch;
}

ClaimRoom AdoptedSource::room(int limit) const {
    return {limit, load_limit_.bytes(), static_cast<std::int64_t>(options_.batch_bytes)};
}

// Claim rows as far as there is room for them. When there is not for all, none was claimed: they are claimed
// anew, fewer.
std::shared_ptr<AdoptedBatch> AdoptedSource::claim_rows(Claim& claimed, int limit) {
    for (;;) {
        auto batch = table_.keeps_locks() ? claim_by_locks(limit) : claim_by_transaction(claimed, limit);
        if (!batch || !batch->cut) return batch;
        limit = static_cast<int>(batch->events.size());
    }
}

std::shared_ptr<AdoptedBatch> AdoptedSource::claim_by_locks(int limit) {
    postgres::Transaction transaction(*db_);
    if (!epoch_.empty()) db_->query("select baton_internal.keep_adopted($1, $2)", {table_.id(), epoch_});
    db_->exec(wait_for_disk);
    auto batch = table_.claim(*db_, worker_, room(limit), options_.lease, waiting());
    if (!batch || !batch->cut) transaction.commit();
    return batch;
}

std::shared_ptr<AdoptedBatch> AdoptedSource::claim_by_transaction(Claim& claimed, int limit) {
    if (idle_sessions_.empty())
        idle_sessions_.push_back(
            std::make_unique<Connection>(options_.conninfo, "baton relay " + options_.table, patience_));
    Session session = std::move(idle_sessions_.back());
    idle_sessions_.pop_back();
    // A silent transaction ends before the lease of its owner does, so that nobody takes over while rows are
    // still locked: a relay that lives speaks every quarter of the lease.
    session->exec("begin; set local idle_in_transaction_session_timeout = " +
                  std::to_string(options_.lease.count() / 2) + "; set local statement_timeout = 0");
    auto batch = table_.claim(*session, worker_, room(limit), options_.lease, waiting());
    if (!batch || batch->cut) {
        session->exec(batch ? "rollback" : "commit");
        idle_sessions_.push_back(std::move(session));
        return batch;
    }
    claimed.session = std::move(session);
    postgres::Transaction transaction(*db_);
    db_->exec(wait_for_disk);
    db_->exec("select pg_logical_emit_message(true, 'baton', '')");
    transaction.commit();
    return batch;
}

// Claim as many as fit into batch_bytes, judging by the last batch; grow step by step.
void AdoptedSource::adapt_limit(const AdoptedBatch& batch) {
    const std::size_t each = batch.bytes / batch.events.size() + 1;
    const auto fitting = static_cast<int>(std::min<std::size_t>(options_.batch_bytes / each, 1'000'000));
    limit_ = std::clamp(std::min(fitting, limit_ * 4), 1, options_.batch);
}

Waiting AdoptedSource::waiting() const {
    Waiting made;
    for (const auto& [key, waiting] : waiting_keys_) {
        made.keys.push_back(key);
        if (!waiting.failed.empty())
            made.except.push_back(waiting.failed);
        else
            made.except.insert(made.except.end(), waiting.rows.begin(), waiting.rows.end());
    }
    return made;
}

void AdoptedSource::settle(const BatchPtr& batch, std::size_t done, std::vector<Failure> failures) {
    const std::lock_guard lock(mutex_);
    ++settled_;
    notes_.push_back({std::static_pointer_cast<const AdoptedBatch>(batch), done, std::move(failures)});
    wakeup_.ring();
}

void AdoptedSource::flush() {
    std::unique_lock lock(mutex_);
    const auto wanted = settled_;
    flushing_ = true;
    wakeup_.ring();
    is_written_.wait(lock, [&] { return durable_ >= wanted || !failure_.empty(); });
    if (durable_ < wanted) throw ConnectionError("the last events were not settled: " + failure_);
}

void AdoptedSource::do_chores() {
    if (patience_->over()) throw ConnectionError("the database does not answer, and the lease would run out");
    take_notes();
    bool everything = false;
    {
        const std::lock_guard lock(mutex_);
        everything = std::exchange(flushing_, false);
    }
    write(everything);
    end_long_claims();
    keep_claims();
    keep_ownership();
    look_at_waiting_keys();
    reckon();
}

void AdoptedSource::take_notes() {
    std::vector<Note> notes;
    {
        const std::lock_guard lock(mutex_);
        notes.swap(notes_);
    }
    for (auto& note : notes) take_note(std::move(note));
}

void AdoptedSource::take_note(Note note) {
    const auto found = claims_.find(note.batch->number);
    if (found == claims_.end())
        throw LeaseLost("a batch of " + table_.name() + " was given back before it was settled", "BT001");
    Claim& claim = found->second;
    for (; claim.done < note.done; ++claim.done) {
        const Event* event = &note.batch->events[claim.done];
        if (std::none_of(note.failures.begin(), note.failures.end(),
                         [event](const Failure& f) { return f.event == event; }))
            claim.delivered.push_back(event);
    }
    if (!note.failures.empty()) ++parks_;
    for (auto& failure : note.failures) {
        if (ordered_ && failure.kind == Failure::Kind::retry) let_key_wait(*failure.event);
        claim.failures.push_back(std::move(failure));
    }
    ++claim.notes;
}

// Write what became of the events: with lock columns as it becomes known, else when a batch is done or
// `everything` is to be written.
void AdoptedSource::write(bool everything) {
    if (table_.keeps_locks()) {
        if (std::none_of(claims_.begin(), claims_.end(),
                         [](const auto& entry) { return entry.second.notes > 0; }))
            return;
        postgres::Transaction transaction(*db_);
        if (!epoch_.empty()) db_->query("select baton_internal.keep_adopted($1, $2)", {table_.id(), epoch_});
        for (auto& [number, claim] : claims_) write_claim(*db_, claim);
        transaction.commit();
        for (auto& [number, claim] : claims_) written(claim);
        std::erase_if(claims_, [](const auto& entry) {
            return entry.second.done == entry.second.batch->events.size();
        });
        refuse_lost();
        return;
    }
    for (auto at = claims_.begin(); at != claims_.end();) {
        Claim& claim = at->second;
        if (claim.done < claim.batch->events.size() && (!everything || claim.notes == 0)) {
            ++at;
            continue;
        }
        write_claim(*claim.session, claim);
        claim.session->exec("commit");
        written(claim);
        idle_sessions_.push_back(std::move(claim.session));
        at = claims_.erase(at);
    }
}

void AdoptedSource::write_claim(Connection& db, Claim& claim) {
    std::vector<std::string> ids;
    for (const Event* event : claim.delivered) ids.emplace_back(event->source_id);
    lost_ += table_.acknowledge(db, ids, worker_);
    for (const Event* event : claim.delivered)
        if (!waiting_keys_.empty()) let_go(std::string(event->key()), std::string(event->source_id));
    fail(db, claim.failures);
}

// Fail rows with the sink's words; those that only wait for an earlier one of their key go back as they are.
void AdoptedSource::fail(Connection& db, const std::vector<Failure>& failures) {
    std::map<std::pair<std::string, bool>, std::vector<std::string>> alike;
    std::map<std::string, std::string> keys;
    std::vector<std::string> blocked;
    for (const auto& failure : failures) {
        const std::string id(failure.event->source_id);
        if (failure.kind == Failure::Kind::blocked) {
            blocked.push_back(id);
        } else {
            alike[{failure.error, failure.kind == Failure::Kind::dead}].push_back(id);
            keys[id] = failure.event->key();
        }
    }
    for (const auto& [what, ids] : alike) {
        const auto done = table_.fail(db, ids, what.first, what.second, worker_);
        lost_ += ids.size() - std::min(ids.size(), done.size());
        for (const auto& failed : done)
            if (failed.dead) let_go(keys[failed.id], failed.id);
    }
    if (table_.keeps_locks()) table_.release(db, blocked, worker_);
}

void AdoptedSource::written(Claim& claim) {
    claim.delivered.clear();
    claim.failures.clear();
    const std::lock_guard lock(mutex_);
    durable_ += std::exchange(claim.notes, 0);
    is_written_.notify_all();
}

// Begin anew when another worker has taken rows: what is on its way of them is not ours to settle.
void AdoptedSource::refuse_lost() {
    if (lost_ == 0) return;
    throw LeaseLost(std::to_string(lost_) + " rows of " + table_.name() + " were taken by another worker",
                    "BT001", {}, "give the source a longer lease");
}

// Let go of rows that the sink has not taken in time, where holding them keeps a transaction open.
void AdoptedSource::end_long_claims() {
    if (table_.keeps_locks()) return;
    const auto oldest = Clock::now() - options_.hold_limit;
    if (std::none_of(claims_.begin(), claims_.end(),
                     [oldest](const auto& entry) { return entry.second.began <= oldest; }))
        return;
    write(true);  // what was delivered, so that a slow sink gets ahead
    for (auto& [number, claim] : claims_) claim.session->exec("rollback");
    claims_.clear();
    throw relay::HeldTooLong("rows of " + table_.name() + " were held for " +
                             postgres::in_words(options_.hold_limit) +
                             " without being delivered: they are given back until the sink takes events");
}

// Renew locks, and show the server that those who hold transactions live.
void AdoptedSource::keep_claims() {
    for (auto& [number, claim] : claims_) {
        const auto now = Clock::now();
        if (now < claim.kept_at + held_for() / 4) continue;
        if (table_.keeps_locks()) {
            std::vector<std::string> ids;
            for (std::size_t i = claim.done; i < claim.batch->events.size(); ++i)
                ids.emplace_back(claim.batch->events[i].source_id);
            lost_ += table_.renew(*db_, ids, worker_);
            refuse_lost();
        } else {
            claim.session->exec("select 1");
        }
        claim.kept_at = now;
    }
}

void AdoptedSource::keep_ownership() {
    const auto now = Clock::now();
    if (epoch_.empty() || now < owned_at_ + options_.lease / 4) return;
    db_->query("select baton_internal.keep_adopted($1, $2, $3::interval)",
               {table_.id(), epoch_, interval(options_.lease)});
    owned_at_ = now;
}

// A row for which others wait may be settled or deleted by somebody else.
void AdoptedSource::look_at_waiting_keys() {
    if (waiting_keys_.empty() || Clock::now() < keys_seen_at_ + 1s) return;
    std::vector<std::string> ids;
    for (const auto& [key, waiting] : waiting_keys_)
        ids.insert(ids.end(), waiting.rows.begin(), waiting.rows.end());
    std::set<std::string> still;
    for (const auto& row : table_.still_held(*db_, worker_, ids)) still.insert(row.id);
    for (const auto& [key, waiting] : std::map(waiting_keys_))
        for (const auto& id : waiting.rows)
            if (!still.contains(id)) let_go(key, id);
    keys_seen_at_ = Clock::now();
}

void AdoptedSource::let_key_wait(const Event& event) {
    if (event.key().empty()) return;
    WaitingKey& waiting = waiting_keys_[std::string(event.key())];
    waiting.failed = event.source_id;
    if (std::find(waiting.rows.begin(), waiting.rows.end(), waiting.failed) == waiting.rows.end())
        waiting.rows.push_back(waiting.failed);
}

void AdoptedSource::let_go(const std::string& key, const std::string& id) {
    const auto found = waiting_keys_.find(key);
    if (found == waiting_keys_.end()) return;
    std::erase(found->second.rows, id);
    if (found->second.failed == id) found->second.failed.clear();
    if (found->second.rows.empty()) waiting_keys_.erase(found);
}

milliseconds AdoptedSource::held_for() const {
    return table_.keeps_locks() ? options_.lease : options_.lease / 2;
}

void AdoptedSource::reckon() {
    auto end = Clock::time_point::max();
    for (const auto& [number, claim] : claims_) end = std::min(end, session_end(claim.kept_at, held_for()));
    if (!epoch_.empty()) end = std::min(end, session_end(owned_at_, options_.lease));
    patience_->lasts_until(end);
}

}  // namespace baton::tables
