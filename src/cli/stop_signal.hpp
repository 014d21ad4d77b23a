#pragma once
// SIGINT and SIGTERM only set a mark, for which a loop asks. So they end nothing in the middle.

namespace baton::cli {

class StopSignal {
  public:
    // What a second signal does: nothing, where children or files have to be cleared away first, or it ends
    // the process at once.
    enum class Second { waits, ends };

    // From now on the two signals only set a mark. The destructor restores what they did before.
    explicit StopSignal(Second second = Second::waits);
    ~StopSignal();
    StopSignal(const StopSignal&) = delete;
    StopSignal& operator=(const StopSignal&) = delete;

    bool requested() const;
    // Throws Error when a stop was asked for. Call this between two steps of work that cleans up after
    // itself.
    void check() const;
    // Sleep a little. A signal ends the sleep early.
    void wait_a_moment() const;
};

}  // namespace baton::cli
