#include "support/broker.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

namespace fs = std::filesystem;

namespace baton::test {

namespace {

// A JVM on a machine with far more to do than cores needs minutes.
constexpr auto patience = std::chrono::seconds(300);

// Let a broker die with the test that started it, even when that is killed.
Command bound_to_us(Command command) {
    command.argv.insert(command.argv.begin(), {"setpriv", "--pdeathsig", "KILL"});
    return command;
}

fs::path make_broker_folder(const std::string& name) {
    std::string pattern = (fs::temp_directory_path() / ("baton-" + name + "-XXXXXX")).string();
    if (::mkdtemp(pattern.data()) == nullptr)
        throw Error("cannot make a folder below the temporary directory");
    return pattern;
}

}  // namespace

void announce_skip(const std::string& why) {
    std::cerr << "\n*** SUITE SKIPPED: " << why << " ***\n" << std::endl;
}

bool accepts_connections(int port) {
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const bool accepted = ::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(client);
    return accepted;
}

Broker::Broker(const std::string& name) : name_(name), folder_(make_broker_folder(name)) {}

Broker::~Broker() {
    process_.reset();
    std::error_code ignored;
    if (std::getenv("BATON_KEEP") == nullptr) fs::remove_all(folder_, ignored);
}

void Broker::start() {
    const auto end = std::chrono::steady_clock::now() + patience;
    // A port that was free may be taken by the time the server binds it: a first start takes others then,
    // a later one waits until it is free again.
    while (std::chrono::steady_clock::now() < end) {
        if (!started_before_) {
            choose_ports();
            prepare();
        }
        std::error_code none;
        const auto size = fs::file_size(log_file(), none);
        log_from_ = none ? 0 : size;
        Command how = bound_to_us(command());
        how.output = log_file();
        process_.emplace(how);
        while (process_->running() && std::chrono::steady_clock::now() < end) {
            if (ready()) {
                started_before_ = true;
                return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    }
    throw Error(name_ + " does not start: " + log_tail());
}

void Broker::stop() {
    if (process_) process_->stop(std::chrono::seconds(30));
    process_.reset();
}

void Broker::kill_hard() {
    if (process_) {
        process_->signal(SIGKILL);
        process_->wait(patience);
    }
    process_.reset();
}

void Broker::pause() const {
    if (process_) process_->signal(SIGSTOP);
}

void Broker::resume() const {
    if (process_) process_->signal(SIGCONT);
}

std::string Broker::log_tail(int lines) const {
    std::ifstream file(log_file());
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    std::string tail;
    const std::size_t count = static_cast<std::size_t>(lines);
    for (std::size_t i = all.size() > count ? all.size() - count : 0; i < all.size(); ++i)
        tail += all[i] + "\n";
    return tail;
}

bool Broker::log_contains(const std::string& text) const {
    std::ifstream file(log_file());
    file.seekg(static_cast<std::streamoff>(log_from_));
    std::ostringstream content;
    content << file.rdbuf();
    return content.str().find(text) != std::string::npos;
}

}  // namespace baton::test
