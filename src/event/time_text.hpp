#pragma once
// Times as text, as RFC 3339 has them.

#include <array>
#include <optional>
#include <string_view>

#include "event/event.hpp"

namespace baton {

// A time with microseconds and Z: 2026-01-31T23:59:59.123456Z
class TimeText {
  public:
    explicit TimeText(Timestamp time);
    operator std::string_view() const { return {chars_.data(), size_}; }

  private:
    std::array<char, 32> chars_;
    std::size_t size_ = 0;
};
// Read such a time, with any offset and any number of decimals. Nothing when the text is no time.
std::optional<Timestamp> read_rfc3339(std::string_view text);

}  // namespace baton
