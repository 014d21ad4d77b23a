// How a pipeline's session ends, with a source whose database does not answer.

#include <gtest/gtest.h>

#include "relay/pipeline.hpp"
#include "support/cluster.hpp"

using namespace baton;
using namespace baton::relay;
using namespace std::chrono_literals;
using baton::test::wait_until;

namespace {

using relay::Delivery;  // not a handler's

// What the test sees of source and sink, and what it lets them do.
struct Stage {
    std::atomic<bool> lease_holds{true};
    std::atomic<bool> reader_stuck{false};
    std::atomic<bool> let_reader_go{false};
    std::atomic<bool> ended{false};  // end_by() was called, and the time has come
    std::atomic<int> sent{0};
    std::atomic<int> dropped{0};  // sinks that are gone
    std::atomic<std::size_t> loads_at_most{0};
};

// Gives one event; then the database does not answer any more.
class StuckFeed final : public Feed {
  public:
    // `deaf`: it does not heed end_by() either.
    StuckFeed(Stage& stage, bool deaf) : stage_(stage), deaf_(deaf) {}

    BatchPtr read(milliseconds) override {
        if (!given_) {
            given_ = true;
            auto batch = std::make_shared<Batch>();
            batch->number = 1;
            batch->bytes = 1;
            batch->events.emplace_back().event_id = "one";
            return batch;
        }
        return wait();
    }
    void tend(milliseconds) override { wait(); }
    void interrupt() override {}
    void end_by(std::chrono::steady_clock::time_point end) override {
        const std::lock_guard lock(mutex_);
        end_ = end;
    }
    bool may_send() const override { return stage_.lease_holds; }
    void load_at_most(std::size_t bytes) override { stage_.loads_at_most = bytes; }
    void settle(const BatchPtr&, std::size_t, std::vector<Failure>) override {}
    void flush() override {
        wait_until("the reader gave up", [this] { return stage_.ended.load(); });
        throw ConnectionError("not written");
    }

  private:
    BatchPtr wait() {
        stage_.reader_stuck = true;
        wait_until("the reader may go", [this] { return stage_.let_reader_go.load() || over(); });
        throw ConnectionError("no answer");
    }
    bool over() {
        const std::lock_guard lock(mutex_);
        if (deaf_ || std::chrono::steady_clock::now() < end_) return false;
        stage_.ended = true;
        return true;
    }

    Stage& stage_;
    const bool deaf_;
    bool given_ = false;
    std::mutex mutex_;
    std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
};

// Waits in send() until the lease is over, as one does that has to connect first, and asks before it sends.
class SlowSink final : public Sink {
  public:
    explicit SlowSink(Stage& stage) : stage_(stage) {}
    ~SlowSink() override { ++stage_.dropped; }
    SinkTraits traits() const override { return {}; }
    void check() override {}
    void send(std::span<const Message>) override {
        stage_.lease_holds = false;
        if (may_send()) ++stage_.sent;
    }
    void collect(std::vector<Delivery>&, milliseconds) override {}

  private:
    Stage& stage_;
};

// Takes messages and keeps them, as a library does whose broker is away.
class KeepingSink final : public Sink {
  public:
    explicit KeepingSink(Stage& stage) : stage_(stage) {}
    ~KeepingSink() override { ++stage_.dropped; }
    // It learns its limit when it connects.
    SinkTraits traits() const override {
        return {.max_message_bytes = stage_.sent > 0 ? std::size_t{1000} : 0};
    }
    void check() override {}
    void send(std::span<const Message> messages) override {
        stage_.sent += static_cast<int>(messages.size());
    }
    void collect(std::vector<Delivery>&, milliseconds) override {}

  private:
    Stage& stage_;
};

class Ending : public testing::Test {
  protected:
    PipelineParts parts(bool deaf) {
        PipelineParts made;
        made.name = "out";
        made.open_source = [this, deaf](std::string& holder) -> std::unique_ptr<Feed> {
            holder = "another";
            return taken_.exchange(true) ? nullptr : std::make_unique<StuckFeed>(stage, deaf);
        };
        made.open_sink = [this] { return std::make_unique<KeepingSink>(stage); };
        made.transformer.render = [](const Event& event, Messages& messages, std::string&) {
            messages.emplace_back().message_id = event.event_id;
        };
        made.drain_limit = 10ms;
        return made;
    }

    Stage stage;

  private:
    std::atomic<bool> taken_{false};
};

}  // namespace

TEST_F(Ending, what_is_in_flight_is_dropped_before_the_lease_ends_even_while_the_reader_waits) {
    Pipeline pipeline(parts(true));
    pipeline.start();
    wait_until("a message is in flight and the reader waits",
               [&] { return stage.sent == 1 && stage.reader_stuck; });
    stage.lease_holds = false;
    wait_until("the sink is gone", [&] { return stage.dropped == 1; });
    stage.let_reader_go = true;
    wait_until("it stands by", [&] { return pipeline.status().state == PipelineState::standby; });
    EXPECT_EQ(stage.sent, 1);
}

TEST_F(Ending, a_sink_that_had_to_wait_learns_that_the_lease_is_over) {
    PipelineParts made = parts(false);
    made.open_sink = [this] { return std::make_unique<SlowSink>(stage); };
    Pipeline pipeline(std::move(made));
    pipeline.start();
    wait_until("the sink is gone", [&] { return stage.dropped == 1; });
    EXPECT_EQ(stage.sent, 0);
}

TEST_F(Ending, the_source_gets_to_know_what_the_sink_takes) {
    Pipeline pipeline(parts(false));
    pipeline.start();
    wait_until("the source knows", [&] { return stage.loads_at_most == 1000U; });
}

TEST_F(Ending, a_stop_does_not_wait_for_a_position_that_is_never_written) {
    Pipeline pipeline(parts(false));
    pipeline.start();
    wait_until("a message is in flight and the reader waits",
               [&] { return stage.sent == 1 && stage.reader_stuck; });
    pipeline.request_stop();
    wait_until("it has ended", [&] { return pipeline.ended(); });
    EXPECT_EQ(stage.dropped, 1);
}
