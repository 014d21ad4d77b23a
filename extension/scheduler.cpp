#include "scheduler.hpp"

#include "pg/memory.hpp"
#include "pg/worker.hpp"
#include "pg/xact.hpp"
#include "schedule_board.hpp"
#include "settings.hpp"

extern "C" PGDLLEXPORT void baton_launcher_main(Datum);
BATON_FUNCTION(baton_poke_scheduler);

namespace baton::scheduler {

namespace {

constexpr int launcher_restart_seconds = 2;
constexpr long no_slot_pause_ms = 1000;
constexpr long switched_off_nap_ms = 10'000;

bool poke_at_commit = false;

// List the databases that a worker could connect to.
std::vector<Oid> list_databases() {
    constexpr std::size_t most = 256;
    std::array<Oid, most> found;
    std::size_t count = 0;
    pg::WorkerTransaction transaction;
    pg::call([&] {
        const Relation catalog = table_open(DatabaseRelationId, AccessShareLock);
        const TableScanDesc scan = table_beginscan_catalog(catalog, 0, nullptr);
        for (HeapTuple row = heap_getnext(scan, ForwardScanDirection); row != nullptr && count < most;
             row = heap_getnext(scan, ForwardScanDirection)) {
            const auto* const database = reinterpret_cast<Form_pg_database>(GETSTRUCT(row));
            if (database->datallowconn && !database->datistemplate) found[count++] = database->oid;
        }
        table_endscan(scan);
        table_close(catalog, AccessShareLock);
    });
    transaction.commit();
    return {found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count)};
}

// Start the workers whose turn it is; returns how long to sleep.
long launch_due_workers() {
    if (!settings::scheduler_enabled()) return switched_off_nap_ms;
    const auto turn = board::next_turn(list_databases(), settings::scheduler_workers());
    for (const Oid database : turn.start) {
        if (pg::start_worker(
                {"baton worker", "baton_worker_main", ObjectIdGetDatum(database), BGW_NEVER_RESTART}))
            continue;
        board::postpone(database, no_slot_pause_ms);
        pg::call([] {
            ereport(LOG,
                    (errmsg("no slot is left for a baton worker"), errhint("raise max_worker_processes")));
        });
    }
    return turn.sleep_ms;
}

void run_launcher() {
    pg::begin_worker();
    pg::call([] {
        BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);  // shared catalogs only
        pgstat_report_appname("baton launcher");
    });
    board::enter_launcher();
    const pg::OwnContext memory(TopMemoryContext, "baton launcher");
    for (;;) {
        long sleep_ms = 0;
        {
            const pg::MemoryScope scope(memory.get());
            sleep_ms = launch_due_workers();
        }
        MemoryContextReset(memory.get());
        pg::worker_nap(sleep_ms);
    }
}

// The database that a statement needs for itself, if it names one.
const char* wanted_alone(const Node* statement) {
    if (IsA(statement, DropdbStmt)) return reinterpret_cast<const DropdbStmt*>(statement)->dbname;
    if (IsA(statement, RenameStmt)) {
        const auto* const rename = reinterpret_cast<const RenameStmt*>(statement);
        return rename->renameType == OBJECT_DATABASE ? rename->subname : nullptr;
    }
    const List* options = nullptr;
    const char* option_name = nullptr;
    const char* moved = nullptr;
    if (IsA(statement, CreatedbStmt)) {
        options = reinterpret_cast<const CreatedbStmt*>(statement)->options;
        option_name = "template";
    } else if (IsA(statement, AlterDatabaseStmt)) {
        options = reinterpret_cast<const AlterDatabaseStmt*>(statement)->options;
        option_name = "tablespace";
        moved = reinterpret_cast<const AlterDatabaseStmt*>(statement)->dbname;
    }
    for (int i = 0; i < list_length(options); ++i) {
        auto* const option = static_cast<DefElem*>(list_nth(options, i));
        if (std::string_view(option->defname) != option_name || option->arg == nullptr) continue;
        return moved != nullptr ? moved : pg::call([&] { return defGetString(option); });
    }
    return nullptr;
}

bool owns_database(Oid database) {
#if PG_VERSION_NUM >= 160000
    return pg::call([&] { return object_ownercheck(DatabaseRelationId, database, GetUserId()); });
#else
    return pg::call([&] { return pg_database_ownercheck(database, GetUserId()); });
#endif
}

// Stop the worker of a database that somebody who may do so wants for itself.
void before_statement(const Node* statement) {
    const char* const name = wanted_alone(statement);
    if (name == nullptr) return;
    const Oid database = pg::call([&] { return get_database_oid(name, true); });
    if (OidIsValid(database) && owns_database(database)) board::clear_database(database);
}

// Remember to wake the launcher; only at commit can it see what was made.
void after_statement(const Node* statement) {
    if (IsA(statement, CreateExtensionStmt) || IsA(statement, CreatedbStmt)) poke_at_commit = true;
}

void at_transaction_event(XactEvent event) noexcept {
    if (!poke_at_commit) return;
    if (event == XACT_EVENT_COMMIT) board::poke(MyDatabaseId);
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT) poke_at_commit = false;
}

}  // namespace

void install() {
    if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade) return;
    board::request();
    pg::on_transaction_event(at_transaction_event);
    pg::observe_utility_statements({.before = before_statement, .after = after_statement});
    pg::register_worker({"baton launcher", "baton_launcher_main", Datum{0}, launcher_restart_seconds});
}

}  // namespace baton::scheduler

extern "C" void baton_launcher_main(Datum /*argument*/) {
    baton::pg::enter([] { baton::scheduler::run_launcher(); });
}

// baton_internal.poke_scheduler(): statement trigger of baton.jobs, so that a new job need not wait for its
// database's turn.
extern "C" Datum baton_poke_scheduler(PG_FUNCTION_ARGS) {
    baton::scheduler::poke_at_commit = true;
    return PointerGetDatum(nullptr);
}
