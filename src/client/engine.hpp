#pragma once
// The loop of a worker: lease, handle, settle, commit.
//
//   batch    what one lease covers
//   segment  the deliveries of a batch that share a transaction: all that are left, up to the first failure.
//            After a transaction failed as a whole, a segment is one delivery.

#include <atomic>
#include <random>

#include "base/backoff.hpp"
#include "baton/worker.hpp"
#include "client/lease_keeper.hpp"
#include "client/queue.hpp"
#include "client/sleep.hpp"
#include "client/spans.hpp"

namespace baton::client {

class Engine {
  public:
    Engine(std::unique_ptr<Queue> queue, WorkOptions options, Handler handler);

    void run(const std::stop_token& stop);
    std::uint64_t drain(const std::stop_token& stop);
    WorkCounts counts() const;

  private:
    // How a segment ended.
    struct Segment {
        std::size_t done = 0;            // handled, from the front
        std::optional<Failure> failure;  // of the delivery behind those
        Parked parked;
    };
    struct BatchFailed;

    // Take a batch and handle it. False when there was no batch.
    bool step(const std::stop_token& stop);
    void handle(const std::stop_token& stop);
    bool handle_some(std::size_t& limit, const std::stop_token& stop);
    Segment run_segment(std::span<const Delivery> items, const std::stop_token& stop);
    void call_each(Segment& segment, std::span<const Delivery> items, Transaction& transaction,
                   const std::stop_token& stop);
    void call_batch(Segment& segment, std::span<const Delivery> items, Transaction& transaction);
    void move_savepoint(const char* how);
    std::unique_ptr<HandlerSpans> trace_transaction();
    std::optional<Failure> call(std::span<const Delivery> items, const std::function<void()>& handler);
    std::optional<Failure> run_handler(const std::function<void()>& handler);
    void check_transaction(std::optional<Failure>& failure);
    void charge(const Delivery& delivery, const Failure& failure);
    void note(const Segment& segment);
    void begin(const Delivery& delivery);
    void note_break();
    void charge_for_break();
    void drop_lost(std::size_t count, std::size_t& limit, const LeaseLost& error);

    void connect();
    void disconnect();
    void give_back();
    void wait(const std::stop_token& stop);
    void tell(Incident::Kind kind, const Delivery* delivery, const std::string& what) const;

    std::unique_ptr<Queue> queue_;
    WorkOptions options_;
    Handler handler_;
    LeaseKeeper keeper_;
    std::unique_ptr<postgres::Connection> db_;
    Batch batch_;  // what is leased and not settled; what a broken connection left is given back by the next
                   // one
    HandlerSpans* spans_ = nullptr;  // of the transaction at hand, where the process has a tracer
    int reruns_ = 0;
    enum class Begun { none, one, many };
    Begun begun_ = Begun::none;  // what the handler does, or did last in this transaction
    EventId begun_id_{""};
    std::optional<EventId> broke_with_;  // the delivery in work when the connection broke last
    bool charged_ = false;               // ... twice in a row
    bool one_by_one_ = false;            // one of a batch breaks the connection
    std::unique_ptr<postgres::Doorbell> doorbell_;
    bool doorbell_asked_ = false;
    std::chrono::milliseconds nap_{5};
    Sleep sleep_;
    Backoff reconnect_{std::chrono::milliseconds(50), std::chrono::seconds(10)};
    std::minstd_rand random_{std::random_device{}()};
    std::atomic<std::uint64_t> handled_{0}, failed_{0}, rejected_{0}, leases_lost_{0};
};

}  // namespace baton::client
