#pragma once
// A private PostgreSQL server for one suite, and a fresh database with baton for each test.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "local_server/local_server.hpp"
#include "postgres/connection.hpp"

namespace baton::test {

using postgres::Connection;
using postgres::Transaction;

// The two ways in which baton is installed.
enum class Form { extension, plain };
const char* name_of(Form form);

class Cluster {
  public:
    struct Options {
        Form form = Form::extension;
        bool preload = true;
        std::vector<std::string> settings;
        std::string version = {};  // another major version than the system's, in the plain form
    };

    // Start a server on a free port in a folder of its own under the temporary directory.
    explicit Cluster(Options options);
    explicit Cluster(Form form = Form::extension) : Cluster(Options{form, true, {}}) {}
    // Attach to a server that the suite's fixture started.
    explicit Cluster(const std::filesystem::path& folder, Form form);
    ~Cluster();
    Cluster(Cluster&& other) noexcept = default;
    Cluster& operator=(Cluster&&) = delete;

    // A new database with baton in it; returns its connection string. In the plain form it is installed and
    // owned by `installer`, who is no superuser.
    std::string fresh_database();
    // The same with the scheduler's jobs switched off: nobody but the test maintains anything.
    std::string quiet_database();
    // The same without baton.
    std::string empty_database();

    // An empty database into which a dump of fresh_database() can be loaded by the same role.
    std::string database_for_restore();
    // The address of one of its databases over TCP, through this port (a proxy's, say).
    std::string tcp_url(const std::string& url, int port);
    // SIGSTOP to every process of the server: it holds its connections and says nothing. resume() lets it go
    // on.
    void pause();
    void resume();

    // A hot standby that streams from this server.
    Cluster make_standby();
    // A copy of this server's files as they are now, not started yet. Started, it is a clone: the same
    // identity and timeline, and a life of its own. See support/restores.hpp for what else can become of it.
    Cluster copy_files() { return copy({}); }
    // A new, empty server with the same settings, not started yet.
    Cluster make_sibling();

    // Let the server go on after this object; returns its folder.
    std::filesystem::path leave_running();
    // Let a server that was left running end with this object.
    void take_over() { owned_ = true; }

    local_server::LocalServer& server() { return *server_; }
    Form form() const { return options_.form; }

  private:
    Cluster(Options options, std::unique_ptr<local_server::LocalServer> server)
        : options_(std::move(options)), server_(std::move(server)) {}
    void make_template();
    // Where the programs of another version are, beside the server's folder.
    static std::filesystem::path programs_of(const std::filesystem::path& folder);
    Cluster copy(const std::vector<std::string>& more_arguments);

    Options options_;
    bool owned_ = true;
    std::vector<pid_t> paused_;
    std::unique_ptr<local_server::LocalServer> server_;
};

// Start one server per test binary and form, on first use; stopped when the binary ends.
Cluster& shared_cluster(Form form);

// Where the build put its files.
std::filesystem::path build_folder();

// Wait until the condition holds; throws Error naming `what` when it does not within the deadline.
void wait_until(const std::string& what, const std::function<bool()>& condition,
                std::chrono::milliseconds deadline = std::chrono::seconds(60));

}  // namespace baton::test
