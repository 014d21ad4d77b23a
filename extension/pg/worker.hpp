#pragma once
// Background workers of the module.

#include "pg/guard.hpp"

namespace baton::pg {

struct WorkerSpec {
    const char* name;
    const char* entry;  // an extern "C" function of the module
    Datum argument;
    int restart_seconds;  // BGW_NEVER_RESTART: the one who started the worker looks after it
};

// Let the server start a worker when it starts itself. Only while the server preloads.
void register_worker(const WorkerSpec& spec);
// Start a worker now; false when the server has no slot left.
bool start_worker(const WorkerSpec& spec);

// Set up signals at the beginning of a worker's life.
void begin_worker();
// Sleep until the latch is set or the time is over. Then handle interrupts and reload. Ends the worker when
// the server ends.
void worker_nap(long milliseconds);

// A transaction of a worker, with a snapshot. The transaction is rolled back when the scope ends before
// commit().
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

}  // namespace baton::pg
