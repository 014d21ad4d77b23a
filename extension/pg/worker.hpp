#pragma once
// Background workers of the module.

#include "pg/guard.hpp"

namespace baton::pg {

struct WorkerSpec {
    const char* name;
    const char* entry;  // an extern "C" function of the module
    Datum argument;
    int restart_seconds;  // BGW_NEVER_RESTART: whoever started it looks after it
};

// Have the server start a worker with itself. Only while the server preloads.
void register_worker(const WorkerSpec& spec);
// Start a worker now; false when the server has no slot left for it.
bool start_worker(const WorkerSpec& spec);

// Set up signals at the beginning of a worker's life.
void begin_worker();
// Sleep until the latch is set or the time is over, then look after interrupts and reload; ends with the
// server.
void worker_nap(long milliseconds);

// A transaction of a worker, with a snapshot. It is rolled back when its scope ends before commit().
class WorkerTransaction {
  public:
    WorkerTransaction();
    ~WorkerTransaction();
    WorkerTransaction(const WorkerTransaction&) = delete;
    WorkerTransaction& operator=(const WorkerTransaction&) = delete;

    void commit();

  private:
    bool open_ = true;
};

// Act as another role within the transaction, without the means to get out of it, and undo changed parameters
// at the end.
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
