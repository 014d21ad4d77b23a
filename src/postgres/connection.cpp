#include "postgres/connection.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <utility>

namespace baton::postgres {

namespace {

std::string field(const PGresult* result, int code) {
    const char* text = PQresultErrorField(result, code);
    return text != nullptr ? text : "";
}

// What libpq says, on one line: several servers one after the other. Its indented lines guess at the
// reason.
std::string in_one_line(const std::string& said) {
    std::istringstream lines(said);
    std::string joined;
    for (std::string line; std::getline(lines, line);) {
        if (line.empty() || line.front() == '\t') continue;
        joined += (joined.empty() ? "" : "; ") + line;
    }
    return joined;
}

void drop_notice(void*, const PGresult*) {}

void pass_notice(void* receiver, const PGresult* result) {
    const std::string hint = field(result, PG_DIAG_MESSAGE_HINT);
    (*static_cast<std::function<void(const std::string&)>*>(receiver))(
        field(result, PG_DIAG_MESSAGE_PRIMARY) + (hint.empty() ? "" : "\nhint: " + hint));
}

std::vector<const char*> pointers(const Params& params) {
    std::vector<const char*> values;
    values.reserve(params.size());
    for (const auto& param : params) values.push_back(param.c_str());
    return values;
}

}  // namespace

Connection::Connection(const std::string& conninfo, const std::string& application_name,
                       std::shared_ptr<const Patience> patience)
    : handle_(nullptr, &PQfinish), patience_(std::move(patience)) {
    const auto left = std::chrono::ceil<std::chrono::seconds>(patience_->end() - Patience::Clock::now());
    if (left.count() <= 0) throw ConnectionError("there is no time left to connect");
    const std::string timeout = std::to_string(std::min(left, Patience::connect).count());
    // What stands before the connection string is overruled by it. PGCONNECT_TIMEOUT is the user's word too.
    const std::array<const char*, 9> keywords{
        "connect_timeout",           "keepalives_idle",  "keepalives_interval",
        "keepalives_count",          "tcp_user_timeout", "dbname",
        "fallback_application_name", "client_encoding",  nullptr};
    const std::array<const char*, 9> values{
        std::getenv("PGCONNECT_TIMEOUT") == nullptr ? timeout.c_str() : nullptr,
        "15",
        "5",
        "3",
        "30000",
        conninfo.c_str(),
        application_name.c_str(),
        "UTF8",
        nullptr};
    handle_.reset(PQconnectdbParams(keywords.data(), values.data(), 1));
    if (PQstatus(handle_.get()) != CONNECTION_OK) fail(false);
    PQsetNoticeReceiver(handle_.get(), &drop_notice, nullptr);
}

void Connection::fail(bool in_doubt) const {
    throw ConnectionError(in_one_line(PQerrorMessage(handle_.get())), in_doubt);
}

// While a statement is under way nothing is written or read in a call that blocks. A handler that gets the
// connection expects one that blocks, so it becomes one again.
class Connection::Answering {
  public:
    explicit Answering(PGconn* handle) : handle_(handle) {
        was_ = PQisnonblocking(handle_);
        PQsetnonblocking(handle_, 1);
    }
    ~Answering() {
        if (was_ == 0 && PQstatus(handle_) == CONNECTION_OK && PQflush(handle_) == 0)
            PQsetnonblocking(handle_, 0);
    }
    Answering(const Answering&) = delete;
    Answering& operator=(const Answering&) = delete;

