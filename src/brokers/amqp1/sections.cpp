#include "brokers/amqp1/sections.hpp"

namespace baton::brokers {

namespace {

constexpr int most_depth = 100;

struct Malformed {};

// Walks over values as AMQP 1.0 writes them: a code that says how many bytes follow, and the bytes.
class Walk {
  public:
    explicit Walk(std::string_view bytes) : rest_(bytes) {}

    bool done() const { return rest_.empty(); }
    std::string_view take(std::size_t size) {
        if (size > rest_.size()) throw Malformed();
        const auto taken = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return taken;
    }
    std::uint64_t number(std::size_t width) {
        std::uint64_t value = 0;
        for (const char byte : take(width)) value = value << 8 | static_cast<unsigned char>(byte);
        return value;
    }

    // Skip a value and return its bytes.
    std::string_view value(int depth) {
        const auto from = rest_;
        content(code(depth), depth);
        return from.substr(0, from.size() - rest_.size());
    }

  private:
    // The code of a value, behind the name of its type where the publisher gave one.
    unsigned char code(int depth) {
        if (depth > most_depth) throw Malformed();
        auto found = static_cast<unsigned char>(take(1)[0]);
        for (; found == 0; found = static_cast<unsigned char>(take(1)[0])) {
            if (++depth > most_depth) throw Malformed();
            value(depth);
        }
        return found;
    }

    void content(unsigned char code, int depth) {
        const bool wide = (code & 0x10) != 0;
        switch (code >> 4) {
            case 0x4:
                return;
            case 0x5:
            case 0x6:
            case 0x7:
            case 0x8:
            case 0x9:
                take(std::size_t{1} << ((code >> 4) - 5));
                return;
            case 0xa:
            case 0xb:
                take(number(wide ? 4 : 1));
                return;
            case 0xc:
            case 0xd:
            case 0xe:
            case 0xf:
                return compound(number(wide ? 4 : 1), wide ? 4 : 1, code >= 0xe0, depth);
            default:
                throw Malformed();
        }
    }

    // A list, a map or an array: how many values there are, and the values.
    void compound(std::size_t size, std::size_t width, bool array, int depth) {
        Walk inside(take(size));
        auto count = inside.number(width);
        if (count == 0 && inside.done()) return;
        const unsigned char shared = array ? inside.code(depth + 1) : 0;
        for (; count > 0; --count) {
            // Values without bytes cost nothing, and there may be billions of them.
            if (array && shared >> 4 == 0x4) break;
            if (array)
                inside.content(shared, depth + 1);
            else
                inside.value(depth + 1);
        }
        if (!inside.done()) throw Malformed();
    }

    std::string_view rest_;
};

Amqp1Section read_section(Walk& walk) {
    Amqp1Section section;
    if (walk.number(1) != 0) throw Malformed();
    Walk name(walk.value(1));
    const auto code = name.number(1);
    if (code == 0x53) section.kind = name.number(1);
    if (code == 0x80) section.kind = name.number(8);
    section.content = walk.value(1);
    return section;
}

}  // namespace

std::string_view Amqp1Section::binary() const {
    Walk walk(content);
    const auto code = content.empty() ? 0 : walk.number(1);
    if (code != 0xa0 && code != 0xb0) return {};
    return walk.take(walk.number(code == 0xa0 ? 1 : 4));
}

std::optional<std::vector<Amqp1Section>> read_amqp1_sections(std::string_view bytes) {
    std::vector<Amqp1Section> sections;
    try {
        for (Walk walk(bytes); !walk.done();) sections.push_back(read_section(walk));
    } catch (const Malformed&) {
        return std::nullopt;
    }
    return sections;
}

}  // namespace baton::brokers
