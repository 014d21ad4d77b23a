#pragma once
// Events as types of your own.
//
// Say once how a type travels:
//
//   struct OrderPlaced { long order; long total; };
//
//   template <>
//   struct baton::Codec<OrderPlaced> {
//       static constexpr std::string_view event_type = "order.placed";
//       static constexpr int schema_version = 2;
//       static std::string encode(const OrderPlaced& event);                   // the payload
//       static OrderPlaced decode(std::string_view payload, int schema_version);  // also of older versions
//   };
//
// then publish an OrderPlaced, and read one from a delivery. baton/json.hpp writes encode and decode for
// types that nlohmann::json knows.

#include <concepts>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "baton/error.hpp"
#include "baton/event.hpp"

namespace baton {

template <class T>
struct Codec;

template <class T>
concept Typed = requires(const T& value, std::string_view payload) {
    { Codec<T>::event_type } -> std::convertible_to<std::string_view>;
    { Codec<T>::schema_version } -> std::convertible_to<int>;
    { Codec<T>::encode(value) } -> std::convertible_to<std::string>;
    { Codec<T>::decode(payload, 1) } -> std::convertible_to<T>;
};

// Make the event that carries a value. Aggregate, headers and keys come from `event`.
template <Typed T>
NewEvent as_event(const T& value, NewEvent event = {}) {
    event.type = std::string(std::string_view(Codec<T>::event_type));
    event.schema_version = Codec<T>::schema_version;
    event.payload = Codec<T>::encode(value);
    return event;
}

// True when the delivery carries a T, as its type says.
template <Typed T>
bool carries(const Delivery& delivery) {
    return delivery.type == std::string_view(Codec<T>::event_type);
}

// Read the value that a delivery carries. A value that cannot be read now cannot be read later either: throws
// Reject, so the delivery becomes a dead letter with its payload, and blocks no other delivery.
template <Typed T>
T read_as(const Delivery& delivery) {
    if (!carries<T>(delivery))
        throw Reject("event " + delivery.id.str() + " is a " + delivery.type + ", not a " +
                     std::string(std::string_view(Codec<T>::event_type)));
    try {
        return Codec<T>::decode(delivery.payload, delivery.schema_version);
    } catch (const Error&) {
        throw;  // the codec knows what it wants
    } catch (const std::exception& error) {
        throw Reject("event " + delivery.id.str() + " cannot be read as " + delivery.type + " version " +
                     std::to_string(delivery.schema_version) + ": " + error.what());
    }
}

}  // namespace baton
