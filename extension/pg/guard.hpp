#pragma once
// The border between C++ and the server, which knows errors only as longjmp.
//
//   pg::enter(body)   the server calls C++. No exception gets out: it becomes an ereport(ERROR), which is
//   raised
//                     after the catch block, when every C++ object of the body is gone.
//   pg::call(body)    C++ calls server code that may raise. The error becomes a pg::ServerError.
//
// SQLSTATE, message, detail and hint survive both ways. An error of the server that passes through C++ keeps
// everything, also its context. To raise an error of your own, throw baton::SqlError.
//
// Nothing with a destructor may live inside a pg::call body, because a longjmp skips the destructor. Swallow
// a ServerError only after the (sub)transaction in which it happened was rolled back. Guard a batch, not a
// row: a guard costs a few nanoseconds, but it keeps the compiler from inlining.

#include "pg/server.hpp"

namespace baton::pg {

// An error that the server raised while C++ called it.
class ServerError : public SqlError {
  public:
    // `data` may be null when the server had no memory left to copy its error.
    explicit ServerError(ErrorData* data);
    // The server's record. It lives as long as the transaction.
    ErrorData* data() const noexcept { return data_; }

  private:
    ErrorData* data_;
};

namespace detail {

// An exception in a form that needs no destructor, so that a longjmp may pass it.
struct Failure {
    ErrorData* server;
    int sqlstate;
    const char* message;
    const char* detail;
    const char* hint;
};

// Describe the exception that is being handled. Raises nothing.
Failure describe_current_exception() noexcept;
// Raise a failure in the server.
[[noreturn]] void raise(const Failure& failure);
// Take the error that the server has just raised and throw it.
[[noreturn]] void throw_server_error(MemoryContext context);

// Puts the server's error handling back as it was, whichever way a call ends.
class HandlerScope {
  public:
    HandlerScope() noexcept : handler_(PG_exception_stack), callbacks_(error_context_stack) {}
    ~HandlerScope() {
        PG_exception_stack = handler_;
        error_context_stack = callbacks_;
    }
    HandlerScope(const HandlerScope&) = delete;
    HandlerScope& operator=(const HandlerScope&) = delete;

  private:
    sigjmp_buf* const handler_;
    ErrorContextCallback* const callbacks_;
};

}  // namespace detail

// Run C++ on behalf of the server.
template <class Body>
auto enter(Body&& body) -> decltype(body()) {
    using Value = decltype(body());
    static_assert(std::is_void_v<Value> || std::is_trivially_copyable_v<Value>);
    MemoryContext const context = CurrentMemoryContext;
    detail::Failure failure;
    try {
        return body();
    } catch (...) {
        failure = detail::describe_current_exception();
    }
    MemoryContextSwitchTo(context);
    detail::raise(failure);
}

// Run server code on behalf of C++.
template <class Body>
auto call(Body&& body) -> decltype(body()) {
    using Value = decltype(body());
    static_assert(std::is_void_v<Value> || std::is_trivially_copyable_v<Value>);
    MemoryContext const context = CurrentMemoryContext;
    {
        const detail::HandlerScope scope;
        sigjmp_buf here;
        if (sigsetjmp(here, 0) == 0) {
            PG_exception_stack = &here;
            return body();
        }
    }
    detail::throw_server_error(context);
}

}  // namespace baton::pg
