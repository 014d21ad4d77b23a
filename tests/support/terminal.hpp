#pragma once
// A terminal with a shell in it, in which a test types and reads what is on the screen: tmux.

#include <string>
#include <vector>

#include "support/program.hpp"

namespace baton::test {

class Terminal {
  public:
    // The shell has these variables, and the program that was built on its path.
    explicit Terminal(const Environment& environment = {}, int width = 80, int height = 24);
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    // Type text as it stands.
    void type(const std::string& text) const;
    // Press keys by tmux's names: Enter, Tab, Escape, Up, Down, C-c.
    void press(const std::vector<std::string>& keys) const;
    // Type a line and Enter.
    void enter(const std::string& line) const;

    // What is on the screen, line by line; with colours as escape sequences of SGR.
    std::string screen() const;
    std::string coloured() const;
    // Wait until these words are on the screen, or are gone from it. Throws Error with the screen.
    void wait_for(const std::string& words) const;
    void wait_until_gone(const std::string& words) const;

  private:
    std::string tmux(std::vector<std::string> words) const;
    void wait(const std::string& words, bool there) const;

    TemporaryFolder folder_;
    Environment environment_;
};

}  // namespace baton::test
