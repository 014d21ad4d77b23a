#include "base/process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "baton/error.hpp"

namespace baton {

namespace {

int exit_code_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Open a file for appending; -1 when none is wanted.
int open_for_append(const std::optional<std::filesystem::path>& path) {
    if (!path) return -1;
    const int file = ::open(path->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) throw Error("cannot open " + path->string() + ": " + std::strerror(errno));
    return file;
}

// A file descriptor that is closed at the end of its scope.
struct Descriptor {
    int number;
    explicit Descriptor(int opened) : number(opened) {}
    ~Descriptor() {
        if (number >= 0) ::close(number);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
};

// Fork and exec; output_fd >= 0 takes stdout and stderr. A failure to exec reports errno through a pipe.
pid_t spawn(const Command& command, int output_fd) {
    const Descriptor errors(open_for_append(command.errors));
    std::vector<char*> argv;
    for (const auto& word : command.argv) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    // Each name once: of two values shells take the last, others the first.
    std::map<std::string, std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view variable(*entry);
        const auto name = variable.substr(0, variable.find('='));
        variables.emplace(name, variable);
    }
    for (const auto& [name, value] : command.environment) variables[name] = name + "=" + value;
    std::vector<char*> envp;
    for (auto& [_, variable] : variables) envp.push_back(variable.data());
    envp.push_back(nullptr);

    std::array<int, 2> report{};
    if (::pipe2(report.data(), O_CLOEXEC) != 0)
        throw Error("cannot make a pipe: " + std::string(std::strerror(errno)));
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) throw Error("cannot start " + command.argv[0] + ": " + std::strerror(errno));
    if (pid == 0) {
        if (output_fd >= 0) {
            ::dup2(output_fd, STDOUT_FILENO);
            ::dup2(output_fd, STDERR_FILENO);
        }
        if (errors.number >= 0) ::dup2(errors.number, STDERR_FILENO);
        bool ready = true;
        if (command.account)
            ready = ::setgroups(0, nullptr) == 0 && ::setgid(command.account->gid) == 0 &&
                    ::setuid(command.account->uid) == 0;
        // After the change of account, which clears it.
        if (ready && command.dies_with_us)
            ready = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent;
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

std::string account_name(uid_t uid) {
    if (const passwd* entry = ::getpwuid(uid)) return entry->pw_name;
    return std::to_string(uid);
}

Outcome run(const Command& command) {
    std::array<int, 2> channel{};
    if (::pipe2(channel.data(), O_CLOEXEC) != 0)
        throw Error("cannot make a pipe: " + std::string(std::strerror(errno)));
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
    const Descriptor output(open_for_append(command.output));
    pid_ = spawn(command, output.number);
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

bool process_alive(pid_t pid) {
    if (pid <= 0 || (::kill(pid, 0) != 0 && errno != EPERM)) return false;
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(file, line);
    const auto name_end = line.rfind(')');  // the name may hold anything, brackets too
    return name_end == std::string::npos || line.compare(name_end, 3, ") Z") != 0;
}

std::vector<std::string> command_line_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
    return words;
}

namespace {

// Bind a listener on loopback; returns the port it got, or empty when that one is taken.
std::optional<int> bind_loopback(int port) {
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int reuse = 1;  // as the server does: a port in TIME_WAIT is free
    if (port != 0) ::setsockopt(listener.number, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t length = sizeof address;
    if (::bind(listener.number, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener.number, 1) != 0 ||
        ::getsockname(listener.number, reinterpret_cast<sockaddr*>(&address), &length) != 0)
        return std::nullopt;
    return ntohs(address.sin_port);
}

}  // namespace

int find_free_port() {
    if (const auto port = bind_loopback(0)) return *port;
    throw Error("no free port on loopback: " + std::string(std::strerror(errno)));
}

bool port_is_free(int port) {
    return bind_loopback(port).has_value() || errno != EADDRINUSE;
}

}  // namespace baton
