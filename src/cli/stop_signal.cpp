#include "cli/stop_signal.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "baton/error.hpp"

namespace baton::cli {

namespace {

std::atomic<bool> stop_requested{false};
std::atomic<bool> second_ends{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int number) {
    if (stop_requested.exchange(true) && second_ends) ::_exit(128 + number);
}

void set_handler(void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal(Second second) {
    stop_requested = false;
    second_ends = second == Second::ends;
    set_handler(&on_signal);
}

StopSignal::~StopSignal() {
    set_handler(SIG_DFL);
}

bool StopSignal::requested() const {
    return stop_requested;
}

void StopSignal::check() const {
    if (stop_requested) throw Error("interrupted");
}

void StopSignal::wait_a_moment() const {
    const timespec moment{0, 100'000'000};
    ::nanosleep(&moment, nullptr);
}

}  // namespace baton::cli
