#pragma once
// The common part of all sources that read from a broker. A message is acknowledged only after it was
// settled, that is, after the sink has it for good. Acknowledgements go in the order of reading, several at a
// time. No message is ever parked, because a broker cannot keep parked messages.
//
// A subclass reads messages and tells the broker what is done. Its functions run on the reader's thread, so
// they need no locks. wait() lets them sleep without missing a wake-up. A failure of the connection is
// thrown: then the pipeline makes a new feed, and the broker delivers again what was not acknowledged.
//
//   ack_interval  how long acknowledgements may be gathered, 50ms
//   ack_timeout   how long the broker may take to answer acknowledgements, 10s
//   batch         messages that are read in one go, 1000
//   batch_bytes   how many bytes these messages may have, 4 MiB

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "intake/incoming.hpp"
#include "relay/settings.hpp"

namespace baton::intake {

class BrokerFeed : public relay::Feed {
  public:
    using Clock = std::chrono::steady_clock;
    using milliseconds = relay::milliseconds;

    struct Pace {
        milliseconds ack_interval{50};
        milliseconds ack_timeout{10'000};
        std::size_t batch = 1000;
        std::size_t batch_bytes = 4 << 20;

        static Pace read(const relay::Settings& settings);
    };

    explicit BrokerFeed(Pace pace);
    ~BrokerFeed() override;
    BrokerFeed(const BrokerFeed&) = delete;
    BrokerFeed& operator=(const BrokerFeed&) = delete;

    relay::BatchPtr read(milliseconds patience) final;
    void tend(milliseconds patience) final;
    void close() final;
    void interrupt() final;
    void settle(const relay::BatchPtr& batch, std::size_t done, std::vector<relay::Failure> failures) final;
    void flush() final;
    std::string trouble() const final;

  protected:
    // Return the next messages; null when `until` has come, or something woke wait().
    virtual std::shared_ptr<BrokerBatch> receive(Clock::time_point until) = 0;
    // Note that the events from number `from` up to `to` of the batch are done. Called in order.
    virtual void acknowledge(const BrokerBatch& batch, std::size_t from, std::size_t to) = 0;
    // Tell the broker what was noted. True when the broker knows everything; false to be called again soon.
    virtual bool send_acknowledgements() = 0;
    // Keep the connection alive while nothing may be read.
    virtual void idle(Clock::time_point until) { wait(-1, 0, until); }
    // Leave in good order: messages that were read and not acknowledged should go to others without delay.
    virtual void leave() {}
    // Make receive() return, from any thread.
    virtual void wake();

    // Sleep until the descriptor is ready, wake() was called or the time has come. True when the descriptor
    // is ready.
    bool wait(int descriptor, short events, Clock::time_point until) const;
    // Whoever writes to this descriptor ends a wait().
    int wake_fd() const { return wake_fd_; }
    // Hand what was settled so far to acknowledge().
    void take_notes();
    // True when the batch has as many events or bytes as a batch may have.
    bool is_full(const BrokerBatch& batch) const {
        return batch.events.size() >= pace_.batch || batch.bytes >= pace_.batch_bytes;
    }
    void set_trouble(std::string words);
    const Pace& pace() const { return pace_; }

  private:
    struct Note {
        std::shared_ptr<const BrokerBatch> batch;
        std::size_t done;
    };

    template <class Step>
    auto guarded(const Step& step);
    void acknowledge_noted(bool at_once);
    Clock::time_point next_chore(Clock::time_point until) const;

    const Pace pace_;
    int wake_fd_ = -1;
    std::atomic<bool> interrupted_{false};

    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable written_;
    std::deque<Note> notes_;
    std::uint64_t settled_ = 0;       // calls of settle()
    std::uint64_t acknowledged_ = 0;  // calls of which the broker knows
    bool hurry_ = false;              // somebody waits in flush()
    std::string failure_;
    std::string trouble_;

    // The reader's thread alone:
    std::uint64_t next_number_ = 1;
    std::uint64_t taken_ = 0;  // notes that went to acknowledge()
    std::uint64_t sent_ = 0;   // notes that the broker has
    std::uint64_t current_ = 0;
    std::size_t current_done_ = 0;  // of batch number current_
    Clock::time_point last_sent_{};
    std::optional<Clock::time_point> unsent_since_;
};

}  // namespace baton::intake
