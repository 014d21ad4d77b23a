#pragma once
// Events of an outbox group, read by a relay that owns the group alone, and the checkpoint that moves the
// group's position.
//
// One work connection in pipeline mode: while a batch is handled, the next read is under way, and positions
// travel in the same pipe. A second connection waits for the doorbell. Only the thread that reads talks to
// the server; settle() leaves a note for this thread (OutboxPositions).

#include <optional>

#include "postgres/doorbell.hpp"
#include "postgres/pipe.hpp"
#include "relay/io.hpp"
#include "tables/claim_check.hpp"
#include "tables/outbox_batch.hpp"
#include "tables/outbox_floor.hpp"
#include "tables/outbox_positions.hpp"
#include "tables/pace.hpp"
#include "tables/table_feed.hpp"

namespace baton::tables {

struct OutboxOptions {
    std::string conninfo;
    std::string group;
    std::string owner;                  // this relay's name; no other relay has it
    relay::milliseconds lease{15000};   // after this time another relay may take over from a dead one
    int batch = 2000;                   // events per read, at most
    std::size_t batch_bytes = 4 << 20;  // fewer events are read when they would be larger, but always one
    std::size_t max_event_bytes = LoadLimit::usual;  // a larger event is not loaded
    std::string wake_up = "auto";                    // bell, notify or poll
    relay::milliseconds safety_look{postgres::usual_safety_look};
    int claim_check_rows = 0;  // a claim check goes in parts of so many rows; 0: as it is
};

class OutboxSource final : public TableFeed {
  public:
    // Take the group. Null when somebody else has it; `holder` says who. Throws Error when the group can
    // never be taken.
    static std::unique_ptr<OutboxSource> take(const OutboxOptions& options, Holder& holder);

    relay::BatchPtr read(relay::milliseconds patience) override;
    void close() override;
    bool ordered() const override { return ordered_; }

    void settle(const relay::BatchPtr& batch, std::size_t done,
                std::vector<relay::Failure> failures) override;
    void flush() override;

  private:
    using WindowPtr = std::shared_ptr<const Window>;
    enum class Reading { nothing, opening, window, payloads, parked, part };  // what is under way in the pipe

    OutboxSource(const OutboxOptions& options, PatiencePtr patience, postgres::Connection connection,
                 const postgres::Result& taken);

    void ask();  // start the next read, when there is something to ask for
    postgres::Params position() const;
    void take_floor(bool found_events);
    void open_window();
    void open_by_function();
    void read_window();
    void read_parked();
    void read_part();
    void take_window(const postgres::Result& answer, bool complete);
    void take_rows(postgres::Result answer, bool late, int limit);
    void read_payloads(const std::shared_ptr<OutboxBatch>& batch);
    void give_back(const std::vector<long long>& ids);
    void flush_log();
    void await_standbys();
    void adapt_limit(const OutboxBatch& batch, int limit);
    std::shared_ptr<OutboxBatch> finish(std::shared_ptr<OutboxBatch> batch);
    void heed_parked(OutboxBatch& batch);
    void set_aside(OutboxBatch& batch);

    void keep_up();  // write positions, renew
    void do_chores() override;
    void run_chore(const char* name, const char* sql, const postgres::Params& params,
                   postgres::Pipe::Handler handler);
    void renew();
    void end_before_lease() const;
    void wait(Clock::time_point until) override;
    void give_up(const std::string& why) override;

    OutboxOptions options_;
    bool pooled_ = false;
    postgres::Pipe pipe_;
    const std::string group_id_, epoch_;
    OutboxPositions positions_;
    std::unique_ptr<postgres::Doorbell> doorbell_;

    const std::string relation_;
    ClaimCheck claim_check_;
    bool ordered_ = true;
    PayloadKind payload_kind_ = PayloadKind::json;
    bool from_jsonb_ = false;
    std::string late_sql_, fresh_sql_, parked_sql_;

    // where reading stands
    std::string era_, seen_;
    OutboxFloor floor_;
    std::int64_t late_id_ = 0;
    WindowPtr window_;
    bool complete_ = false;   // behind the window was nothing when it was opened
    int reads_ = 0;           // of the window
    bool held_back_ = false;  // the window's commits may not be on disk, or not on enough standbys
    std::int64_t window_number_ = 0;
    std::int64_t after_id_ = 0;
    int limit_;
    std::uint64_t next_number_ = 1;
    Reading reading_ = Reading::nothing;
    std::shared_ptr<OutboxBatch> arrived_;
    bool receiving_ = false;      // a part of an answer has come
    bool found_nothing_ = false;  // nothing is left of what the last look saw, and nobody rang since
    bool rang_since_look_ = false;
    Pace pace_;
    std::optional<Clock::time_point> sleep_until_;
    std::int64_t parked_upto_ = 0;
    bool blocking_ = true;
    std::optional<Clock::time_point> parked_due_;
    Clock::time_point parked_not_before_{};
    Clock::time_point renewed_at_{};  // when the last answered renewal was asked for
    Clock::time_point renew_at_{};
};

}  // namespace baton::tables
