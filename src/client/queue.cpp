#include "client/queue.hpp"

#include "event/headers.hpp"

namespace baton::client {

postgres::Param interval_or_null(std::chrono::milliseconds time) {
    if (time.count() < 0) return nullptr;
    return std::to_string(time.count()) + " ms";
}

std::map<std::string, std::string> read_headers(const postgres::Result& rows, int row, int column) {
    if (rows.is_null(row, column)) return {};
    Headers list;
    append_headers(list, rows.view(row, column));
    std::map<std::string, std::string> made;
    for (auto& header : list) made.insert_or_assign(std::move(header.name), std::move(header.value));
    return made;
}

}  // namespace baton::client
