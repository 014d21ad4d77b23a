// baton_internal.flush_wal_up_to(lsn): make durable what asynchronous commits have already made visible.

#include "pg/guard.hpp"

BATON_FUNCTION(baton_flush_wal_up_to);

using namespace baton;

extern "C" Datum baton_flush_wal_up_to(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const XLogRecPtr wanted = PG_GETARG_LSN(0);
        pg::call([&] {
            if (RecoveryInProgress()) return;
            // A position from another cluster would make XLogFlush raise a confusing error about corruption.
            if (wanted > GetXLogInsertRecPtr())
                ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                                errmsg("position %X/%X is beyond the end of the log",
                                       static_cast<uint32>(wanted >> 32U), static_cast<uint32>(wanted)),
                                errhint("take positions from pg_current_wal_insert_lsn() of this server")));
            XLogFlush(wanted);
        });
        PG_RETURN_VOID();
    });
}
