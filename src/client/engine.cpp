#include "client/engine.hpp"

#include <algorithm>

namespace baton::client {

using namespace std::chrono_literals;
using postgres::Connection;

namespace {

constexpr auto shortest_nap = 5ms;
constexpr int most_reruns = 3;  // of a transaction that collided with others

constexpr const char* set = "savepoint baton_delivery";
constexpr const char* release = "release savepoint baton_delivery";
constexpr const char* release_and_set = "release savepoint baton_delivery; savepoint baton_delivery";
constexpr const char* roll_back = "rollback to savepoint baton_delivery";

[[noreturn]] void throw_ended() {
    throw UsageError("the handler ended the transaction that it was given",
                     "leave begin, commit and rollback to baton; use savepoints inside");
}

bool collided(const SqlError& error) {
    return error.sqlstate().starts_with("40");
}

}  // namespace

// A handler of batches threw, and it is open which of the deliveries is to blame.
struct Engine::BatchFailed {};

Engine::Engine(std::unique_ptr<Queue> queue, WorkOptions options, Handler handler)
    : queue_(std::move(queue)),
      options_(std::move(options)),
      handler_(std::move(handler)),
      keeper_(*queue_, options_.conninfo, std::chrono::milliseconds(options_.lease) / 3,
              [this](const std::string& what) { tell(Incident::Kind::connection_lost, nullptr, what); }) {}

WorkCounts Engine::counts() const {
    return {handled_, failed_, rejected_, leases_lost_};
}

void Engine::run(const std::stop_token& stop) {
    unsigned failures = 0;
    while (!stop.stop_requested()) {
        try {
            const bool found = step(stop);
            failures = 0;
            if (!found && !stop.stop_requested()) wait(stop);
        } catch (const Error& error) {
            const auto* sql = dynamic_cast<const SqlError*>(&error);
            const bool broken = dynamic_cast<const ConnectionError*>(&error) != nullptr;
            if (!broken && (sql == nullptr || !sql->retryable())) throw;
            tell(Incident::Kind::connection_lost, nullptr, error.what());
            disconnect();
            sleep_.wait(reconnect_.delay(++failures, random_), stop);
        }
    }
}

std::uint64_t Engine::drain(const std::stop_token& stop) {
    const std::uint64_t before = handled_;
    while (!stop.stop_requested() && step(stop)) {
    }
    return handled_ - before;
}

void Engine::connect() {
    if (db_ && db_->alive()) return;
    // An answer that takes longer than the lease is of no use.
    auto db = std::make_unique<Connection>(options_.conninfo, "baton " + options_.name,
                                           std::make_shared<postgres::Patience>(options_.lease));
    queue_->open(*db);
    db_ = std::move(db);
}

void Engine::disconnect() {
    doorbell_.reset();
    doorbell_asked_ = false;
    db_.reset();
}

// Give back what is leased and not settled. After a broken connection some of it may be settled all the same:
// that is not touched.
void Engine::give_back() {
    if (batch_.deliveries.empty()) return;
    queue_->release(*db_, batch_.token, batch_.deliveries);
    batch_.deliveries.clear();
}

// Sleep until something may have come.
void Engine::wait(const std::stop_token& stop) {
    if (!doorbell_asked_) {
        doorbell_ = queue_->doorbell();
        doorbell_asked_ = true;
        if (doorbell_) return;  // look once more: what came before it could ring was not seen
    }
    nap_ = std::min(doorbell_ ? doorbell_->arm() : nap_ * 2, options_.idle);
    if (sleep_.wait(nap_, stop, doorbell_ ? doorbell_->wakeup() : -1)) doorbell_->rung();
}

// The connection broke while a delivery was handled. Once may be anybody's fault; twice in a row with the
// same delivery is the delivery's: the handler takes its own connection down.
void Engine::note_break() {
    if (begun_ == Begun::many) one_by_one_ = true;  // to find out which
    if (begun_ != Begun::one) return;
    charged_ = broke_with_ == begun_id_;
    broke_with_ = begun_id_;
}

// Settle the delivery as failed that took the connection down, now that there is another one.
void Engine::charge_for_break() {
    if (!std::exchange(charged_, false)) return;
    const auto found = std::ranges::find(batch_.deliveries, begun_id_, &Delivery::id);
    broke_with_.reset();
    if (found == batch_.deliveries.end()) return;
    const Delivery delivery = *found;
    charge(delivery, {"the connection broke while the handler ran, twice in a row"});
    std::erase_if(batch_.deliveries, [&](const Delivery& other) { return other.id == delivery.id; });
}

bool Engine::step(const std::stop_token& stop) {
    connect();
    charge_for_break();
    give_back();
    batch_ = queue_->take(*db_);
    if (batch_.deliveries.empty()) return false;
    if (doorbell_) doorbell_->found();
    nap_ = shortest_nap;
    try {
        handle(stop);
    } catch (const Error&) {
        if (!db_->alive()) note_break();
        throw;
    }
    return true;
}

void Engine::handle(const std::stop_token& stop) {
    struct LetGo {
        LeaseKeeper& keeper;
        ~LetGo() { keeper.let_go(); }
    };
    std::size_t limit = one_by_one_ ? 1 : batch_.deliveries.size();
    reruns_ = 0;
    while (!batch_.deliveries.empty()) {
        if (stop.stop_requested()) return give_back();
        const LetGo guard{keeper_};
        keeper_.hold(batch_.token, batch_.deliveries);
        if (handle_some(limit, stop)) reruns_ = 0;
    }
    one_by_one_ = false;
}

// Handle a segment; false when it has to be handled again, in a smaller one perhaps.
bool Engine::handle_some(std::size_t& limit, const std::stop_token& stop) {
    auto& left = batch_.deliveries;
    const auto items = std::span(left).first(std::min(limit, left.size()));
    try {
        const auto segment = run_segment(items, stop);
        note(segment);
        const auto taken = static_cast<std::ptrdiff_t>(segment.done + (segment.failure ? 1 : 0));
        left.erase(left.begin(), left.begin() + taken);
        std::erase_if(left, [&](const Delivery& delivery) {
            return std::ranges::find(segment.parked.held_back, delivery.position) !=
                   segment.parked.held_back.end();
        });
        return true;
    } catch (const LeaseLost& error) {
        drop_lost(items.size(), limit, error);
    } catch (const BatchFailed&) {
        limit = 1;
    } catch (const SqlError& error) {  // it collided, or could not be committed: a deferred constraint, say
        if (!db_->alive()) throw;
        if (collided(error) && ++reruns_ <= most_reruns) return false;
        if (items.size() > 1) {
            limit = 1;
        } else {
            charge(items.front(), {error.what()});
            left.erase(left.begin());
        }
    }
    reruns_ = 0;
    return false;
}

void Engine::drop_lost(std::size_t count, std::size_t& limit, const LeaseLost& error) {
    auto& left = batch_.deliveries;
    if (queue_->one_lease_for_all() || count == 1) {
        ++leases_lost_;
        tell(Incident::Kind::lease_lost, &left.front(), error.what());
    }
    if (queue_->one_lease_for_all())
        give_back();  // it may be lost in part only
    else if (count == 1)
        left.erase(left.begin());
    else
        limit = 1;  // some are ours still
}

Engine::Segment Engine::run_segment(std::span<const Delivery> items, const std::stop_token& stop) {
    // A position that others move all the time can only be settled at this level.
    postgres::Transaction database_transaction(*db_, "begin isolation level read committed");
    Transaction transaction(*db_, stop);
    const auto spans = trace_transaction();
    Segment segment;
    begun_ = Begun::none;
    if (handler_.one())
        call_each(segment, items, transaction, stop);
    else
        call_batch(segment, items, transaction);
    keeper_.let_go();
    if (segment.done > 0) queue_->settle(*db_, batch_.token, items.first(segment.done));
    if (segment.failure)
        segment.parked = queue_->fail(*db_, batch_.token, items[segment.done], *segment.failure);
    database_transaction.commit();
    if (spans) spans->committed();
    begun_ = Begun::none;
    if (segment.failure) {
        const auto kind = segment.parked.dead ? Incident::Kind::rejected : Incident::Kind::failed;
        tell(kind, &items[segment.done], segment.failure->error);
    }
    return segment;
}

void Engine::call_each(Segment& segment, std::span<const Delivery> items, Transaction& transaction,
                       const std::stop_token& stop) {
    for (const auto& item : items) {
        if (segment.done > 0 && stop.stop_requested()) return;
        move_savepoint(segment.done == 0 ? set : release_and_set);
        begin(item);
        segment.failure = call({&item, 1}, [&] { handler_.one()(transaction, item); });
        if (segment.failure) return move_savepoint(roll_back);
        ++segment.done;
    }
    move_savepoint(release);
}

void Engine::call_batch(Segment& segment, std::span<const Delivery> items, Transaction& transaction) {
    move_savepoint(set);
    begin(items.front());
    if (items.size() > 1) begun_ = Begun::many;
    segment.failure = call(items, [&] { handler_.batch()(transaction, items); });
    if (segment.failure && items.size() > 1) throw BatchFailed{};
    if (segment.failure) return move_savepoint(roll_back);
    segment.done = items.size();
    move_savepoint(release);
}

void Engine::begin(const Delivery& delivery) {
    begun_ = Begun::one;
    begun_id_ = delivery.id;
}

// A savepoint that is gone tells of a handler that ended the transaction and began another.
void Engine::move_savepoint(const char* how) {
    try {
        db_->exec(how);
    } catch (const SqlError& error) {
        if (error.sqlstate() == "3B001") throw_ended();
        throw;
    }
}

std::unique_ptr<HandlerSpans> Engine::trace_transaction() {
    auto tracer = current_tracer();
    auto made = tracer ? std::make_unique<HandlerSpans>(std::move(tracer), queue_->names()) : nullptr;
    spans_ = made.get();
    return made;
}

std::optional<Failure> Engine::call(std::span<const Delivery> items, const std::function<void()>& handler) {
    if (spans_ == nullptr) return run_handler(handler);
    const TraceScope scope(spans_->begin(items));
    auto failure = run_handler(handler);
    spans_->end(failure);
    return failure;
}

// Run the handler; what it throws is its failure, except that a collision is the transaction's.
std::optional<Failure> Engine::run_handler(const std::function<void()>& handler) {
    std::optional<Failure> failure;
    try {
        handler();
    } catch (const Reject& error) {
        failure = Failure{error.what(), true};
    } catch (const Retry& error) {
        failure = Failure{error.what(), false, error.after()};
    } catch (const SqlError& error) {
        if (collided(error)) throw;
        failure = Failure{std::string(error.what()) + " [" + error.sqlstate() + "]"};
    } catch (const std::exception& error) {
        failure = Failure{error.what()};
    } catch (...) {
        failure = Failure{"the handler threw something that is no std::exception"};
    }
    check_transaction(failure);
    return failure;
}

// See in which state the handler left the transaction.
void Engine::check_transaction(std::optional<Failure>& failure) {
    if (!db_->alive()) throw ConnectionError("the connection broke while a handler ran");
    switch (PQtransactionStatus(db_->native())) {
        case PQTRANS_INTRANS:
            return;
        case PQTRANS_INERROR:
            if (!failure)
                failure = Failure{"a statement of the handler failed, and the handler did not say so"};
            return;
        case PQTRANS_ACTIVE:
            throw UsageError("the handler left a query unfinished on its connection",
                             "read every result before it returns");
        default:
            throw_ended();
    }
}

// Settle a delivery as failed, in a transaction of its own.
void Engine::charge(const Delivery& delivery, const Failure& failure) {
    try {
        postgres::Transaction transaction(*db_);
        const auto parked = queue_->fail(*db_, batch_.token, delivery, failure);
        transaction.commit();
        note({.done = 0, .failure = failure, .parked = parked});
        tell(parked.dead ? Incident::Kind::rejected : Incident::Kind::failed, &delivery, failure.error);
        std::erase_if(batch_.deliveries, [&](const Delivery& other) {
            return std::ranges::find(parked.held_back, other.position) != parked.held_back.end();
        });
    } catch (const LeaseLost& error) {
        ++leases_lost_;
        tell(Incident::Kind::lease_lost, &delivery, error.what());
    }
}

void Engine::note(const Segment& segment) {
    handled_ += segment.done;
    if (segment.failure) ++(segment.parked.dead ? rejected_ : failed_);
}

void Engine::tell(Incident::Kind kind, const Delivery* delivery, const std::string& what) const {
    if (options_.on_incident) options_.on_incident({kind, delivery, what});
}

}  // namespace baton::client
