#pragma once
// Decides when a relay writes down what hinders it: when a trouble has lasted a moment, when it changes and
// when it is over. Words that change all the time are written every ten seconds at most.

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace baton::cli {

struct Trouble {
    std::string pipeline;  // empty: the relay as a whole
    std::string group;
    std::string state;
    std::string words;
    bool operator==(const Trouble&) const = default;
};

class TroubleNotes {
  public:
    using Time = std::chrono::steady_clock::time_point;

    static constexpr auto lasts = std::chrono::seconds(1);
    static constexpr auto pause = std::chrono::seconds(10);
    // For who must renew its notes: behind a pooler.
    static constexpr auto lease = std::chrono::seconds(30);

    // What is to be written now, all of it; nothing when the database knows.
    std::optional<std::vector<Trouble>> due(const std::vector<Trouble>& now, Time at, bool renew);
    void written(std::vector<Trouble> all, Time at);
    // The session ended, and what it wrote counts no more.
    void forget() { lost_ = true; }

  private:
    std::map<std::string, Time> begun_;
    std::vector<Trouble> written_;
    Time written_at_{};
    bool lost_ = false;
};

}  // namespace baton::cli
