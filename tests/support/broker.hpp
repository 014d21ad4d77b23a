#pragma once
// What the real brokers of the tests have in common: each in a folder of its own under the temporary
// directory, on free ports of loopback, stopped by its pid. When the test binary dies, its brokers die with
// it.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "baton/error.hpp"

namespace baton::test {

// A part of the suite cannot run on this machine (a server could not be fetched, say): skip, and say so.
class Unavailable : public Error {
  public:
    using Error::Error;
};

// Print the line by which ctest counts the whole binary as skipped.
void announce_skip(const std::string& why);

class Broker {
  public:
    Broker(const Broker&) = delete;
    Broker& operator=(const Broker&) = delete;
    virtual ~Broker();

    // Start it, or start it again on the same port and data; returns when it answers.
    void start();
    void stop();         // SIGTERM: it may tidy up
    void kill_hard();    // SIGKILL: a crash
    void pause() const;  // SIGSTOP: it holds its connections and says nothing
    void resume() const;

    int port() const { return port_; }
    const std::filesystem::path& folder() const { return folder_; }
    std::string log_tail(int lines = 20) const;

  protected:
    explicit Broker(const std::string& name);
    // How it is run; called at every start.
    virtual Command command() = 0;
    // True when it answers.
    virtual bool ready() = 0;
    // Pick the ports of a first start.
    virtual void choose_ports() { port_ = find_free_port(); }
    // Prepare data before a first start.
    virtual void prepare() {}

    bool log_contains(const std::string& text) const;
    std::filesystem::path log_file() const { return folder_ / "log"; }

    int port_ = 0;

  private:
    std::string name_;
    std::filesystem::path folder_;
    std::optional<Process> process_;
    bool started_before_ = false;
    std::size_t log_from_ = 0;  // the current start's part of the log begins here
};

// True when something accepts connections there.
bool accepts_connections(int port);

}  // namespace baton::test