  private:
    PGconn* handle_;
    int was_ = 0;
};

Patience::Clock::time_point Connection::begin() {
    if (given_up_) throw ConnectionError("the connection was given up: the server did not answer in time");
    const auto now = Patience::Clock::now();
    if (now >= patience_->end()) give_up({});
    return now;
}

void Connection::give_up(Patience::Clock::duration waited) {
    given_up_ = true;
    // Nothing may wait for this socket again, not even the library when it says goodbye.
    ::shutdown(PQsocket(handle_.get()), SHUT_RDWR);
    throw ConnectionError("the server has not answered for " + in_words(waited), true);
}

void Connection::await(Patience::Clock::time_point asked, bool writing) {
    using std::chrono::milliseconds;
    const auto now = Patience::Clock::now();
    const auto limit = patience_->limit(asked);
    if (now >= limit) give_up(now - asked);
    pollfd waiting{PQsocket(handle_.get()), static_cast<short>(writing ? POLLIN | POLLOUT : POLLIN), 0};
    const auto time = std::min(std::chrono::ceil<milliseconds>(limit - now), Patience::glance);
    ::poll(&waiting, 1, static_cast<int>(time.count()));
}

// Write everything that is to be written.
void Connection::flush(Patience::Clock::time_point asked) {
    for (int left = PQflush(handle_.get()); left != 0; left = PQflush(handle_.get())) {
        if (left < 0) fail(true);
        await(asked, true);
        if (PQconsumeInput(handle_.get()) == 0) fail(true);
    }
}

// Wait for the answer to what was sent; of several results the last counts, or the one that begins a COPY.
Result Connection::finish(int sent, Patience::Clock::time_point asked) {
    PGconn* handle = handle_.get();
    if (sent != 1) fail(true);
    flush(asked);
    std::unique_ptr<PGresult, decltype(&PQclear)> last(nullptr, &PQclear);
    for (;;) {
        // What TLS has decrypted and not yet given out, two pieces at most, does not show at the socket.
        for (int hidden = PQsslInUse(handle) != 0 ? 2 : 0; PQisBusy(handle) != 0 && hidden > 0; --hidden)
            if (PQconsumeInput(handle) == 0) fail(true);
        if (PQisBusy(handle) != 0) {
            await(asked, false);
            if (PQconsumeInput(handle) == 0) fail(true);
            continue;
        }
        PGresult* next = PQgetResult(handle);
        if (next == nullptr) break;
        last.reset(next);
        const auto status = PQresultStatus(next);
        if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || PQstatus(handle) != CONNECTION_OK) break;
    }
    if (!last) fail(true);
    return check(last.release());
}

Result check_result(PGconn* connection, PGresult* result) {
    Result owned(result);
    switch (PQresultStatus(result)) {
        case PGRES_COMMAND_OK:
        case PGRES_TUPLES_OK:
        case PGRES_SINGLE_TUPLE:
        case PGRES_COPY_IN:
        case PGRES_COPY_OUT:
        case PGRES_EMPTY_QUERY:
        case PGRES_PIPELINE_SYNC:
            return owned;
        default:
            break;
    }
    const std::string sqlstate = field(result, PG_DIAG_SQLSTATE);
    if (sqlstate.empty() || PQstatus(connection) != CONNECTION_OK) {
        const std::string said = sqlstate.empty() ? PQerrorMessage(connection) : PQresultErrorMessage(result);
        throw ConnectionError(in_one_line(said), true);
    }
    const std::string message = field(result, PG_DIAG_MESSAGE_PRIMARY);
    const std::string detail = field(result, PG_DIAG_MESSAGE_DETAIL);
    const std::string hint = field(result, PG_DIAG_MESSAGE_HINT);
    if (sqlstate == "BT001") throw LeaseLost(message, sqlstate, detail, hint);
    throw SqlError(message, sqlstate, detail, hint);
}

Result Connection::check(PGresult* result) {
    return check_result(handle_.get(), result);
}

Result Connection::exec(const std::string& sql) {
    const auto asked = begin();
    const Answering answering(handle_.get());
    return finish(PQsendQuery(handle_.get(), sql.c_str()), asked);
}

Result Connection::query(const std::string& sql, const Params& params, Format result_format) {
    const auto asked = begin();
    const Answering answering(handle_.get());
    const auto values = pointers(params);
    return finish(PQsendQueryParams(handle_.get(), sql.c_str(), static_cast<int>(values.size()), nullptr,
                                    values.data(), nullptr, nullptr, static_cast<int>(result_format)),
                  asked);
}

void Connection::prepare(const std::string& name, const std::string& sql) {
    const auto asked = begin();
    const Answering answering(handle_.get());
    finish(PQsendPrepare(handle_.get(), name.c_str(), sql.c_str(), 0, nullptr), asked);
}

Result Connection::run_prepared(const std::string& name, const Params& params, Format result_format) {
    const auto asked = begin();
    const Answering answering(handle_.get());
    const auto values = pointers(params);
    return finish(PQsendQueryPrepared(handle_.get(), name.c_str(), static_cast<int>(values.size()),
                                      values.data(), nullptr, nullptr, static_cast<int>(result_format)),
                  asked);
}

