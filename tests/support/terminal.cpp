#include "support/terminal.hpp"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "baton/error.hpp"
#include "support/cluster.hpp"

namespace baton::test {

// The server of tmux hands on the environment of the client that starts it.
Terminal::Terminal(const Environment& environment, int width, int height)
    : environment_{{"PATH", program_file().parent_path().string() + ":" + std::getenv("PATH")},
                   {"PS1", "$ "},
                   {"LC_ALL", "C.UTF-8"},
                   {"TERM", "xterm-256color"},
                   {"NO_COLOR", ""},
                   {"TMUX", ""}} {
    std::vector<std::string> words{"-f", "/dev/null",           "-u", "new-session",         "-d",
                                   "-x", std::to_string(width), "-y", std::to_string(height)};
    environment_.insert(environment_.end(), environment.begin(), environment.end());
    words.insert(words.end(), {"bash", "--norc", "--noprofile"});
    tmux(words);
    tmux({"set-option", "-g", "status", "off"});
    tmux({"set-option", "-g", "escape-time", "0"});
    tmux({"resize-window", "-x", std::to_string(width), "-y", std::to_string(height)});
    wait_for("$");
}

Terminal::~Terminal() {
    try {
        tmux({"kill-server"});
    } catch (const std::exception&) {  // it has ended
    }
}

std::string Terminal::tmux(std::vector<std::string> words) const {
    words.insert(words.begin(), {"tmux", "-S", (folder_ / "tmux").string()});
    const auto outcome = run({.argv = words, .environment = environment_});
    if (outcome.exit_code != 0) throw Error("tmux " + words[3] + ": " + outcome.output);
    return outcome.output;
}

void Terminal::type(const std::string& text) const {
    tmux({"send-keys", "-l", text});
}

void Terminal::press(const std::vector<std::string>& keys) const {
    std::vector<std::string> words{"send-keys"};
    words.insert(words.end(), keys.begin(), keys.end());
    tmux(words);
}

void Terminal::enter(const std::string& line) const {
    type(line);
    press({"Enter"});
}

// A look costs a process: not too many a second.
std::string Terminal::screen() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return tmux({"capture-pane", "-p"});
}

std::string Terminal::coloured() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return tmux({"capture-pane", "-p", "-e"});
}

void Terminal::wait_for(const std::string& words) const {
    wait(words, true);
}

void Terminal::wait_until_gone(const std::string& words) const {
    wait(words, false);
}

void Terminal::wait(const std::string& words, bool there) const {
    try {
        wait_until(
            "\"" + words + "\" is " + (there ? "there" : "gone"),
            [&] { return (screen().find(words) != std::string::npos) == there; }, std::chrono::minutes(3));
    } catch (const Error& error) {
        throw Error(error.what() + std::string("; the screen:\n") + screen());
    }
}

}  // namespace baton::test
