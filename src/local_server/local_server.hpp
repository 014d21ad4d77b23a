#pragma once
// A private PostgreSQL server in one folder: its data, its socket, its log, and a tree of links to the
// system's PostgreSQL in which baton's extension is installed. No system folder is touched.
//
//   D/baton.server   marks the folder as ours; holds the port
//   D/baton.creating is there until the cluster is whole: when a creation was killed, the next one begins
//   anew D/root/          the server's own view of a PostgreSQL installation (links), with baton in it
//   D/data/          the cluster          D/log       the server's log
//   D/.s.PGSQL.PORT  the socket           D/password  for connections over TCP
//
// PostgreSQL refuses to run as root. When root starts the server, it runs as `postgres` and the folder
// belongs to this account. Failures throw Error with a hint. When create() fails, it leaves nothing behind.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/process.hpp"
#include "local_server/server_root.hpp"

namespace baton::local_server {

class LocalServer {
  public:
    struct Options {
        std::filesystem::path folder;
        int port = 0;                // 0: the port that was used before, or a free port
        bool with_extension = true;  // install the extension's files and preload the module
        bool preload = true;
        std::vector<std::string> settings;  // name=value
        std::filesystem::path programs =
            {};  // of another PostgreSQL than the system's; then without extension
    };
    enum class Stop { fast, immediate };

    // Throws UsageError when the folder cannot serve, because of its path or because the caller may not look
    // into it.
    explicit LocalServer(Options options);

    // Keep other processes from creating, starting or stopping this server. Makes the folder when it is
    // missing.
    FolderLock lock();
    // Make the cluster unless there is one; true when it was made.
    bool create();
    // Start the server and wait until it answers. Recovers after a crash. No effect on a server that runs.
    void start();
    void stop(Stop mode = Stop::fast);
    // Stop at once and delete everything, also the folders made on the way.
    void remove();
    void kill_hard();  // SIGKILL to the postmaster and its children: a crash
    bool running() const;

    bool exists() const;
    int port() const { return port_; }
    pid_t pid() const;
    // True when the last server here ended without a shutdown.
    bool crashed() const;
    const std::filesystem::path& folder() const { return options_.folder; }
    // The account under which the server runs.
    std::string account() const;
    // Connection by the socket, as the superuser `postgres` unless another role is named.
    std::string url(const std::string& database = "postgres", const std::string& role = "postgres") const;
    // Connection over TCP with the password, for programs of the user.
    std::string tcp_url(const std::string& database, const std::string& role) const;
    // The password with which the user's role logs in.
    std::string password() const;
    // The last lines of the server's log.
    std::string log_tail(int lines = 5) const;

    // Where this build's extension files are: PREFIX/share/baton and PREFIX/lib/.../baton.so.
    static std::filesystem::path share_folder();
    static std::filesystem::path module_file();
    static std::optional<std::filesystem::path> find_module();
    static std::filesystem::path executable_folder();

  private:
    void find_port();
    void make_folder();
    void take_folder();
    void check_folder() const;
    void initialize_cluster() const;
    void write_settings() const;
    void forget_dead_postmaster() const;
    std::optional<std::string> try_start() const;
    void refresh_root() const;
    std::filesystem::path program(const std::string& name) const;
    ServerRoot root() const { return ServerRoot(options_.folder / "root", account_); }
    std::filesystem::path data() const { return options_.folder / "data"; }
    Outcome run_tool(const std::vector<std::string>& argv) const;
    void remember_port() const;

    Options options_;
    std::optional<Account> account_;
    int port_ = 0;
    std::vector<std::filesystem::path> made_;  // the folders that make_folder() made, outermost first
};

// Quote a value for a connection string.
std::string quote_conninfo(const std::string& value);

}  // namespace baton::local_server
