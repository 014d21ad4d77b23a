#include "client/borrowed.hpp"

namespace baton::client {

namespace {

std::vector<const char*> pointers(const Values& values) {
    std::vector<const char*> made;
    made.reserve(values.size());
    for (const auto& value : values) made.push_back(value ? value->c_str() : nullptr);
    return made;
}

}  // namespace

Borrowed::Borrowed(PGconn* native) : native_(native) {
    if (native == nullptr) throw UsageError("a connection is needed, not a null pointer");
}

void Borrowed::need_transaction() const {
    if (PQtransactionStatus(native_) == PQTRANS_IDLE)
        throw UsageError("no transaction is open on this connection",
                         "begin one: the event and the change it tells of must commit together");
}

postgres::Result Borrowed::query(const std::string& sql, const Values& values) {
    if (PQpipelineStatus(native_) != PQ_PIPELINE_OFF)
        throw UsageError("this connection is in pipeline mode", "use enqueue() there");
    const auto texts = pointers(values);
    return postgres::check_result(native_, PQexecParams(native_, sql.c_str(), static_cast<int>(texts.size()),
                                                        nullptr, texts.data(), nullptr, nullptr, 0));
}

void Borrowed::send(const std::string& sql, const Values& values) {
    if (PQpipelineStatus(native_) == PQ_PIPELINE_OFF)
        throw UsageError("this connection is not in pipeline mode",
                         "call PQenterPipelineMode(), or use publish()");
    const auto texts = pointers(values);
    if (PQsendQueryParams(native_, sql.c_str(), static_cast<int>(texts.size()), nullptr, texts.data(),
                          nullptr, nullptr, 0) != 1)
        throw ConnectionError(PQerrorMessage(native_));
}

}  // namespace baton::client
