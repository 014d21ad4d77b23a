#include "pg/shmem.hpp"

namespace baton::pg {

namespace {

constexpr std::size_t most_requests = 4;

struct Request {
    Size size;
    void (*attach)();
};

std::array<Request, most_requests> requests;
std::size_t request_count = 0;
shmem_startup_hook_type next_startup_hook = nullptr;

#if PG_VERSION_NUM >= 150000
shmem_request_hook_type next_request_hook = nullptr;

void request_all() {
    if (next_request_hook != nullptr) next_request_hook();
    for (std::size_t i = 0; i < request_count; ++i) RequestAddinShmemSpace(requests[i].size);
}
#endif

void attach_all() {
    if (next_startup_hook != nullptr) next_startup_hook();
    for (std::size_t i = 0; i < request_count; ++i) requests[i].attach();
}

// Release a lock that an error left held. The error has reset the interrupt counter which releasing counts
// down.
void release_after_error(LWLock* lock) {
    if (!LWLockHeldByMe(lock)) return;
    HOLD_INTERRUPTS();
    LWLockRelease(lock);
}

}  // namespace

void request_shared_memory(Size size, void (*attach)()) {
    if (request_count == 0) {
        next_startup_hook = shmem_startup_hook;
        shmem_startup_hook = attach_all;
#if PG_VERSION_NUM >= 150000
        next_request_hook = shmem_request_hook;
        shmem_request_hook = request_all;
#endif
    }
#if PG_VERSION_NUM < 150000
    RequestAddinShmemSpace(size);
#endif
    requests.at(request_count++) = {MAXALIGN(size), attach};
}

void* detail::attach_shared(const char* name, Size size, void (*initialize)(void*)) noexcept {
    try {
        return call([&] {
            bool found = false;
            LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
            void* const raw = ShmemInitStruct(name, size, &found);
            if (!found) initialize(raw);
            LWLockRelease(AddinShmemInitLock);
            return raw;
        });
    } catch (
        const std::exception&) {  // swallowed without a subtransaction: only these two locks were touched
        release_after_error(ShmemIndexLock);
        release_after_error(AddinShmemInitLock);
        return nullptr;
    }
}

}  // namespace baton::pg
