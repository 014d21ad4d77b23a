#include "postgres/connection.hpp"

#include <poll.h>

#include <array>
#include <utility>

namespace baton::postgres {

namespace {

std::string field(const PGresult* result, int code) {
    const char* text = PQresultErrorField(result, code);
    return text != nullptr ? text : "";
}

std::string trimmed(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
}

void drop_notice(void*, const PGresult*) {}

void pass_notice(void* receiver, const PGresult* result) {
    (*static_cast<std::function<void(const std::string&)>*>(receiver))(
        field(result, PG_DIAG_MESSAGE_PRIMARY));
}

std::vector<const char*> pointers(const Params& params) {
    std::vector<const char*> values;
    values.reserve(params.size());
    for (const auto& param : params) values.push_back(param.c_str());
    return values;
}

}  // namespace

Connection::Connection(const std::string& conninfo, const std::string& application_name)
    : handle_(nullptr, &PQfinish) {
    const std::array<const char*, 5> keywords{"dbname", "fallback_application_name", "connect_timeout",
                                              "client_encoding", nullptr};
    const std::array<const char*, 5> values{conninfo.c_str(), application_name.c_str(), "10", "UTF8",
                                            nullptr};
    handle_.reset(PQconnectdbParams(keywords.data(), values.data(), 1));
    if (PQstatus(handle_.get()) != CONNECTION_OK)
        throw ConnectionError(trimmed(PQerrorMessage(handle_.get())));
    PQsetNoticeReceiver(handle_.get(), &drop_notice, nullptr);
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
        throw ConnectionError(trimmed(said), true);
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
    return check(PQexec(handle_.get(), sql.c_str()));
}

Result Connection::query(const std::string& sql, const Params& params, Format result_format) {
    const auto values = pointers(params);
    return check(PQexecParams(handle_.get(), sql.c_str(), static_cast<int>(values.size()), nullptr,
                              values.data(), nullptr, nullptr, static_cast<int>(result_format)));
}

void Connection::prepare(const std::string& name, const std::string& sql) {
    check(PQprepare(handle_.get(), name.c_str(), sql.c_str(), 0, nullptr));
}

Result Connection::run_prepared(const std::string& name, const Params& params, Format result_format) {
    const auto values = pointers(params);
    return check(PQexecPrepared(handle_.get(), name.c_str(), static_cast<int>(values.size()), values.data(),
                                nullptr, nullptr, static_cast<int>(result_format)));
}

long Connection::copy_in(const std::string& copy_sql, const std::function<bool(std::string&)>& next_chunk) {
    check(PQexec(handle_.get(), copy_sql.c_str()));
    std::string chunk;
    while (next_chunk(chunk)) {
        if (PQputCopyData(handle_.get(), chunk.data(), static_cast<int>(chunk.size())) != 1)
            throw ConnectionError(trimmed(PQerrorMessage(handle_.get())), true);
        chunk.clear();
    }
    if (PQputCopyEnd(handle_.get(), nullptr) != 1)
        throw ConnectionError(trimmed(PQerrorMessage(handle_.get())), true);
    const long rows = check(PQgetResult(handle_.get())).affected();
    while (PGresult* rest = PQgetResult(handle_.get())) check(rest);
    return rows;
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
    if (PQconsumeInput(handle_.get()) == 0) throw ConnectionError(trimmed(PQerrorMessage(handle_.get())));
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
        throw ConnectionError(trimmed(error.data()));
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
