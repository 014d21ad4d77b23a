#include "pg/guard.hpp"

namespace baton::pg {

namespace {

std::string or_empty(const char* text) {
    return text != nullptr ? text : "";
}

std::string sqlstate_text(int sqlstate) {
    return unpack_sql_state(sqlstate);
}

// Where an error outlives the contexts that unwinding deletes.
MemoryContext error_home() {
    return TopTransactionContext != nullptr ? TopTransactionContext : TopMemoryContext;
}

// Copy a text into server memory without raising; null when there is none left.
const char* keep(std::string_view text) noexcept {
    auto* copy =
        static_cast<char*>(MemoryContextAllocExtended(error_home(), text.size() + 1, MCXT_ALLOC_NO_OOM));
    if (copy == nullptr) return nullptr;
    std::memcpy(copy, text.data(), text.size());
    copy[text.size()] = '\0';
    return copy;
}

const char* keep_unless_empty(const std::string& text) noexcept {
    return text.empty() ? nullptr : keep(text);
}

int pack_sqlstate(const std::string& text) noexcept {
    if (text.size() != 5) return ERRCODE_INTERNAL_ERROR;
    return MAKE_SQLSTATE(text[0], text[1], text[2], text[3], text[4]);
}

// Copy the server's current error; null when copying raises in its turn.
ErrorData* copy_error() {
    const detail::HandlerScope scope;
    sigjmp_buf here;
    if (sigsetjmp(here, 0) != 0) return nullptr;
    PG_exception_stack = &here;
    return CopyErrorData();
}

}  // namespace

ServerError::ServerError(ErrorData* data)
    : SqlError(data != nullptr ? or_empty(data->message) : "out of memory",
               sqlstate_text(data != nullptr ? data->sqlerrcode : ERRCODE_OUT_OF_MEMORY),
               data != nullptr ? or_empty(data->detail) : "", data != nullptr ? or_empty(data->hint) : ""),
      data_(data) {}

detail::Failure detail::describe_current_exception() noexcept {
    try {
        throw;
    } catch (const ServerError& error) {
        return {error.data(), ERRCODE_OUT_OF_MEMORY, "out of memory", nullptr, nullptr};
    } catch (const SqlError& error) {
        return {nullptr, pack_sqlstate(error.sqlstate()), keep(error.what()),
                keep_unless_empty(error.detail()), keep_unless_empty(error.hint())};
    } catch (const UsageError& error) {
        return {nullptr, ERRCODE_INVALID_PARAMETER_VALUE, keep(error.what()), nullptr,
                keep_unless_empty(error.hint())};
    } catch (const std::bad_alloc&) {
        return {nullptr, ERRCODE_OUT_OF_MEMORY, "out of memory", nullptr, nullptr};
    } catch (const std::exception& error) {
        return {nullptr, ERRCODE_INTERNAL_ERROR, keep(error.what()), nullptr, nullptr};
    } catch (...) {
        return {nullptr, ERRCODE_INTERNAL_ERROR, "unknown C++ exception", nullptr, nullptr};
    }
}

void detail::raise(const Failure& failure) {
    if (failure.server != nullptr)
        ReThrowError(failure.server);  // its context is complete: do not collect it again
    ereport(ERROR, (errcode(failure.sqlstate),
                    errmsg_internal("%s", failure.message != nullptr ? failure.message : "out of memory"),
                    failure.detail != nullptr ? errdetail_internal("%s", failure.detail) : 0,
                    failure.hint != nullptr ? errhint("%s", failure.hint) : 0));
    pg_unreachable();
}

void detail::throw_server_error(MemoryContext context) {
    MemoryContextSwitchTo(error_home());
    ErrorData* const error = copy_error();
    MemoryContextSwitchTo(context);
    FlushErrorState();
    throw ServerError(error);
}

}  // namespace baton::pg
