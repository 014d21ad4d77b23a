#include "cli/demo_screen.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace baton::cli {

namespace {

constexpr std::size_t bar_width = 30;
constexpr std::size_t curve_width = 24;
constexpr std::size_t told_lines = 5;

std::string repeat(const char* text, std::size_t times) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += text;
    return all;
}

// A row of little columns, the highest for the highest rate.
std::string curve(const std::deque<double>& values) {
    constexpr const char* columns[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const double top = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
    std::string drawn;
    for (const double value : values)
        drawn += columns[top > 0 ? static_cast<std::size_t>(value / top * 7.0) : 0];
    return drawn;
}

}  // namespace

std::string grouped(long number) {
    std::string text = std::to_string(number);
    for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
        text.insert(static_cast<std::size_t>(at), ",");
    return text;
}

DemoScreen::DemoScreen() : tty_(::isatty(STDOUT_FILENO) == 1) {
    if (tty_) std::fputs("\033[?25l", stdout);
}

DemoScreen::~DemoScreen() {
    if (tty_) std::fputs("\033[?25h", stdout);
    std::fflush(stdout);
}

std::string DemoScreen::style(const char* code, const std::string& text) const {
    return tty_ ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

void DemoScreen::tell(double seconds, const std::string& what) {
    const std::string line = fmt::format("  {:5.1f} s  {}", seconds, what);
    if (!tty_) {
        fmt::print("{}\n", line);
        return;
    }
    told_.push_back(line);
    if (told_.size() > told_lines) told_.pop_front();
}

// Rates over the last second or so.
void DemoScreen::measure(const DemoView& view) {
    past_.push_back(view);
    while (past_.size() > 2 && view.seconds - past_.front().seconds > 1.0) past_.pop_front();
    const DemoView& then = past_.front();
    const double time = view.seconds - then.seconds;
    if (time <= 0) return;
    const auto rate = [time](long now, long before) { return static_cast<double>(now - before) / time; };
    rates_ = {rate(view.committed, then.committed), rate(view.filed, then.filed),
              rate(view.received, then.received), rate(view.handled, then.handled)};
    const double step = view.of / curve_width;
    while (static_cast<double>(history_.size()) * step < std::min(view.seconds, view.of))
        history_.push_back(rates_.committed);
}

std::vector<std::string> DemoScreen::picture(const DemoView& view) const {
    const double part = std::clamp(view.seconds / view.of, 0.0, 1.0);
    const auto filled = static_cast<std::size_t>(part * bar_width);
    std::vector<std::string> lines;
    lines.push_back("");
    lines.push_back(
        fmt::format("  {}  a small shop, its outbox and where the events go", style("1", "baton")));
    lines.push_back(fmt::format("  {}{}  {:.1f} of {:.0f} s", style("32", repeat("━", filled)),
                                style("90", repeat("━", bar_width - filled)), std::min(view.seconds, view.of),
                                view.of));
    lines.push_back("");
    lines.push_back(fmt::format("  {}     {} writers   placed {}   changed {}   paid {}   cancelled {}",
                                style("1", "shop"), view.writers, grouped(view.placed), grouped(view.changed),
                                grouped(view.paid), grouped(view.cancelled)));
    lines.push_back(style("90", fmt::format("           rolled back {} events, which nobody may ever see",
                                            grouped(view.rolled_back))));
    lines.push_back("");
    lines.push_back(style("90", fmt::format("  {:<28}{:>9}{:>9}{:>9}", "", "events", "per s", "behind")));
    const auto row = [&](const char* name, const char* what, long count, double rate, long behind,
                         const std::string& more) {
        const std::string late = count == view.committed && behind == 0 ? "-" : grouped(std::max(behind, 0L));
        lines.push_back(fmt::format("  {}{:<20}{:>9}{:>9}{:>9}   {}", style("1", fmt::format("{:<8}", name)),
                                    what, grouped(count), grouped(static_cast<long>(rate)), late, more));
    };
    row("outbox", "shop.events", view.committed, rates_.committed, 0, style("36", curve(history_)));
    row("file", "shop.jsonl", view.filed, rates_.filed, view.committed - view.filed,
        view.filed > 0 ? fmt::format("p50 {:.1f} ms  p99 {:.1f} ms", view.p50, view.p99) : "");
    row("inbox", "shop.accounting", view.received, rates_.received, view.committed - view.received, "");
    row("handler", "shop.books", view.handled, rates_.handled, view.received - view.handled, "");
    lines.push_back("");
    for (std::size_t i = 0; i < told_lines; ++i)
        lines.push_back(i < told_.size() ? style("33", told_[i]) : "");
    return lines;
}

void DemoScreen::draw(const DemoView& view) {
    const auto lines = picture(view);
    std::string out = drawn_ > 0 ? fmt::format("\033[{}A", drawn_) : "";
    for (const auto& line : lines) out += "\r" + line + "\033[K\n";
    drawn_ = lines.size();
    std::fputs(out.c_str(), stdout);
    std::fflush(stdout);
}

void DemoScreen::print_line(const DemoView& view) {
    fmt::print(
        "  {:5.1f} s  committed {} ({}/s)  file {} ({} behind)  inbox {} ({} behind)  handled {}  rolled "
        "back {}\n",
        view.seconds, view.committed, static_cast<long>(rates_.committed), view.filed,
        std::max(view.committed - view.filed, 0L), view.received,
        std::max(view.committed - view.received, 0L), view.handled, view.rolled_back);
    std::fflush(stdout);
}

void DemoScreen::show(const DemoView& view) {
    measure(view);
    if (tty_) {
        draw(view);
    } else if (view.seconds - printed_at_ >= 1) {
        printed_at_ = view.seconds;
        print_line(view);
    }
}

void DemoScreen::finish(const DemoView& view) {
    measure(view);
    if (tty_) {
        draw(view);
    } else {
        print_line(view);
    }
}

}  // namespace baton::cli
