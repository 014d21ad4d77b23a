#pragma once
// The root of every error that baton throws, and two errors by which a handler says what it wants.
//
// An error says whether another try can help (`retryable`) and whether the outcome is unknown (`in_doubt`:
// the connection broke after COMMIT was sent, for example). After an error in doubt, look whether the
// operation took effect, or repeat it when it is idempotent. Never take an error in doubt for a failure.

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "baton/export.hpp"

namespace baton {

class BATON_API Error : public std::runtime_error {
  public:
    explicit Error(const std::string& what, std::string hint = {})
        : std::runtime_error(what), hint_(std::move(hint)) {}

    // What to do about the error, in one sentence; may be empty.
    const std::string& hint() const noexcept { return hint_; }

    // True when the same call may succeed later, although nobody changes anything.
    virtual bool retryable() const noexcept { return false; }

    // True when it is unknown whether the operation took effect.
    virtual bool in_doubt() const noexcept { return false; }

  private:
    std::string hint_;
};

// A value from the user cannot work: a flag, a file, a name. Another try does not help.
class BATON_API UsageError : public Error {
  public:
    using Error::Error;
};

// The server answered with an error.
class BATON_API SqlError : public Error {
  public:
    SqlError(const std::string& message, std::string sqlstate, std::string detail = {}, std::string hint = {})
        : Error(message, std::move(hint)), sqlstate_(std::move(sqlstate)), detail_(std::move(detail)) {}

    const std::string& sqlstate() const noexcept { return sqlstate_; }
    const std::string& detail() const noexcept { return detail_; }

    // True for serialization failures, deadlocks, shutdowns, full resources and lock timeouts.
    bool retryable() const noexcept override;

  private:
    std::string sqlstate_;
    std::string detail_;
};

// The lease under which the work was done belongs to somebody else by now (SQLSTATE BT001).
class BATON_API LeaseLost : public SqlError {
  public:
    using SqlError::SqlError;
    bool retryable() const noexcept override { return false; }
};

// The connection could not be made, or broke.
class BATON_API ConnectionError : public Error {
  public:
    explicit ConnectionError(const std::string& what, bool in_doubt = false)
        : Error(what), in_doubt_(in_doubt) {}
    bool retryable() const noexcept override { return !in_doubt_; }
    bool in_doubt() const noexcept override { return in_doubt_; }

  private:
    bool in_doubt_;
};

// A handler throws Retry: not now. The handler's writes are undone and the delivery comes again, after the
// time given or after the usual backoff. This counts as an attempt. Any other exception means the same, with
// the backoff.
class BATON_API Retry : public Error {
  public:
    explicit Retry(const std::string& why) : Error(why) {}
    Retry(const std::string& why, std::chrono::milliseconds after) : Error(why), after_(after) {}
    bool retryable() const noexcept override { return true; }
    // Negative: by the usual backoff.
    std::chrono::milliseconds after() const noexcept { return after_; }

  private:
    std::chrono::milliseconds after_{-1};
};

// A handler throws Reject: never. The handler's writes are undone and the delivery becomes a dead letter at
// once, with these words.
class BATON_API Reject : public Error {
  public:
    using Error::Error;
};

}  // namespace baton
