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
    std::string nulls;
    for (const auto& param : params) {
        types.push_back(param.type);
        values.push_back(param.value);
        nulls += param.is_null ? 'n' : ' ';
    }
    return call([&] {
        const int outcome = SPI_execute_with_args(sql, static_cast<int>(params.size()), types.data(),
                                                  values.data(), nulls.c_str(), false, 0);
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

Datum Spi::keep(std::uint64_t row, int column) const {
    return call([&] {
        bool is_null = true;
        const Datum value = SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, &is_null);
        if (is_null) elog(ERROR, "a value is missing");
        const Form_pg_attribute shape = TupleDescAttr(SPI_tuptable->tupdesc, column - 1);
        return SPI_datumTransfer(value, shape->attbyval, shape->attlen);
    });
}

void Spi::give_rows(FunctionCallInfo caller) const {
    call([&] {
        auto* const result = reinterpret_cast<ReturnSetInfo*>(caller->resultinfo);
        if (result == nullptr || !IsA(result, ReturnSetInfo) ||
            (result->allowedModes & SFRM_Materialize) == 0)
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("a function that returns rows is called where none are taken")));
        if (SPI_tuptable == nullptr)
            ereport(ERROR,
                    (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("the statement returns no rows")));
        MemoryContext const before = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
        result->setDesc = CreateTupleDescCopy(SPI_tuptable->tupdesc);
        result->setResult =
            tuplestore_begin_heap((result->allowedModes & SFRM_Materialize_Random) != 0, false, work_mem);
        for (std::uint64_t row = 0; row < SPI_processed; ++row)
            tuplestore_puttuple(result->setResult, SPI_tuptable->vals[row]);
        result->returnMode = SFRM_Materialize;
        MemoryContextSwitchTo(before);
    });
}

}  // namespace baton::pg
