#include "cli/terminal.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <map>
#include <sstream>

namespace baton::cli {

namespace {

// How a terminal spells a key: an arrow is ESC [ A, or ESC O A in application mode.
const std::map<std::string, Key> keys{
    {"q", Key::end},     {"\t", Key::tab},      {"\n", Key::enter},     {"\r", Key::enter},
    {"j", Key::down},    {"k", Key::up},        {"\177", Key::back},    {"\033", Key::back},
    {"\033[A", Key::up}, {"\033[B", Key::down}, {"\033[C", Key::right}, {"\033[D", Key::left},
    {"\033OA", Key::up}, {"\033OB", Key::down}, {"\033OC", Key::right}, {"\033OD", Key::left},
    {"\004", Key::end},  {"h", Key::left},      {"l", Key::right}};

}  // namespace

Terminal::Terminal() {
    ::tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    std::cout << "\033[?1049h\033[?25l" << std::flush;
}

Terminal::~Terminal() {
    std::cout << "\033[?25h\033[?1049l" << std::flush;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

Key Terminal::key(std::chrono::milliseconds patience) {
    if (typed_.empty()) {
        pollfd input{STDIN_FILENO, POLLIN, 0};
        if (::poll(&input, 1, static_cast<int>(patience.count())) <= 0) return Key::none;
        char typed[64];
        const ssize_t length = ::read(STDIN_FILENO, typed, sizeof typed);
        if (length <= 0) return Key::end;
        typed_.assign(typed, static_cast<std::size_t>(length));
    }
    return take();
}

// Take one key from what was typed. A sequence ends with its first letter; ESC alone is a key.
Key Terminal::take() {
    std::size_t length = 1;
    if (typed_.size() > 2 && typed_[0] == '\033' && (typed_[1] == '[' || typed_[1] == 'O')) {
        length = 2;
        while (length < typed_.size() && typed_[length] < '@') ++length;
        length = std::min(length + 1, typed_.size());
    }
    const auto known = keys.find(typed_.substr(0, length));
    typed_.erase(0, length);
    return known == keys.end() ? Key::other : known->second;
}

int Terminal::height() {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

void Terminal::show(const std::string& page) {
    std::istringstream lines(page);
    std::string line, shown = "\033[H";
    for (int row = 0; row < height() && std::getline(lines, line); ++row)
        shown += (row > 0 ? "\n" : "") + line + "\033[K";
    std::cout << shown << "\033[J" << std::flush;
}

}  // namespace baton::cli
