#pragma once
// The events of a small shop, and how they travel.

#include <baton/json.hpp>

struct OrderPlaced {
    long order;
    long total;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OrderPlaced, order, total)

template <>
struct baton::Codec<OrderPlaced> : baton::JsonCodec<OrderPlaced> {
    static constexpr std::string_view event_type = "order.placed";
};

struct PaymentReceived {
    long order;
    long amount;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PaymentReceived, order, amount)

template <>
struct baton::Codec<PaymentReceived> : baton::JsonCodec<PaymentReceived> {
    static constexpr std::string_view event_type = "payment.received";
};
