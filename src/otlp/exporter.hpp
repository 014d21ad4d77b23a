#pragma once
// Sends spans to a collector, from a thread of its own.
//
// Whoever hands over a span never waits: a span goes into a bounded queue, or is dropped and counted where
// the queue is full. The thread sends batches. An answer 429, 502, 503 or 504, or none, means later: the
// batch is tried again with growing pauses, or when Retry-After says, up to `tries` times. Any other refusal
// drops the batch. An answer's body counts only where it tells of refused spans, and only its beginning is
// read.
//
// The end: what is queued is sent, each batch once, until `flush_limit` is over; the rest is dropped.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <span>
#include <thread>

#include "baton/trace.hpp"
#include "otlp/options.hpp"

namespace baton::otlp {

class Exporter final : public SpanExporter {
  public:
    // Called from the exporter's thread when the collector stops taking spans, with the reason, and with an
    // empty text when the collector takes them again. The reason holds no header and no answer of the
    // collector.
    using OnTrouble = std::function<void(const std::string& reason)>;

    static constexpr unsigned tries = 5;

    explicit Exporter(Options options, OnTrouble on_trouble = {});
    // Flush as described above.
    ~Exporter() override;
    Exporter(const Exporter&) = delete;
    Exporter& operator=(const Exporter&) = delete;

    void take(Span span) noexcept override;
    // Flush as described above; what comes later is dropped. May be called more than once.
    void close();

    std::uint64_t exported() const { return exported_; }
    std::uint64_t dropped() const { return dropped_; }

  private:
    using Clock = std::chrono::steady_clock;
    struct Connection;
    struct Answer {
        enum class Kind { taken, later, refused };
        Kind kind;
        std::string reason;
        milliseconds retry_after{0};
        std::size_t rejected = 0;
    };

    void run();
    bool wait_for_batch(std::vector<Span>& batch);
    void deliver(std::span<const Span> batch);
    Answer post(const std::string& body);
    bool pause(milliseconds time);
    void tell(const std::string& reason);

    const Options options_;
    const OnTrouble on_trouble_;
    std::unique_ptr<Connection> connection_;
    std::atomic<std::uint64_t> exported_{0};
    std::atomic<std::uint64_t> dropped_{0};
    bool troubled_ = false;
    std::minstd_rand random_{std::random_device{}()};

    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    std::deque<Span> queue_;
    bool closing_ = false;
    std::atomic<Clock::rep> end_{0};  // of a flush; 0: not yet

    std::thread thread_;  // last: it uses all the others
};

}  // namespace baton::otlp
