#pragma once
// Writes down how far a group was delivered, and what could not be.
//
// Any thread leaves notes. The thread with the pipe writes them, several together, at most once in a few
// milliseconds, and never while earlier notes are under way. So notes are committed in order.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "postgres/pipe.hpp"
#include "relay/io.hpp"
#include "tables/outbox_batch.hpp"

namespace baton::tables {

class OutboxPositions {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // Every statement names the owner's epoch: the server refuses the statements of an owner that lost the
    // group.
    OutboxPositions(postgres::Pipe& pipe, std::string group_id, std::string epoch)
        : pipe_(pipe), group_id_(std::move(group_id)), epoch_(std::move(epoch)) {}

    // Prepare what is written often. Not behind a pooler, which gives each transaction another session.
    void prepare();

    // Note that events are done. Any thread may call this. True when there was no note before: then the
    // writer may sleep and must be woken.
    bool note(std::shared_ptr<const OutboxBatch> batch, std::size_t done,
              std::vector<relay::Failure> failures);
    // Wait until everything noted so far is committed. Any thread may call this. Throws ConnectionError when
    // it will never be committed.
    void flush();
    // Note that the writer has failed: nothing will be written any more.
    void give_up(const std::string& why);

    // When write() has something to do. Nothing when there is nothing to write.
    std::optional<Time> due() const;
    // Send the notes when it is time. True when a note parks events.
    bool write(Time now);
    // How many notes with failures were sent.
    std::uint64_t parks() const { return parks_; }

  private:
    struct Note {
        std::shared_ptr<const OutboxBatch> batch;
        std::size_t done;
        std::vector<relay::Failure> failures;
        std::uint64_t count;  // calls of note() that this note stands for
    };

    void write_note(const Note& note);
    void move_position(const Note& note);
    void settle_parked(const Note& note);
    void park(const std::vector<relay::Failure>& failures);

    postgres::Pipe& pipe_;
    const std::string group_id_, epoch_;
    bool prepared_ = false;
    Time write_at_{};          // not before then
    std::size_t writing_ = 0;  // notes that are under way to the server
    std::uint64_t parks_ = 0;
    std::uint64_t parked_batch_ = 0;  // the parked batch at hand
    std::size_t parked_done_ = 0;

    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable written_;
    std::vector<Note> notes_;
    std::uint64_t noted_ = 0;    // calls of note()
    std::uint64_t durable_ = 0;  // of those, how many are committed
    std::string failure_;
};

}  // namespace baton::tables
