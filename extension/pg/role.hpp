#pragma once
// Acting as somebody else.

#include "pg/guard.hpp"

namespace baton::pg {

// Act as another role within the transaction, without the means to get out of it: no other role, no temporary
// tables, no cursors or deferred triggers that would outlive the scope. Names are looked up in pg_catalog
// alone, and parameters that were changed meanwhile are put back at the end.
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
