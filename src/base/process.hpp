#pragma once
// Child processes: run one to its end, or start one and stop it by its pid.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace baton {

// Which account a child runs under.
struct Account {
    uid_t uid;
    gid_t gid;
};

// Look up an account by name; empty when the system has none.
std::optional<Account> find_account(const std::string& name);
// An account's name, or its number where it has none.
std::string account_name(uid_t uid);

struct Command {
    std::vector<std::string> argv;
    std::optional<Account> account = {};               // default: the caller's
    std::optional<std::filesystem::path> output = {};  // stdout and stderr go here, appended
    std::optional<std::filesystem::path> working_directory = {};
    std::vector<std::pair<std::string, std::string>> environment = {};  // added to the caller's
    std::optional<std::filesystem::path> errors = {};                   // stderr goes here instead, appended
    bool dies_with_us = false;  // the child is killed when the thread that started it ends
};

struct Outcome {
    int exit_code;       // 128 + signal when a signal killed the child
    std::string output;  // stdout and stderr together
};

// Run a command to its end and collect the output. Throws Error when the command cannot be started.
Outcome run(const Command& command);

// A child process that was started. The destructor kills and reaps the child.
class Process {
  public:
    explicit Process(const Command& command);
    ~Process();
    Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
    Process& operator=(Process&& other) noexcept;
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    pid_t pid() const { return pid_; }
    bool running();
    void signal(int number) const;
    // Wait for the end of the child; empty when the child still runs after the time given.
    std::optional<int> wait(std::chrono::milliseconds timeout);
    // Send SIGTERM, then SIGKILL after the grace time. Returns the exit code.
    int stop(std::chrono::milliseconds grace = std::chrono::seconds(10));
    // Forget the child, which goes on without us.
    void release() { pid_ = -1; }

  private:
    pid_t pid_;
    std::optional<int> exit_code_;
};

// True while the process exists and has not ended (one that nobody has reaped yet has ended).
bool process_alive(pid_t pid);
// The words with which a process was started; empty when the process is gone or hidden from us.
std::vector<std::string> command_line_of(pid_t pid);

// A TCP port on loopback that was free a moment ago.
int find_free_port();
// True when a server could listen on that port of loopback now.
bool port_is_free(int port);

}  // namespace baton
