#pragma once
// Acting on behalf of a table's owner, see owner.cpp.

#include "pg/guard.hpp"

namespace baton::owner {

// Lock a table against a change of its owner, and return the owner.
Oid lock(Oid table);

// Who owns a function.
Oid of_function(Oid function);

// For a scope, baton_internal.acting_role() names the owner.
class Acting {
  public:
    explicit Acting(Oid owner) noexcept;
    ~Acting();
    Acting(const Acting&) = delete;
    Acting& operator=(const Acting&) = delete;

  private:
    Oid before_;
};

}  // namespace baton::owner
