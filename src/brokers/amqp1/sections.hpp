#pragma once
// The sections that the bytes of an AMQP 1.0 message consist of. Publishers are strangers: what is read here
// is what Proton's engine does not look at. Its reader exhausts the stack over lists in lists without end,
// and keeps the last one only of a body in several sections.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace baton::brokers {

struct Amqp1Section {
    static constexpr std::uint64_t data = 0x75, sequence = 0x76, value = 0x77;

    std::uint64_t kind = 0;    // 0: named by something else than a number
    std::string_view content;  // a value as AMQP writes it

    bool is_body() const { return kind >= data && kind <= value; }
    // The bytes of a data section.
    std::string_view binary() const;
};

// Nothing when the bytes are no sections from the beginning to the end, or hold values more than 100 deep.
std::optional<std::vector<Amqp1Section>> read_amqp1_sections(std::string_view bytes);

}  // namespace baton::brokers
