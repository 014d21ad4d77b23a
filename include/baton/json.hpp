#pragma once
// Codecs by nlohmann::json, for programs that use this library. libbaton itself does not need it.
//
//   struct OrderPlaced { long order; long total; };
//   NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OrderPlaced, order, total)
//
//   template <>
//   struct baton::Codec<OrderPlaced> : baton::JsonCodec<OrderPlaced> {
//       static constexpr std::string_view event_type = "order.placed";
//   };

#include <nlohmann/json.hpp>

#include "baton/codec.hpp"

namespace baton {

template <class T>
struct JsonCodec {
    static constexpr int schema_version = 1;
    static std::string encode(const T& value) { return nlohmann::json(value).dump(); }
    static T decode(std::string_view payload, int /*schema_version*/) {
        return nlohmann::json::parse(payload).template get<T>();
    }
};

}  // namespace baton
