#pragma once
// Memory contexts as scopes.

#include "pg/guard.hpp"

namespace baton::pg {

// Make a context current. At the end of the scope the context before it is current again.
class MemoryScope {
  public:
    explicit MemoryScope(MemoryContext context) noexcept : before_(MemoryContextSwitchTo(context)) {}
    ~MemoryScope() { MemoryContextSwitchTo(before_); }
    MemoryScope(const MemoryScope&) = delete;
    MemoryScope& operator=(const MemoryScope&) = delete;

  private:
    MemoryContext before_;
};

// A new context that is deleted at the end of the scope.
class OwnContext {
  public:
    // `name` must be a constant: the server keeps the pointer.
    OwnContext(MemoryContext parent, const char* name)
        : context_(
              call([&] { return AllocSetContextCreateInternal(parent, name, ALLOCSET_DEFAULT_SIZES); })) {}
    ~OwnContext() { MemoryContextDelete(context_); }
    OwnContext(const OwnContext&) = delete;
    OwnContext& operator=(const OwnContext&) = delete;

    MemoryContext get() const noexcept { return context_; }
    void reset() noexcept { MemoryContextReset(context_); }

  private:
    MemoryContext context_;
};

}  // namespace baton::pg