long Connection::copy_in(const std::string& copy_sql, const std::function<bool(std::string&)>& next_chunk) {
    exec(copy_sql);
    const Answering answering(handle_.get());
    std::string chunk;
    while (next_chunk(chunk)) {
        const auto asked = begin();
        int taken = 0;
        while ((taken = PQputCopyData(handle_.get(), chunk.data(), static_cast<int>(chunk.size()))) == 0)
            await(asked, true);
        if (taken < 0) fail(true);
        flush(asked);
        chunk.clear();
    }
    const auto asked = begin();
    int ended = 0;
    while ((ended = PQputCopyEnd(handle_.get(), nullptr)) == 0) await(asked, true);
    return finish(ended, asked).affected();
}

std::string Connection::value(const std::string& sql, const Params& params) {
    const Result result = query(sql, params);
    if (result.empty() || result.columns() == 0) throw Error("no row from: " + sql);
    return result.text(0, 0);
}

bool Connection::wait_readable(std::chrono::milliseconds timeout) {
    pollfd waiting{PQsocket(handle_.get()), POLLIN, 0};
    return ::poll(&waiting, 1, static_cast<int>(timeout.count())) > 0;
}

std::vector<Notification> Connection::take_notifications() {
    if (PQconsumeInput(handle_.get()) == 0) fail(false);
    std::vector<Notification> taken;
    while (PGnotify* notify = PQnotifies(handle_.get())) {
        taken.push_back({notify->relname, notify->extra, notify->be_pid});
        PQfreemem(notify);
    }
    return taken;
}

void Connection::cancel_running() {
    std::unique_ptr<PGcancel, decltype(&PQfreeCancel)> cancel(PQgetCancel(handle_.get()), &PQfreeCancel);
    std::array<char, 256> error{};
    if (cancel && PQcancel(cancel.get(), error.data(), static_cast<int>(error.size())) == 0)
        throw ConnectionError(in_one_line(error.data()));
}

void Connection::on_notice(std::function<void(const std::string&)> receiver) {
    notice_receiver_ = std::make_unique<std::function<void(const std::string&)>>(std::move(receiver));
    PQsetNoticeReceiver(handle_.get(), &pass_notice, notice_receiver_.get());
}

std::string Connection::escape_identifier(std::string_view name) const {
    std::unique_ptr<char, decltype(&PQfreemem)> escaped(
        PQescapeIdentifier(handle_.get(), name.data(), name.size()), &PQfreemem);
    if (!escaped) throw UsageError("not a valid identifier: " + std::string(name));
    return escaped.get();
}

std::string Connection::escape_literal(std::string_view value) const {
    std::unique_ptr<char, decltype(&PQfreemem)> escaped(
        PQescapeLiteral(handle_.get(), value.data(), value.size()), &PQfreemem);
    if (!escaped) throw UsageError("not valid text for the server");
    return escaped.get();
}

Transaction::Transaction(Connection& connection, const std::string& begin) : connection_(connection) {
    connection_.exec(begin);
}

Transaction::~Transaction() {
    if (!open_) return;
    try {
        if (connection_.alive()) connection_.exec("rollback");
    } catch (const Error&) {  // the server rolls back by itself when the connection is gone
    }
}

void Transaction::commit() {
    open_ = false;
    const Result result = connection_.exec("commit");
    if (std::string_view(PQcmdStatus(result.native())) == "ROLLBACK")
        throw SqlError("the transaction was rolled back: a statement in it had failed", "25P02");
}

void Transaction::rollback() {
    open_ = false;
    connection_.exec("rollback");
}

std::string array_literal(std::span<const std::string> values) {
    std::string literal = "{";
    for (const auto& value : values) {
        if (literal.size() > 1) literal += ',';
        literal += '"';
        for (const char c : value) {
            if (c == '"' || c == '\\') literal += '\\';
            literal += c;
        }
        literal += '"';
    }
    return literal + "}";
}

std::string array_literal(std::span<const long long> values) {
    std::string literal = "{";
    for (const auto value : values) {
        if (literal.size() > 1) literal += ',';
        literal += std::to_string(value);
    }
    return literal + "}";
}

}  // namespace baton::postgres
