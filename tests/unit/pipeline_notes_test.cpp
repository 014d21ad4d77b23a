// When a relay notes its pipelines, and what it says of them.

#include <gtest/gtest.h>

#include "cli/relay_notes.hpp"

namespace baton::cli {
namespace {

using namespace std::chrono_literals;
using relay::PipelineState;
using relay::PipelineStatus;

PipelineStatus pipeline(std::uint64_t delivered, PipelineState state = PipelineState::running) {
    PipelineStatus status;
    status.name = "out";
    status.group = "g";
    status.state = state;
    status.counts.delivered = delivered;
    return status;
}

const PipelineNotes::Time start{1h};

TEST(PipelineNotes, are_due_every_few_seconds_and_at_once_when_a_state_changes) {
    PipelineNotes notes;
    EXPECT_TRUE(notes.due({pipeline(0)}, start));
    notes.written({pipeline(0)}, start);
    EXPECT_FALSE(notes.due({pipeline(100)}, start + 4s));
    EXPECT_TRUE(notes.due({pipeline(0)}, start + 5s));
    EXPECT_TRUE(notes.due({pipeline(100, PipelineState::retrying)}, start + 1s));
    EXPECT_TRUE(notes.due({}, start + 1s));
    auto troubled = pipeline(100);
    troubled.trouble = "timed out";
    EXPECT_TRUE(notes.due({troubled}, start + 1s));
    notes.written({troubled}, start + 1s);
    troubled.trouble = "timed out after 2 s";
    EXPECT_FALSE(notes.due({troubled}, start + 2s));
    EXPECT_TRUE(notes.due({pipeline(100)}, start + 2s));
    notes.forget();
    EXPECT_TRUE(notes.due({troubled}, start + 2s));
}

TEST(PipelineNotes, of_a_relay_without_pipelines_are_written_once) {
    PipelineNotes notes;
    EXPECT_TRUE(notes.due({}, start));
    notes.written({}, start);
    EXPECT_FALSE(notes.due({}, start + 1h));
}

TEST(PipelineNotes, say_what_was_counted_and_for_how_long) {
    PipelineNotes notes;
    auto status = pipeline(7);
    status.counts.retried = 1;
    status.counts.parked = 2;
    status.counts.dead = 3;
    status.buffered = 4;
    status.counts.latency.add(0.003);
    const auto first = notes.written({status}, start);
    EXPECT_EQ(first[0]["pipeline"], "out");
    EXPECT_EQ(first[0]["delivered"], 7);
    EXPECT_EQ(first[0]["failed"], 6);
    EXPECT_EQ(first[0]["buffered"], 4);
    EXPECT_EQ(first[0]["latency"].size(), relay::latency_bounds.size() + 1);
    EXPECT_EQ(first[0]["latency"][2], 1);
    EXPECT_EQ(first[0]["seconds"], 0);
    EXPECT_EQ(notes.written({status}, start + 9s)[0]["seconds"], 9);
    // One that is made anew counts from when it was seen last.
    EXPECT_EQ(notes.written({pipeline(2)}, start + 12s)[0]["seconds"], 3);
    EXPECT_EQ(notes.written({pipeline(2)}, start + 20s)[0]["seconds"], 11);
}

}  // namespace
}  // namespace baton::cli
