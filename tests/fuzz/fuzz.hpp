#pragma once
// What the fuzz targets have in common. A target is one function, LLVMFuzzerTestOneInput, that takes any
// bytes and ends the process when a property does not hold.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace baton::fuzz {

inline void require(bool holds, const char* sentence) {
    if (holds) return;
    std::fprintf(stderr, "this does not hold: %s\n", sentence);
    std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

// An input that holds several values, each ended by a line of its own that is "--".
class Values {
  public:
    explicit Values(std::string_view input) : rest_(input) {}

    std::string_view next() {
        constexpr std::string_view divider = "\n--\n";
        const auto end = rest_.find(divider);
        const std::string_view value = rest_.substr(0, end);
        rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + divider.size());
        return value;
    }

  private:
    std::string_view rest_;
};

}  // namespace baton::fuzz
