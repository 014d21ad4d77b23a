#pragma once
// SQL from inside the server.

#include <optional>
#include <span>

#include "pg/guard.hpp"

namespace baton::pg {

// A statement's parameter. Text must outlive the call.
struct SqlParam {
    Oid type;
    Datum value;
    bool is_null = false;
};

// A connection to the server's own executor. Statements run in the caller's transaction. When an exception
// passes, the end of the (sub)transaction closes the connection, as it does for the server's own code.
class Spi {
  public:
    Spi();
    ~Spi();
    Spi(const Spi&) = delete;
    Spi& operator=(const Spi&) = delete;

    // Run one statement. Returns how many rows it gave or touched. Throws ServerError.
    std::uint64_t execute(const char* sql, std::span<const SqlParam> params = {});

    // A value of the last statement's rows as text; nothing for null.
    std::optional<std::string> text(std::uint64_t row, int column) const;
    // The same for a value that fits a Datum; nothing for null.
    std::optional<Datum> datum(std::uint64_t row, int column) const;
    // Whether the last statement gave no rows.
    bool empty() const { return SPI_tuptable == nullptr || SPI_processed == 0; }
    // A value of the last statement's rows that outlives the connection: in the caller's memory. Not null.
    Datum keep(std::uint64_t row, int column) const;
    // Give the last statement's rows to the caller of a set-returning function. The server compares the types
    // with those that the caller expects.
    void give_rows(FunctionCallInfo caller) const;

  private:
    int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace baton::pg
