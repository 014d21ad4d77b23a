#pragma once
// A structure in the server's shared memory.
//
// When the module is preloaded, its memory is requested at the start of the server. Otherwise it is taken on
// first use from the reserve that every server keeps. There may be nothing left then, and the owner must do
// without.

#include "pg/guard.hpp"

namespace baton::pg {

// Request `size` bytes and have `attach` called whenever shared memory was made. Only while the server
// preloads.
void request_shared_memory(Size size, void (*attach)());

namespace detail {
// Find or make the structure; null when there is no memory for it.
void* attach_shared(const char* name, Size size, void (*initialize)(void*)) noexcept;
}  // namespace detail

template <class Layout>
class Shared {
    static_assert(std::is_trivially_destructible_v<Layout>);

  public:
    constexpr Shared(const char* name, void (*initialize)(Layout&)) : name_(name), initialize_(initialize) {}

    // Find or make the structure anew. After a crash the server makes shared memory again in the same
    // process, so an earlier structure is gone.
    Layout* attach() noexcept {
        current_initializer = initialize_;
        layout_ = static_cast<Layout*>(detail::attach_shared(
            name_, sizeof(Layout), [](void* raw) { current_initializer(*static_cast<Layout*>(raw)); }));
        refused_ = layout_ == nullptr;
        return layout_;
    }

    // The structure, which is attached on first use; null when the server had no memory left for it.
    Layout* get() noexcept { return layout_ == nullptr && !refused_ ? attach() : layout_; }

  private:
    static inline void (*current_initializer)(Layout&) = nullptr;

    const char* name_;
    void (*initialize_)(Layout&);
    Layout* layout_ = nullptr;
    bool refused_ = false;
};

}  // namespace baton::pg
