#pragma once
// The demo on the terminal: a picture that is drawn anew in its place, or a line per second on a plain
// screen.

#include <chrono>
#include <deque>
#include <string>
#include <vector>

namespace baton::cli {

// 12345 as 12,345.
std::string grouped(long number);

// What the demo shows at one moment.
struct DemoView {
    double seconds = 0;
    double of = 0;
    int writers = 0;
    long placed = 0, changed = 0, paid = 0, cancelled = 0, rolled_back = 0;
    long committed = 0, filed = 0, received = 0, handled = 0;
    double p50 = 0, p99 = 0;  // of the file, in milliseconds
};

class DemoScreen {
  public:
    DemoScreen();
    ~DemoScreen();
    DemoScreen(const DemoScreen&) = delete;
    DemoScreen& operator=(const DemoScreen&) = delete;

    // Draw. A plain screen prints only once a second.
    void show(const DemoView& view);
    // Say what has just happened.
    void tell(double seconds, const std::string& what);
    // Leave the picture as it is. Later text is printed below.
    void finish(const DemoView& view);

    bool colored() const { return tty_; }

  private:
    struct Rates {
        double committed = 0, filed = 0, received = 0, handled = 0;
    };
    void measure(const DemoView& view);
    std::vector<std::string> picture(const DemoView& view) const;
    void draw(const DemoView& view);
    void print_line(const DemoView& view);
    std::string style(const char* code, const std::string& text) const;

    bool tty_;
    std::size_t drawn_ = 0;  // lines of the picture that stand on the terminal
    std::deque<DemoView> past_;
    std::deque<double> history_;
    Rates rates_;
    std::deque<std::string> told_;
    double printed_at_ = -1;
};

}  // namespace baton::cli
