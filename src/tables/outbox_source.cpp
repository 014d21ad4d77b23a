#include "tables/outbox_source.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <limits>
#include <thread>
#include <utility>

#include "tables/follow.hpp"
#include "tables/lease.hpp"
#include "tables/outbox_aside.hpp"
#include "tables/outbox_window.hpp"

namespace baton::tables {

using namespace std::chrono_literals;
using postgres::Connection;
using postgres::Format;
using postgres::Params;
using postgres::Result;
using relay::BatchPtr;
using relay::Failure;
using relay::milliseconds;

namespace {

// The server sends its answers in small pieces. Where many rows are coming, it is cheaper for both sides to
// let some pieces gather than to be woken for each.
constexpr int many = 500;

constexpr auto everything = std::numeric_limits<std::int64_t>::max();
constexpr const char* nothing_seen = "3:3:";

std::string seconds(milliseconds time) {
    return std::to_string(static_cast<double>(time.count()) / 1000) + " s";
}

constexpr const char* floor_sql = "select * from baton_internal.note_group_floor($1, $2, $3, $4)";
constexpr const char* renew_sql =
    "select blocking, due_in from baton_internal.renew_group($1, $2, $3::interval)";

// The reads need the index's order and never a sort of everything: a generic plan could think otherwise.
constexpr const char* session_settings =
    "set plan_cache_mode = auto; set enable_seqscan = off; set enable_sort = off; set enable_bitmapscan = "
    "off; "
    "set jit = off; set max_parallel_workers_per_gather = 0; set statement_timeout = 0; set lock_timeout = "
    "'30s'; "
    "set idle_in_transaction_session_timeout = 0";

}  // namespace

std::unique_ptr<OutboxSource> OutboxSource::take(const OutboxOptions& options, Holder& holder) {
    auto patience = std::make_shared<postgres::Patience>(postgres::Patience::short_work);
    Connection connection(options.conninfo, "baton relay " + options.group, patience);
    const auto asked = Clock::now();
    patience->lasts_until(session_end(asked, options.lease));
    const auto taken = take_or_follow([&](const std::string& gone) {
        return connection.query("select t.*, " + std::string(window_columns) +
                                    " from (select (l).* from (select baton_internal.take_group($1, $2, "
                                    "$3::interval, nullif($4, '')) as l offset 0) x) t"
                                    " cross join lateral (select t.open_window as x) w",
                                {options.group, options.owner, seconds(options.lease), gone});
    });
    if (taken.is_null(0, taken.column("epoch"))) {
        holder = {taken.text(0, taken.column("held_by")), taken.text(0, taken.column("held_until"))};
        return nullptr;
    }
    std::unique_ptr<OutboxSource> made(
        new OutboxSource(options, std::move(patience), std::move(connection), taken));
    made->renewed_at_ = asked;
    return made;
}

OutboxSource::OutboxSource(const OutboxOptions& options, PatiencePtr patience, Connection connection,
                           const Result& taken)
    : TableFeed(std::move(patience), options.max_event_bytes),
      options_(options),
      pooled_(postgres::is_pooled(connection)),
      pipe_((connection.exec(pooled_ ? "select 1" : session_settings), std::move(connection))),
      group_id_(taken.text(0, taken.column("group_id"))),
      epoch_(taken.text(0, taken.column("epoch"))),
      positions_(pipe_, group_id_, epoch_),
      relation_(taken.text(0, taken.column("relation"))),
      claim_check_(pipe_, relation_, options.claim_check_rows),
      limit_(std::min(options.batch, 100)) {
    const auto text = [&taken](const char* name) { return taken.text(0, taken.column(name)); };
    ordered_ = text("ordered") == "t";
    const std::string type = text("payload_type");
    from_jsonb_ = type == "jsonb";
    payload_kind_ = type == "bytea"  ? PayloadKind::bytes
                    : type == "text" ? PayloadKind::text
                                     : PayloadKind::json;
    late_sql_ = text("late_sql");
    fresh_sql_ = text("fresh_sql");
    era_ = text("era");
    seen_ = text("seen");
    if (!taken.is_null(0, taken.column("fresh_id")))
        floor_.take(std::stoll(text("fresh_id")), text("fresh_xid"));
    late_id_ = std::stoll(text("late_id"));
    window_number_ = std::stoll(text("window_number"));
    after_id_ = std::stoll(text("after_id"));
    window_ = read_window_row(taken, taken.columns() - window_width);
    if (!taken.is_null(0, taken.column("parked_upto"))) parked_upto_ = std::stoll(text("parked_upto"));
    doorbell_ = postgres::make_doorbell(options_.conninfo, relation_, options_.owner + " " + options_.group,
                                        pooled_ ? "poll" : options_.wake_up, patience_, options_.safety_look);
    if (options_.claim_check_rows > 0)
        pipe_.call("select baton_internal.check_for_claim_checks($1)", {relation_});
    parked_sql_ = pipe_.call("select baton_internal.parked_statement($1::regclass)", {relation_}).text(0, 0);
    if (!pooled_) {
        pipe_.prepare("late", late_sql_);
        pipe_.prepare("fresh", fresh_sql_);
        pipe_.prepare("open", windows_of(text("open_sql")));
        pipe_.prepare("floor", floor_sql);
        pipe_.prepare("renew", renew_sql);
        positions_.prepare();
        pipe_.sync();
    }
    renew();
    if (window_) {
        const auto flushed =
            pipe_.call("select pg_current_wal_flush_lsn() >= ($1::baton_internal.windows).flushed_at",
                       {window_->literal});
        if (!flushed.boolean(0, 0)) flush_log();
        held_back_ = true;
    }
}

void OutboxSource::give_up(const std::string& why) {
    positions_.give_up(why);
}

BatchPtr OutboxSource::read(milliseconds patience) {
    return guarded([&]() -> BatchPtr {
        const auto deadline = Clock::now() + patience;
        for (;;) {
            keep_up();
            ask();
            pipe_.pump();
            if (arrived_) {
                auto batch = std::move(arrived_);
                arrived_.reset();
                doorbell_->found();
                if (batch->claim_check) {
                    heed_parked(*batch);
                    if (!batch->events.empty()) {
                        claim_check_.begin(std::move(batch));
                        continue;
                    }
                }
                ask();  // the next one is under way while this one is handled
                pipe_.pump();
                return finish(std::move(batch));
            }
            if (wakeup_.interrupted() || Clock::now() >= deadline) return nullptr;
            if (reading_ == Reading::window && limit_ >= many && std::exchange(receiving_, false))
                std::this_thread::sleep_for(150us);
            else
                wait(deadline);
        }
    });
}

void OutboxSource::close() {
    guarded([&] {
        keep_up();
        pipe_.call("select baton_internal.release_group($1, $2)", {group_id_, epoch_});
    });
}

// Wait for the server, the doorbell, a note or an interruption, whichever comes first.
void OutboxSource::wait(Clock::time_point until) {
    until = std::min({until, renew_at_, patience_->end()});
    if (const auto due = positions_.due()) until = std::min(until, *due);
    if (reading_ == Reading::nothing && !claim_check_.active()) {
        if (parked_due_) until = std::min(until, *parked_due_);
        if (found_nothing_ && !sleep_until_) sleep_until_ = Clock::now() + doorbell_->arm();
        if (sleep_until_) until = std::min(until, *sleep_until_);
    }
    std::array<pollfd, 2> others{{{pipe_.socket(), pipe_.events(), 0}, {doorbell_->wakeup(), POLLIN, 0}}};
    wakeup_.wait(until, others);
    receiving_ = others[0].revents != 0;
    if (others[1].revents != 0 && doorbell_->rung()) {
        rang_since_look_ = true;
        sleep_until_ = pace_.next_look(Clock::now());
    }
    if (sleep_until_ && Clock::now() >= *sleep_until_) {
        found_nothing_ = false;
        sleep_until_.reset();
    }
}

// Start the next read, unless one is under way or there is nothing to be read.
void OutboxSource::ask() {
    if (reading_ != Reading::nothing || arrived_) return;
    if (claim_check_.active()) return claim_check_.due() ? read_part() : void();
    if (parked_due_ && Clock::now() >= *parked_due_) return read_parked();
    if (window_) return held_back_ ? await_standbys() : read_window();
    if (!found_nothing_) open_window();
}

// Where the next window begins, as the statements that open one want it.
Params OutboxSource::position() const {
    Params place{group_id_, window_number_ + 1, era_, seen_};
    floor_.add_to(place, after_id_);
    place.push_back(late_id_);
    return place;
}

// Take a floor for the windows to come, when the one at hand is far behind what was read.
void OutboxSource::take_floor(bool found_events) {
    if (!floor_.wants_another(after_id_, found_events)) return;
    floor_.asked();
    run_chore("floor", floor_sql, {group_id_, epoch_, window_->sight, pooled_},
              [this, era = era_](const Result& answer) {
                  floor_.answered();
                  if (era == era_ && !answer.is_null(0, 0))
                      floor_.take(answer.number(0, 0), answer.text(0, 1));
              });
}

void OutboxSource::open_window() {
    reading_ = Reading::opening;
    pace_.looked(Clock::now());
    rang_since_look_ = false;
    // a group that has seen nothing need not search where its window begins, and the function knows that
    if (pooled_ || seen_ == nothing_seen) return open_by_function();
    pipe_.send_prepared("open", position(), [this](const Result& answer) {
        if (answer.boolean(0, window_width + 1)) return open_by_function();
        reading_ = Reading::nothing;
        take_window(answer, true);
    });
    pipe_.sync();
}

void OutboxSource::open_by_function() {
    pipe_.send(windows_of("select o.opened, o.flushed, false as unsure from "
                          "baton_internal.open_group_window($1, $2, $3, $4, $5, $6, $7) o"),
               position(), [this](const Result& answer) {
                   reading_ = Reading::nothing;
                   take_window(answer, false);  // of an era that has ended, maybe
               });
    pipe_.sync();
}

void OutboxSource::take_window(const Result& answer, bool complete) {
    window_ = read_window_row(answer, 0);
    complete_ = complete;
    reads_ = 0;
    if (!window_) {
        found_nothing_ = !rang_since_look_;
        return;
    }
    window_number_ = window_->number;
    after_id_ = window_->start_id - 1;
    held_back_ = !answer.boolean(0, window_width);
    if (held_back_) flush_log();
    ask();
}

// What asynchronous commits made visible may leave the database only when it is on disk. A commit of our own
// that waits for the disk brings everything before it there.
void OutboxSource::flush_log() {
    pipe_.send(
        "select set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, 'baton', '')",
        {});
    pipe_.sync();
}

// Ask whether as many standbys have the window's commits as the operator wants. The server waits for them for
// a moment; then we are back in read(), which asks again.
void OutboxSource::await_standbys() {
    reading_ = Reading::opening;
    pipe_.send("select baton_internal.await_standbys(($1::baton_internal.windows).flushed_at)",
               {window_->literal}, [this](const Result& answer) {
                   reading_ = Reading::nothing;
                   held_back_ = !answer.boolean(0, 0);
                   ask();
               });
    pipe_.sync();
}

void OutboxSource::read_window() {
    reading_ = Reading::window;
    const bool late = window_->has_late() && (!window_->first_id || after_id_ < *window_->first_id - 1);
    Params params;
    if (late) {
        const std::int64_t end = window_->last_id ? *window_->last_id + 1 : everything;
        params = {window_->late, after_id_, std::min(window_->first_id.value_or(everything), end), limit_};
    } else {
        params = {window_->seen, window_->sight,
                  std::max(after_id_, window_->first_id.value_or(everything) - 1),
                  window_->last_id.value_or(everything), limit_};
    }
    const auto handler = [this, late, limit = limit_](Result answer) {
        reading_ = Reading::nothing;
        take_rows(std::move(answer), late, limit);
    };
    if (pooled_) {
        pipe_.send(late ? late_sql_ : fresh_sql_, params, handler, Format::binary);
    } else {
        pipe_.send_prepared(late ? "late" : "fresh", params, handler, Format::binary);
    }
    pipe_.sync();
}

void OutboxSource::take_rows(Result answer, bool late, int limit) {
    const int rows = answer.rows();
    auto batch = std::make_shared<OutboxBatch>(std::move(answer), payload_kind_, from_jsonb_, false);
    batch->mark_too_large(load_limit_.bytes());
    const bool cut = batch->cut_to(options_.batch_bytes);
    const bool exhausted = claim_check_.set_apart(*batch).empty() && !cut && rows < limit;
    batch->window = window_;
    ++reads_;
    if (!batch->events.empty()) after_id_ = batch->events.back().id;
    if (exhausted && late && window_->first_id) after_id_ = std::max(after_id_, *window_->first_id - 1);
    batch->after_id = after_id_;
    batch->window_done = exhausted && (!late || !window_->first_id);
    adapt_limit(*batch, limit);
    take_floor(rows > 0);
    if (batch->window_done) {
        if (era_ != window_->era) floor_.forget();
        era_ = window_->era;
        seen_ = window_->sight;
        late_id_ = window_->late_id;
        window_.reset();
        // who rang since the window was opened is heard, so nobody need look for nothing
        found_nothing_ = complete_ && reads_ == 1 && !rang_since_look_;
    }
    if (batch->withheld.empty())
        arrived_ = std::move(batch);
    else
        read_payloads(batch);
}

// Fetch what was too large to be read along.
void OutboxSource::read_payloads(const std::shared_ptr<OutboxBatch>& batch) {
    reading_ = Reading::payloads;
    std::vector<long long> ids;
    for (const auto& left_out : batch->withheld) ids.push_back(batch->events[left_out.event].id);
    pipe_.send(
        "select e.id, e.payload, e.headers from " + relation_ +
            " e where e.id = any($1::bigint[]) order by e.id",
        {postgres::array_literal(ids)},
        [this, batch](Result answer) {
            reading_ = Reading::nothing;
            batch->add_payloads(std::move(answer), from_jsonb_);
            arrived_ = batch;
        },
        Format::binary);
    pipe_.sync();
}

// Read as many as fit into batch_bytes, judging by the last batch; grow step by step.
void OutboxSource::adapt_limit(const OutboxBatch& batch, int limit) {
    if (batch.events.empty()) return;
    std::size_t bytes = batch.bytes;
    for (const auto& left_out : batch.withheld) bytes += left_out.size;
    const std::size_t each = bytes / batch.events.size() + 1;
    const auto fitting = static_cast<int>(std::min<std::size_t>(options_.batch_bytes / each, 1'000'000));
    limit_ = std::clamp(std::min(fitting, limit * 4), 1, options_.batch);
}

void OutboxSource::read_parked() {
    reading_ = Reading::parked;
    parked_due_.reset();
    const std::int64_t event_bytes = load_limit_.bytes();
    pipe_.send(
        parked_sql_,
        {group_id_, epoch_, limit_, event_bytes, static_cast<std::int64_t>(options_.batch_bytes)},
        [this, event_bytes](Result answer) {
            reading_ = Reading::nothing;
            if (answer.empty()) {  // what is due waits for an earlier one of its key that is under way
                parked_not_before_ = Clock::now() + 200ms;
                return;
            }
            arrived_ = std::make_shared<OutboxBatch>(std::move(answer), payload_kind_, from_jsonb_, true);
            arrived_->mark_too_large(event_bytes);
            give_back(arrived_->cut_at_withheld());
            give_back(claim_check_.set_apart(*arrived_));
        },
        Format::binary);
    pipe_.sync();
    renew();
}

// Read the next part of a claim check. The envelope needs room in a message, too.
void OutboxSource::read_part() {
    reading_ = Reading::part;
    const auto most = load_limit_.bytes();
    const auto bytes = std::min(most - most / 8, static_cast<std::int64_t>(options_.batch_bytes));
    claim_check_.read(bytes, most, [this](std::shared_ptr<OutboxBatch> part) {
        reading_ = Reading::nothing;
        arrived_ = std::move(part);
    });
}

// Let parked events go for which there was no room; they are read again soon.
void OutboxSource::give_back(const std::vector<long long>& ids) {
    if (ids.empty()) return;
    pipe_.send("select baton_internal.give_back_parked($1, $2, $3)",
               {group_id_, epoch_, postgres::array_literal(ids)});
    pipe_.sync();
    renew();  // learns that they are due
}

// Take out what cannot go now, and give the batch its number. For a part the whole event was looked at.
std::shared_ptr<OutboxBatch> OutboxSource::finish(std::shared_ptr<OutboxBatch> batch) {
    if (!batch->whole) heed_parked(*batch);
    batch->number = next_number_++;
    return batch;
}

void OutboxSource::heed_parked(OutboxBatch& batch) {
    if (!batch.parked && !batch.events.empty() &&
        (blocking_ || batch.has_due || batch.events.front().id <= parked_upto_))
        set_aside(batch);
    batch.parks_heeded = positions_.parks();
}

void OutboxSource::set_aside(OutboxBatch& batch) {
    const auto aside = set_aside_what_cannot_go(pipe_, group_id_, epoch_, batch);
    if (aside.empty()) return;
    batch.leave_out(aside);
    renew();  // learns when they are due
}

void OutboxSource::settle(const BatchPtr& batch, std::size_t done, std::vector<Failure> failures) {
    auto settled = std::static_pointer_cast<const OutboxBatch>(batch);
    const bool failed = !failures.empty();
    bool wake = positions_.note(settled, done, std::move(failures));
    if (claim_check_.settled(*settled, failed)) wake = true;
    if (wake) wakeup_.ring();
}

void OutboxSource::flush() {
    positions_.flush();
}

// Throw when the lease could not be renewed in time.
void OutboxSource::end_before_lease() const {
    if (!patience_->over()) return;
    throw ConnectionError("the database has not answered for " +
                          postgres::in_words(Clock::now() - renewed_at_) + ", and the lease would run out");
}

void OutboxSource::do_chores() {
    keep_up();
    pipe_.pump();
}

void OutboxSource::keep_up() {
    end_before_lease();
    if (positions_.write(Clock::now())) {
        blocking_ = true;  // until the server says otherwise
        renew();
    }
    if (Clock::now() >= renew_at_) renew();
}

// Run a statement that comes again and again as a transaction of its own.
void OutboxSource::run_chore(const char* name, const char* sql, const Params& params,
                             postgres::Pipe::Handler handler) {
    if (pooled_)
        pipe_.send(sql, params, std::move(handler));
    else
        pipe_.send_prepared(name, params, std::move(handler));
    pipe_.sync();
}

// Keep the group, and learn whether parked events hold back keys and when the next is due.
void OutboxSource::renew() {
    const auto asked = Clock::now();
    renew_at_ = asked + options_.lease / 4;
    run_chore(
        "renew", renew_sql, {group_id_, epoch_, seconds(options_.lease)},
        [this, asked, parks = positions_.parks()](const Result& answer) {
            renewed_at_ = asked;
            patience_->lasts_until(session_end(asked, options_.lease));
            if (parks == positions_.parks()) blocking_ = answer.boolean(0, 0);
            parked_due_.reset();
            if (!answer.is_null(0, 1))
                parked_due_ = std::max(
                    parked_not_before_,
                    Clock::now() +
                        milliseconds(static_cast<std::int64_t>(std::stod(answer.text(0, 1)) * 1000) + 1));
        });
}

}  // namespace baton::tables
