// The worker of one database: runs what is due, sleeps until something is.

#include <array>
#include <optional>

#include "doorbell.hpp"
#include "pg/role.hpp"
#include "pg/spi.hpp"
#include "pg/worker.hpp"
#include "schedule_board.hpp"
#include "settings.hpp"

extern "C" PGDLLEXPORT void baton_worker_main(Datum);
extern "C" PGDLLEXPORT void baton_stream_worker_main(Datum);

namespace baton::scheduler {

namespace {

constexpr std::int64_t second_look_us = 600 * USECS_PER_SEC;  // at a database without the extension
constexpr std::int64_t longest_absence_us = 60 * USECS_PER_SEC;
constexpr std::int64_t shortest_stay_us =
    200'000;  // so that databases taking turns do not spend it on starting workers
constexpr int longest_backoff_shift = 6;
constexpr std::int64_t helper_patience_us = 5 * USECS_PER_SEC;
constexpr long helper_nap_ms = 200;
constexpr std::string_view stream_job = "refresh stream tables";

struct Progress {
    bool extension_there;
    bool ran_a_job;
    std::optional<TimestampTz> next_due;
};

// Hold the extension until the transaction ends. DROP EXTENSION takes the same lock before any other, so that
// the worker and a drop wait for each other here, while neither holds anything else, and cannot end in a
// deadlock.
void hold_extension() {
    pg::call([] {
        const Oid extension = get_extension_oid("baton", true);
        if (OidIsValid(extension)) LockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);
    });
}

// Find the extension's owner; nothing when it is not installed, or too old to have jobs.
std::optional<Oid> find_owner() {
    pg::Spi spi;
    const auto rows = spi.execute(
        "select e.extowner from pg_catalog.pg_extension e where e.extname = 'baton' "
        "and pg_catalog.to_regprocedure('baton_internal.begin_due_job()') is not null");
    if (rows == 0) return std::nullopt;
    return DatumGetObjectId(spi.datum(0, 1).value_or(ObjectIdGetDatum(InvalidOid)));
}

// Do something as the extension's owner in a transaction; false when there is no extension.
template <typename Work>
bool as_owner(const Work& work) {
    pg::WorkerTransaction transaction;
    hold_extension();
    const auto owner = find_owner();
    if (owner) {
        const pg::RestrictedRole role(*owner);
        pg::Spi spi;
        work(spi);
    }
    transaction.commit();
    return owner.has_value();
}

// Let helpers refresh other stream tables that are due.
void invite_helpers() {
    int wanted = 0;
    as_owner([&](pg::Spi& spi) {
        spi.execute("select baton_internal.stream_helpers()");
        wanted = DatumGetInt32(spi.datum(0, 1).value_or(Int32GetDatum(0)));
    });
    for (; wanted > 0; --wanted) {
        const auto place = board::reserve_helper(settings::stream_workers() - 1);
        if (!place) return;
        const Datum argument = (static_cast<Datum>(*place) << 32U) | MyDatabaseId;
        if (pg::start_worker(
                {"baton stream worker", "baton_stream_worker_main", argument, BGW_NEVER_RESTART}))
            continue;
        return board::release_helper(*place);  // the server has no slot left
    }
}

// Run one due job. That it begins is committed first: a job that takes this process down shall not be the
// first in line again.
Progress run_one_job() {
    std::optional<std::string> job;
    Progress progress{false, false, std::nullopt};
    progress.extension_there = as_owner([&](pg::Spi& spi) {
        spi.execute("select baton_internal.begin_due_job()");
        job = spi.text(0, 1);
        if (job) return;
        spi.execute("select baton_internal.next_job_due()");
        if (const auto due = spi.datum(0, 1)) progress.next_due = DatumGetTimestampTz(*due);
    });
    if (!job) return progress;
    progress.ran_a_job = true;
    if (*job == stream_job) invite_helpers();
    as_owner([&](pg::Spi& spi) {
        const Datum name = pg::call([&] { return CStringGetTextDatum(job->c_str()); });
        spi.execute("select baton_internal.run_begun_job($1)", std::array{pg::SqlParam{TEXTOID, name}});
    });
    return progress;
}

// Do something and tell the server's statistics about it. On an error: log it, leave the transaction rolled
// back, and return false.
template <class Work>
bool run_logged(const char* activity, const Work& work) {
    try {
        pg::call([&] { pgstat_report_activity(STATE_RUNNING, activity); });
        work();
        pg::call([] {
            pgstat_report_stat(true);
            pgstat_report_activity(STATE_IDLE, nullptr);
        });
        return true;
    } catch (const SqlError& error) {
        const char* const what = error.what();  // plain pointers: the body below may be left by longjmp
        const char* const sqlstate = error.sqlstate().c_str();
        pg::call([&] {
            pgstat_report_activity(STATE_IDLE, nullptr);
            ereport(LOG, (errmsg("baton worker could not run its jobs: %s", what),
                          errdetail("SQLSTATE %s", sqlstate)));
        });
        return false;
    }
}

// Run one job; nothing when that failed.
std::optional<Progress> try_one_job() {
    std::optional<Progress> progress;
    run_logged("baton: running jobs", [&] { progress = run_one_job(); });
    return progress;
}

// What to do after a look at live stream tables.
struct Live {
    long pause_ms;
    bool deaf;  // changes of sources need not wake the worker
};

// Refresh live stream tables that are due. Nothing when there are none, or when that failed.
std::optional<Live> try_refresh_live() {
    std::optional<Live> live;
    run_logged("baton: refreshing live stream tables", [&] {
        as_owner([&](pg::Spi& spi) {
            spi.execute("select pause, deaf from baton_internal.refresh_live()");
            const auto pause = spi.datum(0, 1);
            const auto deaf = spi.datum(0, 2);
            if (pause && deaf) live = Live{DatumGetInt32(*pause), DatumGetBool(*deaf)};
        });
    });
    return live;
}

// Sleep until a moment. Meanwhile, live stream tables follow their sources.
void follow_sources(TimestampTz until) {
    for (;;) {
        const std::uint64_t rings = doorbell::value(doorbell::all_sources);
        const auto live = try_refresh_live();
        const long left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
        if (!live || left <= 0) return pg::worker_nap(left);
        if (!live->deaf) doorbell::sleep(doorbell::all_sources, rings, std::min(live->pause_ms, left));
        pg::worker_nap(live->deaf ? std::min(live->pause_ms, left) : 0);
    }
}

[[noreturn]] void leave_until(TimestampTz when) {
    board::come_back_at(when);
    proc_exit(0);
}

long pause_until(const std::optional<TimestampTz>& due) {
    const long longest = settings::scheduler_nap_ms();
    if (!due) return longest;
    return std::clamp<long>(TimestampDifferenceMilliseconds(GetCurrentTimestamp(), *due), 1, longest);
}

void connect(Oid database) {
    pg::call([&] {
        BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
        pgstat_report_appname("baton worker");
        SetConfigOption("search_path", "pg_catalog, pg_temp", PGC_SUSET, PGC_S_OVERRIDE);
        // maintenance judges by what is committed now, whatever the database's default is
        SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);
    });
}

