#pragma once
// One connection to a PostgreSQL server.
//
// Not thread-safe, except cancel_running(). Every failure throws: SqlError with the server's SQLSTATE, detail
// and hint; ConnectionError when the connection is gone. The ConnectionError is in doubt when the connection
// broke while a statement was under way. After a ConnectionError the object is dead: make a new one. No call
// waits for ever: a server that does not answer within the given Patience counts as gone.

#include <libpq-fe.h>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postgres/patience.hpp"
#include "postgres/result.hpp"

namespace baton::postgres {

enum class Format : int { text = 0, binary = 1 };

// A parameter in text format, or NULL.
class Param {
  public:
    Param(std::nullptr_t) {}
    Param(std::nullopt_t) {}
    Param(std::string value) : value_(std::move(value)) {}
    Param(std::string_view value) : value_(std::string(value)) {}
    Param(const char* value) : value_(std::string(value)) {}
    Param(bool value) : value_(value ? "t" : "f") {}
    Param(int value) : value_(std::to_string(value)) {}
    Param(long value) : value_(std::to_string(value)) {}
    Param(long long value) : value_(std::to_string(value)) {}
    Param(unsigned long value) : value_(std::to_string(value)) {}
    Param(double value) : value_(std::to_string(value)) {}
    template <class T>
    Param(const std::optional<T>& value) {
        if (value) *this = Param(*value);
    }

    const char* c_str() const { return value_ ? value_->c_str() : nullptr; }

  private:
    std::optional<std::string> value_;
};

using Params = std::vector<Param>;

struct Notification {
    std::string channel;
    std::string payload;
    int sender;
};

class Connection {
  public:
    // Connects, or throws ConnectionError in the server's words. Unless the connection string says otherwise,
    // each host in it has ten seconds, and keepalives notice a peer that is gone.
    explicit Connection(const std::string& conninfo, const std::string& application_name = "baton",
                        std::shared_ptr<const Patience> patience = std::make_shared<Patience>());
    Connection(Connection&&) noexcept = default;
    Connection& operator=(Connection&&) noexcept = default;
    ~Connection() = default;

    // Run one or several statements without parameters. Returns the last result.
    Result exec(const std::string& sql);
    // Run one statement with parameters.
    Result query(const std::string& sql, const Params& params = {}, Format result_format = Format::text);
    // Prepare a statement under a name, then run it by this name.
    void prepare(const std::string& name, const std::string& sql);
    Result run_prepared(const std::string& name, const Params& params = {},
                        Format result_format = Format::text);
    // Write rows in COPY ... FROM STDIN form; returns how many the server took.
    long copy_in(const std::string& copy_sql, const std::function<bool(std::string&)>& next_chunk);

    // First value of the first row; throws Error when there is none.
    std::string value(const std::string& sql, const Params& params = {});

    // Wait until the server has something to say or the time is over; true when it has.
    bool wait_readable(std::chrono::milliseconds timeout);
    // Take what LISTEN brought, without waiting.
    std::vector<Notification> take_notifications();

    // Ask the server to cancel what runs on this connection. May be called from another thread.
    void cancel_running();

    // Give notices to `receiver` instead of dropping them. A hint stands behind the message.
    void on_notice(std::function<void(const std::string&)> receiver);

    bool in_transaction() const { return PQtransactionStatus(handle_.get()) != PQTRANS_IDLE; }
    bool alive() const { return !given_up_ && PQstatus(handle_.get()) == CONNECTION_OK; }
    int server_version() const { return PQserverVersion(handle_.get()); }
    int backend_pid() const { return PQbackendPID(handle_.get()); }
    std::string escape_identifier(std::string_view name) const;
    std::string escape_literal(std::string_view value) const;

    PGconn* native() const { return handle_.get(); }

    // The same as check_result(), for a result of this connection.
    Result check(PGresult* result);

    // Wait until the server says something, until it takes more bytes (`writing`), or for a moment. Throws
    // ConnectionError when nothing came in time since `asked`; the connection is dead then.
    void await(Patience::Clock::time_point asked, bool writing);

  private:
    class Answering;
    // Throw when nothing may be sent any more. Returns the moment at which the statement was asked.
    Patience::Clock::time_point begin();
    Result finish(int sent, Patience::Clock::time_point asked);
    void flush(Patience::Clock::time_point asked);
    [[noreturn]] void give_up(Patience::Clock::duration waited);
    [[noreturn]] void fail(bool in_doubt) const;

    std::unique_ptr<PGconn, decltype(&PQfinish)> handle_;
    std::shared_ptr<const Patience> patience_;
    bool given_up_ = false;  // the server did not answer in time
    std::unique_ptr<std::function<void(const std::string&)>> notice_receiver_;
};

// Turn a libpq result of any connection into a Result, or throw the error in it.
Result check_result(PGconn* connection, PGresult* result);

// BEGIN in the constructor, COMMIT in commit(). ROLLBACK in the destructor when commit() was not called.
class Transaction {
  public:
    explicit Transaction(Connection& connection, const std::string& begin = "begin");
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;

    // Throws ConnectionError in doubt when the connection breaks while committing.
    void commit();
    void rollback();

  private:
    Connection& connection_;
    bool open_ = true;
};

// Write an array literal ({"a","b"}) for a parameter.
std::string array_literal(std::span<const std::string> values);
std::string array_literal(std::span<const long long> values);

}  // namespace baton::postgres
