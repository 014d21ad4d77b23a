#include "brokers/mqtt/tests/server.hpp"

#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "support/cluster.hpp"

namespace fs = std::filesystem;

namespace baton::test {

MosquittoServer::MosquittoServer() : Broker("mosquitto") {}

Command MosquittoServer::command() {
    if (!fs::exists(folder() / "access")) write_access("");
    std::ofstream(folder() / "passwords").close();
    for (const auto& [name, password] : users)
        run({{"mosquitto_passwd", "-b", (folder() / "passwords").string(), name, password}});
    std::ofstream configuration(folder() / "mosquitto.conf");
    configuration << "listener " << port() << " 127.0.0.1\nuser root\nallow_anonymous true\n"
                  << "password_file " << (folder() / "passwords").string() << "\nacl_file "
                  << (folder() / "access").string() << "\npid_file " << (folder() / "pid").string()
                  << "\npersistence true\npersistence_location " << folder().string()
                  << "/\nmax_inflight_messages 0\nmax_queued_messages 0\n";
    for (const auto& line : settings) configuration << line << "\n";
    configuration.close();
    Command how;
    // Debian has it where an ordinary user's PATH does not lead.
    const char* debians = "/usr/sbin/mosquitto";
    how.argv = {fs::exists(debians) ? debians : "mosquitto", "-c", (folder() / "mosquitto.conf").string()};
    return how;
}

bool MosquittoServer::ready() {
    return log_contains(" running") && accepts_connections(port());
}

// Rights are patterns: of those that are tied to a user, mosquitto 2.0 knows nothing after a restart until
// the client comes back, and throws away what is published for the client meanwhile.
void MosquittoServer::write_access(const std::string& denied) const {
    std::ofstream file(folder() / "access");
    if (!denied.empty()) {
        file << "topic deny " << denied << "\n";
        for (const auto& [name, password] : users)
            file << "user " << name << "\ntopic deny " << denied << "\n";
    }
    file << "pattern readwrite #\n";
}

void MosquittoServer::signal(int number) const {
    int pid = 0;
    std::ifstream(folder() / "pid") >> pid;
    if (pid > 0) ::kill(pid, number);
}

void MosquittoServer::deny(const std::string& topic) {
    write_access(topic);
    signal(SIGHUP);
}

// The server writes its database anew when it is asked to. The file is a list of pieces, each with a kind, a
// length and its bytes; a piece of kind 3 is a message that waits for a client, whose id it ends with.
std::size_t MosquittoServer::held(const std::string& client_id) {
    const fs::path file = folder() / "mosquitto.db";
    struct stat before {};
    ::stat(file.c_str(), &before);
    signal(SIGUSR1);
    wait_until("mosquitto has written its database", [&] {
        struct stat now {};
        return ::stat(file.c_str(), &now) == 0 &&
               (now.st_ino != before.st_ino || now.st_mtim.tv_nsec != before.st_mtim.tv_nsec);
    });
    std::ostringstream content;
    content << std::ifstream(file, std::ios::binary).rdbuf();
    const std::string bytes = content.str();
    const auto number = [&bytes](std::size_t at) {
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
        return value;
    };
    constexpr std::size_t head = 15 + 4 + 4;  // what the file begins with
    std::size_t count = 0;
    for (std::size_t at = head; at + 8 <= bytes.size(); at += 8 + number(at + 4))
        if (number(at) == 3 && bytes.substr(at + 8, number(at + 4)).ends_with(client_id)) ++count;
    return count;
}

}  // namespace baton::test
