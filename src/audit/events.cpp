#include "audit/events.hpp"

#include <fmt/format.h>

#include <charconv>
#include <random>

namespace baton::audit {

namespace {

constexpr std::size_t most_examples = 10;

}  // namespace

Names Names::uuids() {
    std::random_device random;
    return Names(fmt::format("{:08x}-{:04x}-8{:03x}-8{:03x}-", random(), random() & 0xffffU,
                             random() & 0xfffU, random() & 0xfffU));
}

std::string Names::id(Index index) const {
    return fmt::format("{}{:0{}x}", prefix_, index, digits);
}

std::optional<Index> Names::find(std::string_view id) const {
    if (id.size() != prefix_.size() + digits || !id.starts_with(prefix_)) return std::nullopt;
    Index index = 0;
    const auto [end, error] = std::from_chars(id.data() + prefix_.size(), id.data() + id.size(), index, 16);
    if (error != std::errc{} || end != id.data() + id.size()) return std::nullopt;
    return index;
}

void Finding::add(const std::string& example) {
    ++count;
    if (examples.size() < most_examples) examples.push_back(example);
}

void Arrivals::add(const Names& names, std::string_view id) {
    if (const auto index = names.find(id))
        events.push_back(*index);
    else
        strangers.add(std::string(id));
}

}  // namespace baton::audit
