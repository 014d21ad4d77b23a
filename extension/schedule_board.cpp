#include "schedule_board.hpp"

#include <signal.h>

#include "pg/shmem.hpp"

namespace baton::board {

namespace {

constexpr std::size_t seat_count = 256;
constexpr int longest_backoff_shift = 6;
constexpr long launcher_nap_ms = 2000;
constexpr std::int64_t start_grace_us =
    10 * USECS_PER_SEC;  // a started worker that did not appear by then is given up
constexpr std::int64_t clear_time_us = 30 * USECS_PER_SEC;            // for dropping or copying a database
constexpr std::int64_t longest_absence_us = 15 * 60 * USECS_PER_SEC;  // no worker leaves for longer
constexpr int clear_patience = 500;  // looks of 20 ms at a worker that is ending

constexpr std::size_t helper_count = 8;

// A process that helps a worker.
struct Helper {
    int pid = 0;
    TimestampTz starting_until = 0;  // the place is reserved
};

struct Seat {
    Oid database = InvalidOid;
    int pid = 0;                     // the worker, or 0
    int failures = 0;                // in a row
    bool poked = false;              // since the worker sat down
    TimestampTz wanted_at = 0;       // no worker before
    TimestampTz starting_until = 0;  // one was started and has not appeared yet
    TimestampTz cleared_until = 0;   // no worker before, whoever wants it
    std::array<Helper, helper_count> helpers{};
};

struct Board {
    LWLock lock;
    Latch* launcher;
    pg_atomic_uint32 waiting;  // databases whose turn it is, but all workers are busy
    std::array<Seat, seat_count> seats;
};

void initialize(Board& board) {
    LWLockInitialize(&board.lock, LWLockNewTrancheId());
    board.launcher = nullptr;
    pg_atomic_init_u32(&board.waiting, 0);
    board.seats.fill(Seat{});
}

constinit pg::Shared<Board> shared{"baton scheduler", initialize};
bool requested = false;
Oid my_database = InvalidOid;
int my_place = -1;

// Hold the board's lock. Nothing inside may raise.
class Locked {
  public:
    Locked() : board_(*shared.get()) { LWLockAcquire(&board_.lock, LW_EXCLUSIVE); }
    ~Locked() { LWLockRelease(&board_.lock); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

    Board& operator*() const { return board_; }
    Board* operator->() const { return &board_; }

    Seat* find(Oid database) const {
        for (auto& seat : board_.seats)
            if (seat.database == database) return &seat;
        return nullptr;
    }
    Seat* find_or_add(Oid database) const {
        Seat* seat = find(database);
        if (seat == nullptr && (seat = find(InvalidOid)) != nullptr) {
            *seat = Seat{};
            seat->database = database;
        }
        return seat;
    }

  private:
    Board& board_;
};

void wake_launcher(Board& board) noexcept {
    if (board.launcher != nullptr) SetLatch(board.launcher);
}

void leave_launcher(int /*code*/, Datum /*argument*/) {
    const Locked board;
    board->launcher = nullptr;
}

// At a worker's end: free its seat, and hold it back when the end was not a good one.
void stand_up(int code, Datum /*argument*/) {
    const Locked board;
    Seat* const seat = board.find(my_database);
    if (seat == nullptr || seat->pid != MyProcPid) return;
    seat->pid = 0;
    if (code != 0) {
        const int shift = std::min(seat->failures++, longest_backoff_shift);
        seat->wanted_at = GetCurrentTimestamp() + (USECS_PER_SEC << shift);
    } else {
        seat->failures = 0;
    }
    wake_launcher(*board);
}

void leave_helper(int /*code*/, Datum /*argument*/) {
    const Locked board;
    Seat* const seat = board.find(my_database);
    if (seat == nullptr) return;
    Helper& helper = seat->helpers[static_cast<std::size_t>(my_place)];
    if (helper.pid == MyProcPid) helper = Helper{};
}

// Everybody who serves a database.
std::array<int, helper_count + 1> processes_of(const Seat& seat) {
    std::array<int, helper_count + 1> pids{seat.pid};
    for (std::size_t i = 0; i < helper_count; ++i) pids[i + 1] = seat.helpers[i].pid;
    return pids;
}

void forget_dropped(Board& board, const std::vector<Oid>& databases) {
    for (auto& seat : board.seats)
        if (seat.pid == 0 &&
            std::ranges::all_of(seat.helpers, [](const Helper& helper) { return helper.pid == 0; }) &&
            std::find(databases.begin(), databases.end(), seat.database) == databases.end())
            seat = Seat{};
}

// A time that lies further ahead than it can was noted by a clock that has been set back since.
void forget_set_back_times(Seat& seat, TimestampTz now) {
    if (seat.wanted_at > now + longest_absence_us) seat.wanted_at = 0;
    if (seat.starting_until > now + start_grace_us) seat.starting_until = 0;
    if (seat.cleared_until > now + clear_time_us) seat.cleared_until = 0;
}

}  // namespace

void request() {
    requested = true;
    pg::request_shared_memory(
        sizeof(Board), [] { LWLockRegisterTranche(shared.attach()->lock.tranche, "baton scheduler"); });
}

bool exists() {
    return requested;
}

void enter_launcher() {
    {
        const Locked board;
        board->launcher = MyLatch;
    }
    before_shmem_exit(leave_launcher, 0);
}

Turn next_turn(const std::vector<Oid>& databases, int room) {
    Turn turn{{}, launcher_nap_ms};
    turn.start.reserve(seat_count);
    std::vector<Seat*> eligible;
    eligible.reserve(seat_count);  // under the lock nothing may be allocated
    const Locked board;
    forget_dropped(*board, databases);
    for (const Oid database : databases) board.find_or_add(database);
    const TimestampTz now = GetCurrentTimestamp();
    for (auto& seat : board->seats) {
        if (seat.database == InvalidOid) continue;
        forget_set_back_times(seat, now);
        if (seat.pid != 0 || seat.starting_until > now) {
            --room;
        } else if (seat.wanted_at <= now && seat.cleared_until <= now) {
            eligible.push_back(&seat);
        } else {
            const long wait =
                TimestampDifferenceMilliseconds(now, std::max(seat.wanted_at, seat.cleared_until));
            turn.sleep_ms = std::clamp<long>(wait + 1, 1, turn.sleep_ms);
        }
    }
    std::sort(eligible.begin(), eligible.end(),
              [](const Seat* a, const Seat* b) { return a->wanted_at < b->wanted_at; });
    for (Seat* const seat : eligible) {
        if (room-- <= 0) break;
        seat->starting_until = now + start_grace_us;
        turn.start.push_back(seat->database);
    }
    pg_atomic_write_u32(&board->waiting, static_cast<uint32>(eligible.size() - turn.start.size()));
    return turn;
}

void postpone(Oid database, long milliseconds) {
    const Locked board;
    Seat* const seat = board.find(database);
    if (seat == nullptr) return;
    seat->starting_until = 0;
    seat->wanted_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), milliseconds);
}

