#pragma once
// A terminal that a command has for itself: another screen, keys one by one.

#include <termios.h>

#include <chrono>
#include <string>

namespace baton::cli {

enum class Key { none, up, down, left, right, tab, enter, back, end, other };

class Terminal {
  public:
    // The destructor gives the terminal back as it was.
    Terminal();
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    // The next key; none when nothing is typed within this time. Keys that were typed together come one by
    // one.
    Key key(std::chrono::milliseconds patience);
    static int height();
    // Show these lines, and nothing else.
    static void show(const std::string& page);

  private:
    Key take();

    termios before_{};
    std::string typed_;
};

}  // namespace baton::cli
