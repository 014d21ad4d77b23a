#pragma once
// A private PostgreSQL server in one folder: its data, its socket, its log, and a tree of links to the
// system's PostgreSQL in which baton's extension is installed. No system folder is touched.
//
//   D/baton.server   marks the folder as ours
//   D/root/          the server's own view of a PostgreSQL installation (links), with baton in it
//   D/data/          the cluster          D/log       the server's log
//   D/.s.PGSQL.PORT  the socket           D/password  for connections over TCP
//
// The server refuses to run as root, so for root it runs as `postgres` and the folder belongs to that account.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/process.hpp"

namespace baton::postgres {

class LocalServer {
  public:
    struct Options {
        std::filesystem::path folder;
        int port = 0;                       // 0: the one used before, or a free one
        bool with_extension = true;         // install the extension's files and preload the module
        bool preload = true;
        std::vector<std::string> settings;  // name=value
    };
    enum class Stop { fast, immediate };

    explicit LocalServer(Options options);

    // Make the cluster unless it is there. Leaves nothing behind when it fails.
    void create();
    // Start it and wait until it answers; recovers after a crash. No effect when it runs.
    void start();
    void stop(Stop mode = Stop::fast);
    void kill_hard();  // SIGKILL to the postmaster and its children: a crash
    bool running() const;

    bool exists() const;
    int port() const { return port_; }
    pid_t pid() const;
    const std::filesystem::path& folder() const { return options_.folder; }
    // Connection by the socket, as the superuser `postgres`.
    std::string url(const std::string& database = "postgres") const;
    // Connection over TCP with the password, for programs of the user.
    std::string tcp_url(const std::string& database) const;
    // The last lines of the server's log.
    std::string log_tail(int lines = 5) const;

    // Where this build's extension files are: PREFIX/share/baton and PREFIX/lib/.../baton.so.
    static std::filesystem::path share_folder();
    static std::filesystem::path module_file();
    static std::filesystem::path executable_folder();

  private:
    void make_root() const;
    void initialize_cluster() const;
    Outcome run_tool(const std::vector<std::string>& argv) const;
    void own(const std::filesystem::path& path) const;

    Options options_;
    std::optional<Account> account_;
    int port_ = 0;
};

}  // namespace baton::postgres
