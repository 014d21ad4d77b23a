#include "baton/transaction.hpp"

#include "client/borrowed.hpp"

namespace baton {

Rows::Rows(PGresult* owned) : result_(owned, &PQclear) {}

int Rows::size() const {
    return PQntuples(result_.get());
}

bool Rows::is_null(int row, int column) const {
    return PQgetisnull(result_.get(), row, column) == 1;
}

std::string_view Rows::text(int row, int column) const {
    return {PQgetvalue(result_.get(), row, column),
            static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

long Rows::affected() const {
    return std::strtol(PQcmdTuples(result_.get()), nullptr, 10);
}

Transaction::Transaction(postgres::Connection& connection, std::stop_token stopping)
    : connection_(connection), stopping_(std::move(stopping)) {}

PGconn* Transaction::native() const {
    return connection_.native();
}

Rows Transaction::query(const std::string& sql, const std::vector<Parameter>& parameters) {
    client::Values values;
    values.reserve(parameters.size());
    for (const auto& parameter : parameters) values.push_back(parameter.value());
    return Rows(client::Borrowed(native()).query(sql, values).release());
}

Published Transaction::publish(const Outbox& outbox, const NewEvent& event) {
    return outbox.publish(native(), event);
}

std::vector<Published> Transaction::publish(const Outbox& outbox, std::span<const NewEvent> events) {
    return outbox.publish(native(), events);
}

}  // namespace baton
