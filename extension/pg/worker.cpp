#include "pg/worker.hpp"

namespace baton::pg {

namespace {

BackgroundWorker describe(const WorkerSpec& spec) {
    BackgroundWorker worker{};
    worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
    worker.bgw_start_time = BgWorkerStart_RecoveryFinished;  // not on a standby; at promotion
    worker.bgw_restart_time = spec.restart_seconds;
    worker.bgw_main_arg = spec.argument;
    strlcpy(worker.bgw_library_name, "baton", BGW_MAXLEN);
    strlcpy(worker.bgw_function_name, spec.entry, BGW_MAXLEN);
    strlcpy(worker.bgw_name, spec.name, BGW_MAXLEN);
    strlcpy(worker.bgw_type, spec.name, BGW_MAXLEN);
    return worker;
}

}  // namespace

void register_worker(const WorkerSpec& spec) {
    BackgroundWorker worker = describe(spec);
    call([&] { RegisterBackgroundWorker(&worker); });
}

bool start_worker(const WorkerSpec& spec) {
    BackgroundWorker worker = describe(spec);
    return call([&] { return RegisterDynamicBackgroundWorker(&worker, nullptr); });
}

void begin_worker() {
    pqsignal(SIGHUP, SignalHandlerForConfigReload);
    pqsignal(SIGTERM, die);
    BackgroundWorkerUnblockSignals();
}

void worker_nap(long milliseconds) {
    call([&] {
        (void)WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, milliseconds,
                        PG_WAIT_EXTENSION);
        ResetLatch(MyLatch);
        CHECK_FOR_INTERRUPTS();
        if (!ConfigReloadPending) return;
        ConfigReloadPending = false;
        ProcessConfigFile(PGC_SIGHUP);
    });
}

WorkerTransaction::WorkerTransaction() {
    call([] {
        SetCurrentStatementStartTimestamp();
        StartTransactionCommand();
        PushActiveSnapshot(GetTransactionSnapshot());
    });
}

WorkerTransaction::~WorkerTransaction() {
    if (!open_) return;
    try {
        call([] {
            HOLD_INTERRUPTS();
            AbortCurrentTransaction();
            RESUME_INTERRUPTS();
        });
    } catch (const std::exception&) {
        proc_exit(1);  // a rollback that fails leaves nothing to stand on; the worker starts afresh
    }
}

void WorkerTransaction::commit() {
    call([] {
        PopActiveSnapshot();
        CommitTransactionCommand();
    });
    open_ = false;
}

}  // namespace baton::pg
