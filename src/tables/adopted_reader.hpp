#pragma once
// The done events of an adopted table, for a consumer with an offset of its own (baton.read_consumer_batch).
// A batch is one transaction. The transaction locks the offset, and moves the offset when everything before
// it is delivered. So the members of one consumer take turns, and the order of ids is kept.
//
// The transaction stays open for hold_limit at most. Then the offset is moved as far as possible, and the
// rest is read again when the sink answers.
//
// An offset cannot leave an event out. An event that the sink refuses stops the consumer: the offset is moved
// up to this event, and the pipeline tries again.
//
// Only the thread that reads talks to the server; settle() leaves a note for this thread.

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
    std::size_t max_event_bytes = LoadLimit::usual;  // a larger event is not loaded
    relay::milliseconds poll{500};
    relay::milliseconds hold_limit{60'000};  // how long the transaction of a batch stays open
};

class AdoptedReader final : public TableFeed {
  public:
    // Take the offset. Null while another member has it; `holder` says so. Throws SqlError when the table has
    // no offsets.
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
    bool given_ = false;                     // the pipeline has the current batch
    std::uint64_t next_number_ = 1;
    relay::milliseconds nap_{0};
    Clock::time_point sleep_until_{};
    Clock::time_point began_{};  // when the transaction of the current batch began
    Clock::time_point kept_at_{};

    // shared with the thread that settles
    std::mutex mutex_;
    std::condition_variable written_;
    std::size_t done_ = 0;  // of the current batch
    std::string refused_;   // why the next event could not be delivered
    bool unwritten_ = false;
    bool flushing_ = false;
    std::string failure_;
};

}  // namespace baton::tables
