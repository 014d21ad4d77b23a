#pragma once
// The done events of an adopted table, read by a consumer that keeps its own offset beside it (baton.
// read_consumer_batch). A batch is one transaction: it locks the offset, and moves it when everything before
// it is delivered, so the members of one consumer take turns and the order of ids is kept.
//
// The transaction is not kept open for longer than hold_limit: the offset is moved as far as it may be, and
// the rest is read again when the sink answers.
//
// An offset cannot leave an event out. One that the sink refuses stops the consumer in front of it: the
// offset is moved up to there, and the pipeline tries again.
//
// The thread that reads does all the talking; settle() only leaves a note for it.

#include <condition_variable>
#include <mutex>

#include "tables/adopted_table.hpp"
#include "tables/table_feed.hpp"

namespace baton::tables {

struct ReaderOptions {
    std::string conninfo;
    std::string table;
    std::string consumer;
    std::string partition;             // '' for all rows
    relay::milliseconds lease{15000};  // a member that is silent for this long loses its turn
    int batch = 500;
    std::size_t batch_bytes = 4 << 20;
    std::size_t max_event_bytes = LoadLimit::usual;  // what has more is not loaded
    relay::milliseconds poll{500};
    relay::milliseconds hold_limit{60'000};  // how long the transaction of a batch stays open
};

class AdoptedReader final : public TableFeed {
  public:
    // Null while another member has the offset; `holder` then says so. Throws SqlError when the table has no
    // offsets.
    static std::unique_ptr<AdoptedReader> take(const ReaderOptions& options, Holder& holder);

    relay::BatchPtr read(relay::milliseconds patience) override;
    void close() override;

    void settle(const relay::BatchPtr& batch, std::size_t done,
                std::vector<relay::Failure> failures) override;
    void flush() override;

  private:
    AdoptedReader(const ReaderOptions& options, PatiencePtr patience,
                  std::unique_ptr<postgres::Connection> db);
    void no_batch();
    bool begin_batch();  // false while another member has the offset
    void do_chores() override;
    void end_long_batch(std::size_t done);
    void move_offset(std::size_t done);
    void wait(Clock::time_point until) override;
    void give_up(const std::string& why) override;

    ReaderOptions options_;
    int limit_;  // rows of the next batch
    std::unique_ptr<postgres::Connection> db_;
    std::shared_ptr<AdoptedBatch> current_;  // its transaction is open
    bool given_ = false;                     // ... and it is with the pipeline
    std::uint64_t next_number_ = 1;
    relay::milliseconds nap_{0};
    Clock::time_point sleep_until_{};
    Clock::time_point began_{};  // ... the transaction of the current batch
    Clock::time_point kept_at_{};

    // shared with the thread that settles
    std::mutex mutex_;
    std::condition_variable written_;
    std::size_t done_ = 0;  // of the current batch
    std::string refused_;   // why the event after those could not be delivered
    bool unwritten_ = false;
    bool flushing_ = false;
    std::string failure_;
};

}  // namespace baton::tables
