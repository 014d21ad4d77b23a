#pragma once
// The user's connection. Statements run on it; afterwards the connection is in the same state as before.

#include <libpq-fe.h>

#include <optional>
#include <string>
#include <vector>

#include "postgres/connection.hpp"

namespace baton::client {

using Values = std::vector<std::optional<std::string>>;

class Borrowed {
  public:
    explicit Borrowed(PGconn* native);

    // Throws UsageError when no transaction is open.
    void need_transaction() const;
    postgres::Result query(const std::string& sql, const Values& values);
    // Queue a statement in pipeline mode; throws UsageError in any other.
    void send(const std::string& sql, const Values& values);

  private:
    PGconn* native_;
};

}  // namespace baton::client
