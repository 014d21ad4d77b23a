#pragma once
// SIGINT and SIGTERM as a question that a loop asks, instead of an end in the middle of something.

namespace baton::cli {

class StopSignal {
  public:
    // What a second signal does: nothing, where children or files have to be cleared away, or end the process
    // at once.
    enum class Second { waits, ends };

    // From now on the two signals only set a mark; the destructor gives them back.
    explicit StopSignal(Second second = Second::waits);
    ~StopSignal();
    StopSignal(const StopSignal&) = delete;
    StopSignal& operator=(const StopSignal&) = delete;

    bool requested() const;
    // Throws Error when a stop was asked for: between two steps of something that cleans up after itself.
    void check() const;
    // Sleep a little; a signal ends it early.
    void wait_a_moment() const;
};

}  // namespace baton::cli
