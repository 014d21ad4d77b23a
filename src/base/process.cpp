#include "base/process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "baton/error.hpp"

extern char** environ;

namespace baton {

namespace {

int exit_code_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Fork and exec; output_fd >= 0 takes stdout and stderr. A failure to exec reports errno through a pipe.
pid_t spawn(const Command& command, int output_fd) {
    std::vector<char*> argv;
    for (const auto& word : command.argv) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
    for (const auto& [name, value] : command.environment) environment.push_back(name + "=" + value);
    std::vector<char*> envp;
    for (auto it = environment.rbegin(); it != environment.rend(); ++it) envp.push_back(it->data());
    envp.push_back(nullptr);

    std::array<int, 2> report{};
    if (::pipe2(report.data(), O_CLOEXEC) != 0) throw Error("cannot make a pipe: " + std::string(std::strerror(errno)));
    const pid_t pid = ::fork();
    if (pid < 0) throw Error("cannot start " + command.argv[0] + ": " + std::strerror(errno));
    if (pid == 0) {
        if (output_fd >= 0) {
            ::dup2(output_fd, STDOUT_FILENO);
            ::dup2(output_fd, STDERR_FILENO);
        }
        bool ready = true;
        if (command.account)
            ready = ::setgroups(0, nullptr) == 0 && ::setgid(command.account->gid) == 0 &&
                    ::setuid(command.account->uid) == 0;
        if (ready && command.working_directory) ready = ::chdir(command.working_directory->c_str()) == 0;
        if (ready) ::execvpe(argv[0], argv.data(), envp.data());
        const int error = errno;
        [[maybe_unused]] const auto written = ::write(report[1], &error, sizeof error);
        ::_exit(127);
    }
    ::close(report[1]);
    int error = 0;
    const auto got = ::read(report[0], &error, sizeof error);
    ::close(report[0]);
    if (got == sizeof error) {
        ::waitpid(pid, nullptr, 0);
        throw Error("cannot start " + command.argv[0] + ": " + std::strerror(error));
    }
    return pid;
}

}  // namespace

std::optional<Account> find_account(const std::string& name) {
    if (const passwd* entry = ::getpwnam(name.c_str())) return Account{entry->pw_uid, entry->pw_gid};
    return std::nullopt;
}

Outcome run(const Command& command) {
    std::array<int, 2> channel{};
    if (::pipe2(channel.data(), O_CLOEXEC) != 0) throw Error("cannot make a pipe: " + std::string(std::strerror(errno)));
    pid_t pid = -1;
    try {
        pid = spawn(command, channel[1]);
    } catch (...) {
        ::close(channel[0]);
        ::close(channel[1]);
        throw;
    }
    ::close(channel[1]);
    Outcome outcome{0, {}};
    std::array<char, 4096> buffer{};
    for (;;) {
        const auto got = ::read(channel[0], buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        outcome.output.append(buffer.data(), static_cast<std::size_t>(got));
    }
    ::close(channel[0]);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    outcome.exit_code = exit_code_of(status);
    return outcome;
}

Process::Process(const Command& command) : pid_(-1) {
    int output = -1;
    if (command.output) {
        output = ::open(command.output->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (output < 0) throw Error("cannot open " + command.output->string() + ": " + std::strerror(errno));
    }
    try {
        pid_ = spawn(command, output);
    } catch (...) {
        if (output >= 0) ::close(output);
        throw;
    }
    if (output >= 0) ::close(output);
}

Process::~Process() {
    if (pid_ > 0 && !exit_code_) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
}

Process& Process::operator=(Process&& other) noexcept {
    std::swap(pid_, other.pid_);
    std::swap(exit_code_, other.exit_code_);
    return *this;
}

bool Process::running() {
    return !wait(std::chrono::milliseconds(0));
}

void Process::signal(int number) const {
    if (pid_ > 0 && !exit_code_) ::kill(pid_, number);
}

std::optional<int> Process::wait(std::chrono::milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!exit_code_ && pid_ > 0) {
        int status = 0;
        const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
        if (reaped == pid_) {
            exit_code_ = exit_code_of(status);
        } else if (std::chrono::steady_clock::now() >= deadline) {
            break;
        } else {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    }
    return exit_code_;
}

int Process::stop(std::chrono::milliseconds grace) {
    signal(SIGTERM);
    if (const auto code = wait(grace)) return *code;
    signal(SIGKILL);
    return wait(std::chrono::hours(1)).value_or(-1);
}

int find_free_port() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    const bool bound = ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                       ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    ::close(listener);
    if (!bound) throw Error("no free port on loopback: " + std::string(std::strerror(errno)));
    return ntohs(address.sin_port);
}

}  // namespace baton
