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
// It returns: its writes and the note that the delivery is done are committed together, so its effect in the
// database happens exactly once. It throws Reject: its writes are undone and the delivery is a dead letter.
// It throws Retry or anything else: its writes are undone and the delivery comes again, until its attempts
// are used up. Deadlocks and serialization failures (SQLSTATE class 40) are tried again at once and do not
// count.
//
// What a handler does outside the database (a mail, a call) can happen more than once: after a crash, a lost
// lease or a failed commit it runs again. Give such things the delivery's id to recognise a repetition by.
//
// Several deliveries share a transaction, with a savepoint each, so that a failure of one does not undo the
// others. A batch that fails as a whole is handled again in batches of one, so that the failure is charged to
// whom it belongs.

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

// One function per type of event; a type that none is for is rejected, unless others are ignored.
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
