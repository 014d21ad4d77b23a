#include "pg/spi.hpp"

namespace baton::pg {

Spi::Spi() {
    call([] {
        if (SPI_connect() != SPI_OK_CONNECT) elog(ERROR, "cannot connect to the executor");
    });
}

Spi::~Spi() {
    if (std::uncaught_exceptions() == exceptions_at_start_) SPI_finish();
}

std::uint64_t Spi::execute(const char* sql, std::span<const SqlParam> params) {
    std::vector<Oid> types;
    std::vector<Datum> values;
    for (const auto& param : params) {
        types.push_back(param.type);
        values.push_back(param.value);
    }
    return call([&] {
        const int outcome = SPI_execute_with_args(sql, static_cast<int>(params.size()), types.data(),
                                                  values.data(), nullptr, false, 0);
        if (outcome < 0) elog(ERROR, "statement failed: %s", SPI_result_code_string(outcome));
        return SPI_processed;
    });
}

std::optional<std::string> Spi::text(std::uint64_t row, int column) const {
    const char* const value =
        call([&] { return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column); });
    if (value == nullptr) return std::nullopt;
    return std::string(value);
}

std::optional<Datum> Spi::datum(std::uint64_t row, int column) const {
    bool is_null = true;
    const Datum value =
        call([&] { return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, &is_null); });
    if (is_null) return std::nullopt;
    return value;
}

}  // namespace baton::pg
