// A module for tests only: C++ that throws, and C++ that calls a server which raises.

#include <stdexcept>

#include "pg/guard.hpp"
#include "pg/memory.hpp"
#include "pg/spi.hpp"

extern "C" {
PG_MODULE_MAGIC;
}
BATON_FUNCTION(guard_throw);
BATON_FUNCTION(guard_execute);
BATON_FUNCTION(guard_retell);
BATON_FUNCTION(guard_raise_in_loop);
BATON_FUNCTION(guard_living);
BATON_FUNCTION(guard_exhaust_shared_memory);

using namespace baton;

namespace {

int living = 0;

// Counts itself, and owns heap memory that a skipped destructor would leak.
class Tracked {
  public:
    Tracked() : ballast_(1000, 'x') { ++living; }
    ~Tracked() { --living; }
    Tracked(const Tracked&) = delete;
    Tracked& operator=(const Tracked&) = delete;

  private:
    std::string ballast_;
};

[[noreturn]] void throw_by_name(const std::string& what) {
    if (what == "sql") throw SqlError("no such lease", "BT001", "somebody took it", "poll again");
    if (what == "usage") throw UsageError("bad name", "choose another");
    if (what == "memory") throw std::bad_alloc();
    if (what == "standard") throw std::out_of_range("too far");
    throw 42;
}

}  // namespace

// guard_throw(kind text): throw through live objects.
extern "C" Datum guard_throw(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const Tracked tracked;
        const std::string kind = pg::call([&] { return text_to_cstring(PG_GETARG_TEXT_PP(0)); });
        throw_by_name(kind);
    });
}

// guard_execute(sql text): run a statement with live objects around it.
extern "C" Datum guard_execute(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        const Tracked outer;
        const std::string sql = pg::call([&] { return text_to_cstring(PG_GETARG_TEXT_PP(0)); });
        const pg::OwnContext memory(CurrentMemoryContext, "guard test");
        const pg::MemoryScope scope(memory.get());
        pg::Spi spi;
        const Tracked inner;
        return Int64GetDatum(static_cast<std::int64_t>(spi.execute(sql.c_str())));
    });
}

// guard_retell(sql text): say in a new error what the C++ side saw of the server's.
extern "C" Datum guard_retell(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const std::string sql = pg::call([&] { return text_to_cstring(PG_GETARG_TEXT_PP(0)); });
        try {
            pg::Spi().execute(sql.c_str());
        } catch (const pg::ServerError& error) {
            throw SqlError(error.sqlstate() + ": " + error.what(), "BT002", error.detail(), error.hint());
        }
        return BoolGetDatum(false);
    });
}

// guard_raise_in_loop(times int): have the server raise again and again; the last error gets out.
extern "C" Datum guard_raise_in_loop(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        for (int left = PG_GETARG_INT32(0); left > 0; --left) {
            const Tracked tracked;
            try {
                pg::call(
                    [&] { ereport(ERROR, (errcode(ERRCODE_DIVISION_BY_ZERO), errmsg("%d left", left))); });
            } catch (const pg::ServerError&) {
                if (left == 1) throw;
            }
        }
        return BoolGetDatum(true);
    });
}

extern "C" Datum guard_living(PG_FUNCTION_ARGS) {
    PG_RETURN_INT32(living);
}

// Take what is left of the shared memory's slack, in pieces of 4 KB.
extern "C" Datum guard_exhaust_shared_memory(PG_FUNCTION_ARGS) {
    int pieces = 0;
    for (;; ++pieces) {
        void* const piece = ShmemAllocNoError(4096);
        if (piece == nullptr) break;
    }
    PG_RETURN_INT32(pieces);
}
