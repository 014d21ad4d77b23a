#include "tables/outbox_positions.hpp"

#include <algorithm>
#include <utility>

namespace baton::tables {

using namespace std::chrono_literals;
using relay::Failure;

namespace {

// What a relay delivered since it wrote last is delivered again when it is killed, and that is little against
// what was in flight.
constexpr auto write_interval = 10ms;

constexpr const char* move_sql = "select baton_internal.checkpoint_group($1, $2, $3, $4, $5)";

// False for a part of an event of which more parts follow.
bool ends_its_event(const OutboxBatch& batch, const std::vector<Failure>& failures) {
    return !batch.whole || batch.last_part || !failures.empty();
}

const char* name_of(Failure::Kind kind) {
    switch (kind) {
        case Failure::Kind::retry:
            return "retry";
        case Failure::Kind::dead:
            return "dead";
        case Failure::Kind::blocked:
            break;
    }
    return "blocked";
}

}  // namespace

void OutboxPositions::prepare() {
    pipe_.prepare("move", move_sql);
    prepared_ = true;
}

bool OutboxPositions::note(std::shared_ptr<const OutboxBatch> batch, std::size_t done,
                           std::vector<Failure> failures) {
    const std::lock_guard lock(mutex_);
    ++noted_;
    const bool first = notes_.empty();
    const bool joins = !first && failures.empty() && !batch->parked && notes_.back().failures.empty() &&
                       !notes_.back().batch->parked && !notes_.back().batch->whole && !batch->whole;
    if (joins)
        notes_.back() = {std::move(batch), done, {}, notes_.back().count + 1};
    else
        notes_.push_back({std::move(batch), done, std::move(failures), 1});
    return first;
}

void OutboxPositions::flush() {
    std::unique_lock lock(mutex_);
    const auto wanted = noted_;
    written_.wait(lock, [&] { return durable_ >= wanted || !failure_.empty(); });
    if (durable_ < wanted) throw ConnectionError("the last positions were not written: " + failure_);
}

void OutboxPositions::give_up(const std::string& why) {
    const std::lock_guard lock(mutex_);
    failure_ = why;
    written_.notify_all();
}

std::optional<OutboxPositions::Time> OutboxPositions::due() const {
    if (writing_ > 0) return {};
    const std::lock_guard lock(mutex_);
    return notes_.empty() ? std::nullopt : std::optional(write_at_);
}

bool OutboxPositions::write(Time now) {
    if (writing_ > 0 || now < write_at_) return false;
    std::vector<Note> notes;
    {
        const std::lock_guard lock(mutex_);
        notes.swap(notes_);
    }
    if (notes.empty()) return false;
    for (const auto& note : notes) write_note(note);
    write_at_ = now + write_interval;
    return std::any_of(notes.begin(), notes.end(),
                       [](const Note& note) { return note.batch->parked || !note.failures.empty(); });
}

// Each note is a transaction.
void OutboxPositions::write_note(const Note& note) {
    if (note.batch->parked) settle_parked(note);
    if (!note.failures.empty()) park(note.failures);
    if (note.batch->last_part && note.failures.empty())
        pipe_.send("select baton_internal.claim_check_delivered($1, $2, $3)",
                   {group_id_, epoch_, note.batch->events.front().id});
    if (!note.batch->parked) move_position(note);
    ++writing_;
    pipe_.sync([this, count = note.count] {
        --writing_;
        const std::lock_guard lock(mutex_);
        durable_ += count;
        written_.notify_all();
    });
}

void OutboxPositions::move_position(const Note& note) {
    const bool all = note.done == note.batch->events.size();
    if (!all && note.done == 0) return;
    if (!ends_its_event(*note.batch, note.failures)) return;
    const std::int64_t after = all ? note.batch->after_id : note.batch->events[note.done - 1].id;
    const postgres::Params place{group_id_, epoch_, note.batch->window->literal, after,
                                 all && note.batch->window_done};
    if (prepared_)
        pipe_.send_prepared("move", place);
    else
        pipe_.send(move_sql, place);
}

void OutboxPositions::settle_parked(const Note& note) {
    if (parked_batch_ != note.batch->number) {
        parked_batch_ = note.batch->number;
        parked_done_ = 0;
    }
    std::vector<long long> delivered;
    for (std::size_t i = parked_done_; i < note.done; ++i) {
        const Event* event = &note.batch->events[i];
        if (std::none_of(note.failures.begin(), note.failures.end(),
                         [event](const Failure& f) { return f.event == event; }))
            delivered.push_back(event->id);
    }
    parked_done_ = note.done;
    if (!delivered.empty() && ends_its_event(*note.batch, note.failures))
        pipe_.send("select baton_internal.settle_group_parked($1, $2, $3)",
                   {group_id_, epoch_, postgres::array_literal(delivered)});
}

void OutboxPositions::park(const std::vector<Failure>& failures) {
    std::vector<long long> ids, attempts;
    std::vector<std::string> keys, errors, kinds;
    for (const auto& failure : failures) {
        ids.push_back(failure.event->id);
        attempts.push_back(failure.event->attempt);
        keys.emplace_back(failure.event->key());
        errors.push_back(failure.error);
        kinds.emplace_back(name_of(failure.kind));
    }
    pipe_.send(
        "select baton_internal.park_group_events($1, $2, $3, array(select nullif(k, '') from "
        "unnest($4::text[]) with "
        "ordinality u (k, n) order by n), "
        "$5, $6, $7)",
        {group_id_, epoch_, postgres::array_literal(ids), postgres::array_literal(keys),
         postgres::array_literal(attempts), postgres::array_literal(errors), postgres::array_literal(kinds)});
    ++parks_;
}

}  // namespace baton::tables
