#pragma once
// Events of an adopted table, claimed, acknowledged and failed by the table's own rules.
//
// A table with lock columns: a claim is committed, and its locks are renewed until the rows are settled. The
// statement that settles names the worker, so rows that another worker has taken meanwhile are not touched.
//
// A table without lock columns: a claim is an open transaction that ends when its batch is settled. The
// server ends the transaction of a relay that does not answer for the length of its lease. An open
// transaction holds back vacuum in the whole database, so it stays open for hold_limit at most. Then the
// source settles what the sink has taken, gives back the rest, and claims rows again when the sink answers.
//
// One relay at a time works a table with a partition key, so that keys keep their order. A key with a failed
// event waits until this event is done. Any number of relays share other tables.
//
// Only the thread that reads talks to the server; settle() leaves a note for this thread.

#include <condition_variable>
#include <map>
#include <mutex>

#include "tables/adopted_table.hpp"
#include "tables/table_feed.hpp"

namespace baton::tables {

struct AdoptedOptions {
    std::string conninfo;
    std::string table;
    std::string owner;                               // this relay and pipeline; no other has this name
    relay::milliseconds lease{15000};                // how long rows stay claimed by a relay that is gone
    int batch = 500;                                 // rows per claim, at most
    std::size_t batch_bytes = 4 << 20;               // fewer rows are claimed when they would be larger
    std::size_t max_event_bytes = LoadLimit::usual;  // a larger event is claimed and not loaded
    relay::milliseconds poll{500};                   // longest time between two looks when nothing comes
    std::optional<bool> ordered = {};                // default: as the layout says
    relay::milliseconds hold_limit{60'000};          // how long a transaction with rows stays open
};

class AdoptedSource final : public TableFeed {
  public:
    // Take the table. Null when only one relay may work it and another has it; `holder` says who.
    static std::unique_ptr<AdoptedSource> take(const AdoptedOptions& options, Holder& holder);

    relay::BatchPtr read(relay::milliseconds patience) override;
    void close() override;
    bool ordered() const override { return ordered_; }

    void settle(const relay::BatchPtr& batch, std::size_t done,
                std::vector<relay::Failure> failures) override;
    void flush() override;

  private:
    using Session = std::unique_ptr<postgres::Connection>;
    struct Note {
        std::shared_ptr<const AdoptedBatch> batch;
        std::size_t done;
        std::vector<relay::Failure> failures;
    };
    // A batch that is not settled, and news about it that was not written yet.
    struct Claim {
        std::shared_ptr<const AdoptedBatch> batch;
        std::size_t done = 0;
        std::vector<const Event*> delivered;
        std::vector<relay::Failure> failures;
        std::uint64_t notes = 0;
        Clock::time_point began{};
        Clock::time_point kept_at{};  // the claim lasts for one lease from this moment on
        Session session;              // its open transaction, where the table has no lock columns
    };
    // A key that waits for these rows.
    struct WaitingKey {
        std::vector<std::string> rows;
        std::string failed;
    };

    AdoptedSource(const AdoptedOptions& options, PatiencePtr patience, AdoptedTable table, bool ordered,
                  Session db);

    relay::BatchPtr claim();
    std::shared_ptr<AdoptedBatch> claim_rows(Claim& claimed, int limit);
    std::shared_ptr<AdoptedBatch> claim_by_locks(int limit);
    std::shared_ptr<AdoptedBatch> claim_by_transaction(Claim& claimed, int limit);
    ClaimRoom room(int limit) const;
    void adapt_limit(const AdoptedBatch& batch);
    Waiting waiting() const;

    void do_chores() override;
    void take_notes();
    void take_note(Note note);
    void write(bool everything);
    void write_claim(postgres::Connection& db, Claim& claim);
    void fail(postgres::Connection& db, const std::vector<relay::Failure>& failures);
    void written(Claim& claim);
    void refuse_lost();
    void end_long_claims();
    void keep_claims();
    void keep_ownership();
    void look_at_waiting_keys();
    void let_key_wait(const Event& event);
    void let_go(const std::string& key, const std::string& id);
    void reckon();                         // compute when the session must be over
    relay::milliseconds held_for() const;  // how long a claim lasts without a sign of life
    void wait(Clock::time_point until) override;
    void give_up(const std::string& why) override;

    AdoptedOptions options_;
    AdoptedTable table_;
    const bool ordered_;
    std::string worker_;
    std::string epoch_;  // empty where the table is shared
    Session db_;
    std::vector<Session> idle_sessions_;

    std::map<std::uint64_t, Claim> claims_;           // by number of the batch
    std::map<std::string, WaitingKey> waiting_keys_;  // by key
    Clock::time_point keys_seen_at_{};
    Clock::time_point owned_at_{};
    int limit_;
    std::uint64_t next_number_ = 1;
    std::uint64_t parks_ = 0;
    std::size_t lost_ = 0;  // rows that another worker has taken
    relay::milliseconds nap_{0};
    Clock::time_point sleep_until_{};

    // shared with the thread that settles
    mutable std::mutex mutex_;
    std::condition_variable is_written_;
    std::vector<Note> notes_;
    bool flushing_ = false;
    std::uint64_t settled_ = 0;  // calls of settle()
    std::uint64_t durable_ = 0;  // of those, how many are committed
    std::string failure_;
};

}  // namespace baton::tables
