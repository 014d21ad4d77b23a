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

struct Command {
    std::vector<std::string> argv;
    std::optional<Account> account;                            // default: the caller's
    std::optional<std::filesystem::path> output;               // stdout and stderr go here, appended
    std::optional<std::filesystem::path> working_directory;
    std::vector<std::pair<std::string, std::string>> environment;  // added to the caller's
};

struct Outcome {
    int exit_code;       // 128 + signal when it was killed
    std::string output;  // stdout and stderr together
};

// Run to the end and collect the output. Throws Error when it cannot be started.
Outcome run(const Command& command);

// A started child. Its destructor kills and reaps it.
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
    // Wait for its end; empty when it still runs after the time given.
    std::optional<int> wait(std::chrono::milliseconds timeout);
    // SIGTERM, then SIGKILL after the grace time; returns its exit code.
    int stop(std::chrono::milliseconds grace = std::chrono::seconds(10));
    // Forget the child: it goes on without us.
    void release() { pid_ = -1; }

  private:
    pid_t pid_;
    std::optional<int> exit_code_;
};

// A TCP port on loopback that was free a moment ago.
int find_free_port();

}  // namespace baton
