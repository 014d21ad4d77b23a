#include "client/table_name.hpp"

#include "baton/error.hpp"

namespace baton::client {

namespace {

bool starts_identifier(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}

bool continues_identifier(unsigned char c) {
    return starts_identifier(c) || (c >= '0' && c <= '9') || c == '$';
}

char folded(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Reads identifiers from the front of a text.
class Reader {
  public:
    explicit Reader(std::string_view text) : whole_(text), rest_(text) {}

    bool at_end() const { return rest_.empty(); }

    void dot() {
        if (rest_.front() != '.') fail();
        rest_.remove_prefix(1);
    }

    void end() const {
        if (!at_end()) fail();
    }

    std::string identifier() {
        if (!rest_.empty() && rest_.front() == '"') return quoted();
        std::string read = "\"";
        while (!rest_.empty() &&
               (read.size() == 1 ? starts_identifier(byte()) : continues_identifier(byte()))) {
            read += folded(rest_.front());
            rest_.remove_prefix(1);
        }
        if (read.size() == 1) fail();
        return read + '"';
    }

  private:
    unsigned char byte() const { return static_cast<unsigned char>(rest_.front()); }

    // A quote inside is written twice, here as there.
    std::string quoted() {
        std::size_t end = 1;
        while (end < rest_.size() && (rest_[end] != '"' || (end + 1 < rest_.size() && rest_[end + 1] == '"')))
            end += rest_[end] == '"' ? 2 : 1;
        if (end >= rest_.size() || end == 1) fail();
        std::string read(rest_.substr(0, end + 1));
        rest_.remove_prefix(end + 1);
        return read;
    }

    [[noreturn]] void fail() const {
        throw UsageError("not the name of a table: " + std::string(whole_),
                         "write it as in SQL: orders, shop.orders or \"Odd Name\"");
    }

    std::string_view whole_;
    std::string_view rest_;
};

}  // namespace

std::string quote_table_name(std::string_view name) {
    if (name.find('\0') != std::string_view::npos) throw UsageError("a table's name cannot hold a zero byte");
    Reader reader(name);
    std::string quoted = reader.identifier();
    if (!reader.at_end()) {
        reader.dot();
        quoted += '.' + reader.identifier();
    }
    reader.end();
    return quoted;
}

}  // namespace baton::client
