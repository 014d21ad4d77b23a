#pragma once
// One pipeline: a source, a sink, and the work between them, for as long as the pipeline is wanted.
//
//   reader thread:  source -> bounded queue          sink thread:  queue -> dispatcher -> sink, checkpoint
//
// A session lasts as long as the source is ours and the connections hold; it ends before the lease ends.
// After a session the pipeline waits a little, makes source and sink anew and goes on from the last
// checkpoint. While another relay owns the source, the pipeline stands by.

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "relay/dispatcher.hpp"

namespace baton::relay {

enum class PipelineState { starting, standby, running, retrying, halted, stopped };
const char* name_of(PipelineState state);

struct PipelineStatus {
    std::string name;
    std::string group;  // the group whose position the pipeline moves; empty when the source has no group
    PipelineState state = PipelineState::starting;
    std::string detail;  // the reason for the state, in words
    Counts counts;
    std::uint64_t read = 0;
    Sizes batch_sizes;  // of batches read, in events
    std::uint64_t sessions = 0;
    std::size_t in_flight = 0;
    std::size_t buffered = 0;  // events read and not settled
    std::size_t buffered_bytes = 0;
    bool circuit_open = false;
    std::string trouble;  // what hinders the pipeline; empty when all is well
    Fault fault =
        Fault::moment;  // whose fault that is; with Fault::event the pipeline is stopped, see relay/blame.hpp
};

struct PipelineParts {
    std::string name;
    std::string group;
    std::shared_ptr<std::string> found_group;  // the group, where open_source must ask the database for it
    // Make the source. Null when somebody else has it; `holder` says who.
    std::function<std::unique_ptr<Feed>(std::string& holder)> open_source;
    std::function<std::unique_ptr<Sink>()> open_sink;
    Transformer transformer;
    Policy policy;
    std::size_t max_bytes = 32 << 20;     // of events read and not settled
    milliseconds standby_interval{2000};  // time between two tries to take over
    milliseconds drain_limit{10000};
    milliseconds trouble_interval{600000};
    Backoff reconnect{milliseconds(200), milliseconds(15000)};
    std::function<void(const PipelineStatus&)> on_state;  // once per change of state
    // Called when nothing got through for a second; status.trouble says why. Called again when the fault
    // changes, every `trouble_interval`, and once when the trouble is over.
    std::function<void(const PipelineStatus&)> on_trouble;
    Dispatcher::OnFailure on_failure;
    Dispatcher::OnDelivered on_delivered;
    TraceNames trace_names;
    std::shared_ptr<Traces> traces;  // null: nothing is told of events
};

class Pipeline {
  public:
    explicit Pipeline(PipelineParts parts);
    ~Pipeline();
    Pipeline(const Pipeline&) = delete;
    Pipeline& operator=(const Pipeline&) = delete;

    void start();
    // Ask the pipeline to drain and end. Returns at once.
    void request_stop();
    // Wait until the pipeline has ended.
    void join();
    bool ended() const { return ended_; }

    PipelineStatus status() const;

  private:
    using Clock = Dispatcher::Clock;
    struct Session;

    void run();
    bool hold_session();  // false when the source belongs to somebody else
    void read_on(Session& session);
    void count_batch(const Batch& batch);
    void send_on(Session& session, Dispatcher& dispatcher);
    static void end_before_lease(Session& session);
    void drain(Session& session, Dispatcher& dispatcher);
    void take_batches(Session& session, Dispatcher& dispatcher);
    void idle(Session& session, Dispatcher& dispatcher);
    void publish(const Session& session, const Dispatcher& dispatcher);
    void watch_trouble(Clock::time_point now);
    void enter(PipelineState state, const std::string& detail = {});
    void pause(milliseconds time);

    PipelineParts parts_;
    std::thread thread_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> ended_{false};
    mutable std::mutex mutex_;
    std::condition_variable wanted_;
    PipelineStatus status_;
    Counts before_;  // of earlier sessions
    std::uint64_t read_before_ = 0;
    Session* session_ = nullptr;
    Streak streak_;  // at the end of the last session
    std::optional<Clock::time_point> troubled_since_;
    struct Told {
        Clock::time_point at;
        Fault fault;
    };
    std::optional<Told> trouble_told_;
    bool ask_sink_first_ = false;  // the last session could not wait for the sink
    std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace baton::relay