void serve(Oid database) {
    pg::begin_worker();
    if (!board::sit_down(database)) proc_exit(0);
    connect(database);
    const TimestampTz arrival = GetCurrentTimestamp();
    int failures = 0;
    for (;;) {
        const auto progress = try_one_job();
        const TimestampTz now = GetCurrentTimestamp();
        if (!settings::scheduler_enabled()) leave_until(now);
        if (!progress) {
            pg::worker_nap(1000L << std::min(failures++, longest_backoff_shift));
            continue;
        }
        failures = 0;
        if (!progress->extension_there) leave_until(now + second_look_us);
        if (progress->ran_a_job) {
            pg::worker_nap(0);  // there may be more; interrupts and reload are looked after
            continue;
        }
        const TimestampTz due =
            std::min(progress->next_due.value_or(now + longest_absence_us), now + longest_absence_us);
        if (board::others_wait() && due > now && now - arrival > shortest_stay_us) leave_until(due);
        follow_sources(GetCurrentTimestamp() + pause_until(progress->next_due) * 1000);
    }
}

// A helper refreshes stream tables that are due. It leaves when there was nothing for it to do for a while.
void help(Oid database, int place) {
    pg::begin_worker();
    if (!board::join_as_helper(database, place)) proc_exit(0);
    connect(database);
    TimestampTz last_work = GetCurrentTimestamp();
    while (settings::scheduler_enabled() && GetCurrentTimestamp() < last_work + helper_patience_us) {
        bool found = false;
        const bool went_well = run_logged("baton: refreshing stream tables", [&] {
            as_owner([&](pg::Spi& spi) {
                spi.execute("select baton_internal.refresh_due_stream(null) is not null");
                found = DatumGetBool(spi.datum(0, 1).value_or(BoolGetDatum(false)));
            });
        });
        if (!went_well) proc_exit(0);
        if (found) last_work = GetCurrentTimestamp();
        pg::worker_nap(found ? 0 : helper_nap_ms);
    }
    proc_exit(0);
}

}  // namespace

}  // namespace baton::scheduler

extern "C" void baton_stream_worker_main(Datum argument) {
    baton::pg::enter([&] {
        baton::scheduler::help(static_cast<Oid>(argument & 0xFFFFFFFFU), static_cast<int>(argument >> 32U));
    });
}

extern "C" void baton_worker_main(Datum argument) {
    baton::pg::enter([&] { baton::scheduler::serve(DatumGetObjectId(argument)); });
}
