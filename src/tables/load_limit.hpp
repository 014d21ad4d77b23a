#pragma once
// How many bytes an event may have to be loaded: the limit of the settings, and the limit of the sink as soon
// as it is known.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace baton::tables {

class LoadLimit {
  public:
    static constexpr std::size_t usual = 16 << 20;

    explicit LoadLimit(std::size_t settings) : settings_(settings) {}

    // 0: not known. May be called from any thread.
    void sink_takes(std::size_t bytes) { sink_ = bytes; }
    std::int64_t bytes() const {
        const std::size_t sink = sink_;
        return static_cast<std::int64_t>(sink == 0 ? settings_ : std::min(settings_, sink));
    }

  private:
    std::size_t settings_;
    std::atomic<std::size_t> sink_{0};
};

}  // namespace baton::tables
