#pragma once
// The transaction in which a handler works.
//
// baton begins and ends the transaction. When the handler returns, baton notes that the delivery is done and
// commits. When the handler throws, baton rolls back. A handler must not end the transaction itself. The
// isolation level is READ COMMITTED. The transaction belongs to the handler's thread until the handler
// returns.

#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "baton/export.hpp"
#include "baton/outbox.hpp"

namespace baton {

namespace postgres {
class Connection;
}

// A parameter of a statement: text, a number, a truth, or NULL (std::nullopt, or an empty std::optional).
class Parameter {
  public:
    Parameter(std::nullopt_t) {}
    Parameter(std::string value) : value_(std::move(value)) {}
    Parameter(std::string_view value) : value_(std::string(value)) {}
    Parameter(const char* value) : value_(std::string(value)) {}
    Parameter(bool value) : value_(value ? "t" : "f") {}
    Parameter(int value) : value_(std::to_string(value)) {}
    Parameter(long value) : value_(std::to_string(value)) {}
    Parameter(long long value) : value_(std::to_string(value)) {}
    Parameter(const EventId& value) : value_(value.str()) {}
    template <class T>
    Parameter(const std::optional<T>& value) {
        if (value) *this = Parameter(*value);
    }

    const std::optional<std::string>& value() const { return value_; }

  private:
    std::optional<std::string> value_;
};

// The result of a statement, in text format. Views are valid as long as the Rows, or a copy of them, live.
class BATON_API Rows {
  public:
    explicit Rows(PGresult* owned);

    int size() const;
    bool empty() const { return size() == 0; }
    bool is_null(int row, int column) const;
    std::string_view text(int row, int column) const;
    // Rows that the command touched.
    long affected() const;
    PGresult* native() const { return result_.get(); }

  private:
    std::shared_ptr<PGresult> result_;
};

class BATON_API Transaction {
  public:
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;

    // The connection, for libpq's own functions. Leave no unfinished query on the connection.
    PGconn* native() const;

    // Run one statement. Throws SqlError. After an error the transaction can only be rolled back: do not
    // catch the exception, or put a savepoint around a statement that may fail.
    Rows query(const std::string& sql, const std::vector<Parameter>& parameters = {});

    // Publish: the event leaves if, and only if, the handler's work is committed.
    Published publish(const Outbox& outbox, const NewEvent& event);
    std::vector<Published> publish(const Outbox& outbox, std::span<const NewEvent> events);
    template <Typed T>
    Published publish(const Outbox& outbox, const T& value, NewEvent event = {}) {
        return publish(outbox, as_event(value, std::move(event)));
    }

    // Says whether the worker was asked to stop, for handlers that take long. The worker waits for the
    // handler in any case; a handler that wants to end early throws Retry.
    const std::stop_token& stopping() const { return stopping_; }

    // Made by the library.
    Transaction(postgres::Connection& connection, std::stop_token stopping);

  private:
    postgres::Connection& connection_;
    std::stop_token stopping_;
};

}  // namespace baton
