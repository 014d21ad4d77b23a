#pragma once
// The result of a statement. Owns the libpq result; values are views into that result.

#include <libpq-fe.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "baton/error.hpp"

namespace baton::postgres {

class Result {
  public:
    explicit Result(PGresult* result) : result_(result, &PQclear) {}

    int rows() const { return PQntuples(result_.get()); }
    int columns() const { return PQnfields(result_.get()); }
    bool empty() const { return rows() == 0; }
    // How many rows the command touched; 0 where this has no meaning.
    long affected() const;

    // Throws UsageError when there is no such column.
    int column(const std::string& name) const;

    bool is_null(int row, int col) const { return PQgetisnull(result_.get(), row, col) == 1; }
    std::string_view view(int row, int col) const {
        return {PQgetvalue(result_.get(), row, col),
                static_cast<std::size_t>(PQgetlength(result_.get(), row, col))};
    }
    std::string text(int row, int col) const { return std::string(view(row, col)); }
    std::optional<std::string> optional_text(int row, int col) const {
        if (is_null(row, col)) return std::nullopt;
        return text(row, col);
    }
    bool boolean(int row, int col) const { return view(row, col) == "t"; }

    // Read a number from a value in text format. Throws Error when the value is no number.
    template <class Number = long long>
    Number number(int row, int col) const {
        Number value{};
        const auto text = view(row, col);
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc{} || end != text.data() + text.size())
            throw Error("not a number: \"" + std::string(text) + "\"");
        return value;
    }

    PGresult* native() const { return result_.get(); }
    // Give the libpq result to the caller, who clears it.
    PGresult* release() { return result_.release(); }

  private:
    std::unique_ptr<PGresult, decltype(&PQclear)> result_;
};

}  // namespace baton::postgres