bool sit_down(Oid database) {
    my_database = database;
    {
        const Locked board;
        Seat* const seat = board.find(database);
        if (seat == nullptr || seat->pid != 0) return false;
        seat->starting_until = 0;
        if (seat->cleared_until > GetCurrentTimestamp()) return false;
        seat->pid = MyProcPid;
        seat->poked = false;
        seat->wanted_at = 0;
    }
    before_shmem_exit(stand_up, 0);
    return true;
}

void come_back_at(TimestampTz when) {
    const Locked board;
    // A poke that came while this worker looked around may be news to it: then another look is due at once.
    if (Seat* const seat = board.find(my_database)) seat->wanted_at = seat->poked ? 0 : when;
}

std::optional<int> reserve_helper(int most) {
    const Locked board;
    Seat* const seat = board.find(my_database);
    if (seat == nullptr) return std::nullopt;
    const TimestampTz now = GetCurrentTimestamp();
    if (seat->cleared_until > now) return std::nullopt;
    for (int place = 0; place < std::min<int>(most, helper_count); ++place) {
        Helper& helper = seat->helpers[static_cast<std::size_t>(place)];
        if (helper.pid != 0 || (helper.starting_until > now && helper.starting_until <= now + start_grace_us))
            continue;
        helper.starting_until = now + start_grace_us;
        return place;
    }
    return std::nullopt;
}

void release_helper(int place) {
    const Locked board;
    if (Seat* const seat = board.find(my_database)) seat->helpers[static_cast<std::size_t>(place)] = Helper{};
}

bool join_as_helper(Oid database, int place) {
    my_database = database;
    my_place = place;
    {
        const Locked board;
        Seat* const seat = board.find(database);
        if (seat == nullptr || seat->cleared_until > GetCurrentTimestamp()) return false;
        seat->helpers[static_cast<std::size_t>(place)] = {MyProcPid, 0};
    }
    before_shmem_exit(leave_helper, 0);
    return true;
}

bool others_wait() {
    return pg_atomic_read_u32(&shared.get()->waiting) > 0;
}

void clear_database(Oid database) {
    if (!exists() || !OidIsValid(database)) return;
    for (int look = 0; look < clear_patience; ++look) {
        std::array<int, helper_count + 1> pids{};
        {
            const Locked board;
            Seat* const seat = board.find_or_add(database);
            if (seat == nullptr) return;
            seat->cleared_until = GetCurrentTimestamp() + clear_time_us;
            pids = processes_of(*seat);
        }
        if (std::ranges::all_of(pids, [](int pid) { return pid == 0; })) return;
        for (const int pid : pids)
            if (look == 0 && pid != 0) ::kill(pid, SIGTERM);
        pg::call([] {
            pg_usleep(20'000L);
            CHECK_FOR_INTERRUPTS();
        });
    }
}

void poke(Oid database) noexcept {
    if (!exists()) return;
    const Locked board;
    if (Seat* const seat = board.find(database)) {
        seat->poked = true;
        if (seat->pid == 0) seat->wanted_at = 0;
    }
    wake_launcher(*board);
}

}  // namespace baton::board
