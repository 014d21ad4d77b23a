#include "pg/names.hpp"

extern "C" {
#include "nodes/makefuncs.h"
}

namespace baton::pg {

namespace {

bool is_plain(std::string_view word) {
    if (word.empty() || word.size() >= NAMEDATALEN || (word[0] >= '0' && word[0] <= '9')) return false;
    return std::ranges::all_of(
        word, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

// A word that ends with a zero, as the server wants it.
struct Word {
    std::array<char, NAMEDATALEN> letters;
    explicit Word(std::string_view word) {
        std::ranges::copy(word, letters.begin());
        letters[word.size()] = '\0';
    }
};

}  // namespace

Oid plain_table(std::string_view name) {
    const std::size_t dot = name.find('.');
    const std::string_view schema = dot == std::string_view::npos ? std::string_view{} : name.substr(0, dot);
    const std::string_view table = dot == std::string_view::npos ? name : name.substr(dot + 1);
    if (!is_plain(table) || (dot != std::string_view::npos && !is_plain(schema))) return InvalidOid;
    Word schema_word(schema);
    Word table_word(table);
    return call([&] {
        RangeVar* const wanted = makeRangeVar(schema.empty() ? nullptr : schema_word.letters.data(),
                                              table_word.letters.data(), -1);
        return RangeVarGetRelid(wanted, NoLock, true);
    });
}

}  // namespace baton::pg
