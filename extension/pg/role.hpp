#pragma once
// Acting as somebody else.

#include "pg/guard.hpp"

namespace baton::pg {

// Act as another role within the transaction. The code that runs cannot get out of this role: no other role,
// no temporary tables, no cursors or deferred triggers that would outlive the scope. Names are looked up in
// pg_catalog only. At the end, parameters that were changed meanwhile have their old values again.
class RestrictedRole {
  public:
    explicit RestrictedRole(Oid role);
    ~RestrictedRole();
    RestrictedRole(const RestrictedRole&) = delete;
    RestrictedRole& operator=(const RestrictedRole&) = delete;

  private:
    Oid before_ = InvalidOid;
    int context_before_ = 0;
    int parameter_level_ = 0;
    int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace baton::pg
