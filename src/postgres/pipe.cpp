#include "postgres/pipe.hpp"

#include <poll.h>
#include <sys/ioctl.h>

namespace baton::postgres {

namespace {

std::vector<const char*> pointers(const Params& params) {
    std::vector<const char*> values;
    values.reserve(params.size());
    for (const auto& param : params) values.push_back(param.c_str());
    return values;
}

[[noreturn]] void fail(PGconn* handle) {
    std::string said = PQerrorMessage(handle);
    while (!said.empty() && said.back() == '\n') said.pop_back();
    throw ConnectionError(said.empty() ? "the connection to the server is lost" : said, true);
}

}  // namespace

Pipe::Pipe(Connection connection) : connection_(std::move(connection)) {
    PGconn* handle = connection_.native();
    if (PQsetnonblocking(handle, 1) != 0 || PQenterPipelineMode(handle) != 1) fail(handle);
}

void Pipe::sent(int ok, Handler handler) {
    if (ok != 1) fail(connection_.native());
    waiting_.push_back({false, std::move(handler), {}});
    unsent_ = true;
}

void Pipe::prepare(const std::string& name, const std::string& sql) {
    sent(PQsendPrepare(connection_.native(), name.c_str(), sql.c_str(), 0, nullptr), {});
}

void Pipe::send(const std::string& sql, const Params& params, Handler handler, Format format) {
    const auto values = pointers(params);
    sent(PQsendQueryParams(connection_.native(), sql.c_str(), static_cast<int>(values.size()), nullptr,
                           values.data(), nullptr, nullptr, static_cast<int>(format)),
         std::move(handler));
}

void Pipe::send_prepared(const std::string& name, const Params& params, Handler handler, Format format) {
    const auto values = pointers(params);
    sent(PQsendQueryPrepared(connection_.native(), name.c_str(), static_cast<int>(values.size()),
                             values.data(), nullptr, nullptr, static_cast<int>(format)),
         std::move(handler));
}

void Pipe::sync(std::function<void()> handler) {
    if (PQpipelineSync(connection_.native()) != 1) fail(connection_.native());
    waiting_.push_back({true, {}, std::move(handler)});
    unsent_ = true;
}

Result Pipe::call(const std::string& sql, const Params& params) {
    std::optional<Result> answer;
    bool committed = false;
    const auto asked = Patience::Clock::now();
    send(sql, params, [&answer](Result result) { answer.emplace(std::move(result)); });
    sync([&committed] { committed = true; });
    for (;;) {
        pump();
        if (committed) break;
        connection_.await(asked, unsent_);
    }
    return std::move(*answer);
}

short Pipe::events() const {
    return static_cast<short>(unsent_ ? POLLIN | POLLOUT : POLLIN);
}

void Pipe::pump() {
    PGconn* handle = connection_.native();
    if (unsent_) {
        const int left = PQflush(handle);
        if (left < 0) fail(handle);
        unsent_ = left > 0;
    }
    // The library reads a small piece at a time. What TLS has decrypted and not yet given out, two such
    // pieces at most, does not show at the socket.
    int hidden = PQsslInUse(handle) != 0 ? 2 : 0;
    for (int more = 1; more > 0 || hidden-- > 0;) {
        if (PQconsumeInput(handle) == 0) fail(handle);
        take_answers();
        if (::ioctl(PQsocket(handle), FIONREAD, &more) != 0) more = 0;
    }
}

void Pipe::take_answers() {
    PGconn* handle = connection_.native();
    while (!waiting_.empty() && PQisBusy(handle) == 0) {
        PGresult* raw = PQgetResult(handle);
        if (raw == nullptr) {  // ends the answer before, or says that the connection is gone
            if (PQstatus(handle) != CONNECTION_OK) fail(handle);
            continue;
        }
        Result result = connection_.check(raw);
        const Expected expected = std::move(waiting_.front());
        waiting_.pop_front();
        if ((PQresultStatus(result.native()) == PGRES_PIPELINE_SYNC) != expected.sync)
            throw ConnectionError("the server's answers do not fit the statements sent", true);
        if (expected.sync && expected.on_sync) expected.on_sync();
        if (!expected.sync && expected.on_result) expected.on_result(std::move(result));
    }
}

}  // namespace baton::postgres
