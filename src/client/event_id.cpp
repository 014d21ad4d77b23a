#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text.hpp"
#include "baton/error.hpp"
#include "baton/event.hpp"
#include "baton/trace.hpp"

namespace baton {

namespace {

// Random bytes from the system: a generator of our own would give the same ids in two processes after a fork.
std::array<unsigned char, 16> random_bytes() {
    std::array<unsigned char, 16> bytes{};
    while (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        if (errno != EINTR) throw Error("the system has no random bytes");
    return bytes;
}

}  // namespace

EventId EventId::make() {
    auto bytes = random_bytes();
    auto time = std::chrono::duration_cast<std::chrono::milliseconds>(
                    std::chrono::system_clock::now().time_since_epoch())
                    .count();
    for (std::size_t i = 6; i-- > 0; time >>= 8) bytes[i] = static_cast<unsigned char>(time & 0xff);
    bytes[6] = static_cast<unsigned char>(0x70 | (bytes[6] & 0x0f));  // version 7
    bytes[8] = static_cast<unsigned char>(0x80 | (bytes[8] & 0x3f));  // variant
    std::string text;
    append_uuid(text, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return EventId(std::move(text));
}

NewEvent caused_by(const Delivery& cause, NewEvent next) {
    next.causation_id = cause.id.str();
    next.correlation_id = cause.correlation_id ? cause.correlation_id : cause.id.str();
    const bool traced = next.trace_id || std::ranges::any_of(next.headers, [](const auto& header) {
                            return same_name(header.first, "traceparent");
                        });
    if (traced) return next;
    next.trace_id = cause.trace_id;
    const std::string parent = traceparent_of(cause);
    if (parent.empty()) return next;
    next.headers["traceparent"] = parent;
    for (const auto& [name, value] : cause.headers)
        if (same_name(name, "tracestate")) next.headers["tracestate"] = value;
    return next;
}

}  // namespace baton
