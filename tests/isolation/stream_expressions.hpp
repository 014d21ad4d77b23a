#pragma once
// Random values and conditions over the columns in reach, as parts of the queries of stream_grammar.hpp.

#include <functional>
#include <optional>

#include "isolation/stream_grammar.hpp"

namespace baton::test {

struct Reference {
    std::string text;
    Kind kind;
};

using Scope = std::vector<Reference>;

// Whether values of that kind that are equal look the same.
inline bool is_strict(Kind kind) {
    return kind != Kind::loose;
}

class Expressions {
  public:
    explicit Expressions(Dice& dice) : dice_(dice) {}

    // A value of that kind.
    std::string value(Kind kind, const Scope& scope, int depth = 1);
    // A value that names a column, and is no bare literal: GROUP BY and ORDER BY take those for numbers of
    // columns.
    Reference key(const Scope& scope);
    std::string condition(const Scope& scope, int depth = 1);
    // Some column of that kind.
    std::optional<std::string> column(Kind kind, const Scope& scope);
    // A condition that compares columns of both sides for equality, if there are some of one kind.
    std::string equality(const Scope& left, const Scope& right);
    // Every column in reach, so that rows that are equal by it are the same.
    static std::string total_order(const Scope& scope);
    // Some column of a strict kind.
    std::optional<Reference> strict_column(const Scope& scope);

  private:
    std::string compound(Kind kind, const Scope& scope, int depth);
    std::string number(const Scope& scope, int depth);
    std::string comparison(const Scope& scope, int depth);

    Dice& dice_;
};

}  // namespace baton::test
