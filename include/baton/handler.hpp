#pragma once
// What you write: a handler.
//
// One delivery at a time,
//
//   [](baton::Transaction& tx, const baton::Delivery& delivery) { ... }
//
// or as many as there are at once,
//
//   [](baton::Transaction& tx, std::span<const baton::Delivery> deliveries) { ... }
//
// or one function per type of event:
//
//   baton::Handlers()
//       .on<OrderPlaced>([](baton::Transaction& tx, const OrderPlaced& order, const baton::Delivery&) { ...
//       }) .ignore_others()
//
// The handler returns: its writes and the note that the delivery is done are committed together, so the
// handler's effect in the database happens exactly once. The handler throws Reject: its writes are undone and
// the delivery is a dead letter. The handler throws Retry or anything else: its writes are undone and the
// delivery comes again, until the attempts are used up. After a deadlock or a serialization failure (SQLSTATE
// class 40) the handler runs again at once, and this does not count as an attempt.
//
// An effect outside the database (a mail, a call) can happen more than once: after a crash, a lost lease or a
// failed commit the handler runs again. Pass on the delivery's id, so that the other side recognises a
// repetition.
//
// Several deliveries share a transaction. Each has a savepoint, so a failure of one does not undo the others.
// A batch that fails as a whole is handled again in batches of one, so that the failure counts against the
// delivery that caused it.

#include <concepts>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "baton/codec.hpp"
#include "baton/transaction.hpp"

namespace baton {

class Handler {
  public:
    using One = std::function<void(Transaction&, const Delivery&)>;
    using Batch = std::function<void(Transaction&, std::span<const Delivery>)>;

    template <class F>
    requires std::invocable<F&, Transaction&, const Delivery&> Handler(F function)
        : one_(std::move(function)) {}
    template <class F>
    requires std::invocable<F&, Transaction&, std::span<const Delivery>> Handler(F function)
        : batch_(std::move(function)) {}

    const One& one() const { return one_; }
    const Batch& batch() const { return batch_; }

  private:
    One one_;
    Batch batch_;
};

// One function per type of event. A delivery of another type is rejected, unless ignore_others() was called.
class Handlers {
  public:
    template <Typed T, class F>
    requires std::invocable<F&, Transaction&, const T&, const Delivery&> Handlers& on(F function) {
        by_type_[std::string(std::string_view(Codec<T>::event_type))] =
            [function = std::move(function)](Transaction& tx, const Delivery& delivery) mutable {
                function(tx, read_as<T>(delivery), delivery);
            };
        return *this;
    }

    Handlers& otherwise(Handler::One function) {
        otherwise_ = std::move(function);
        return *this;
    }
    Handlers& ignore_others() {
        return otherwise([](Transaction&, const Delivery&) {});
    }

    void operator()(Transaction& tx, const Delivery& delivery) {
        if (const auto found = by_type_.find(delivery.type); found != by_type_.end())
            return found->second(tx, delivery);
        if (!otherwise_) throw Reject("no handler for events of type " + delivery.type);
        otherwise_(tx, delivery);
    }

  private:
    std::map<std::string, Handler::One> by_type_;
    Handler::One otherwise_;
};

}  // namespace baton
