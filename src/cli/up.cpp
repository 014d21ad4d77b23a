#include <iostream>
#include <memory>

#include "baton/error.hpp"
#include "cli/commands.hpp"
#include "cli/embedded.hpp"
#include "cli/print.hpp"

namespace baton::cli {

namespace {

struct UpOptions {
    EmbeddedOptions embedded;
    bool detach = false;
    bool json = false;
};

// Stay until a stop is asked for, or until somebody else stops the server.
int stay(local_server::LocalServer& server, const StopSignal& stop) {
    const pid_t postmaster = server.pid();
    while (!stop.requested() && server.pid() == postmaster) stop.wait_a_moment();
    if (stop.requested()) {
        const FolderLock lock = server.lock();
        if (server.pid() == postmaster) server.stop();
        print_progress("the server in " + server.folder().string() + " was stopped");
        return done;
    }
    if (server.crashed())
        throw Error(
            "the server ended unexpectedly: " + server.log_tail(1),
            "run baton up again: it recovers; the server's log is " + (server.folder() / "log").string());
    print_progress("the server was stopped from outside");
    return done;
}

int up(const UpOptions& options) {
    const StopSignal stop;
    auto [server, was_running] = bring_up(options.embedded, stop);
    if (was_running && options.embedded.port != 0 && options.embedded.port != server.port())
        print_progress("the server is running already, at port " + std::to_string(server.port()));
    if (options.json)
        print_json(std::cout, {{"url", app_url(server)},
                               {"port", server.port()},
                               {"data_dir", server.folder().string()},
                               {"was_running", was_running}});
    else
        std::cout << app_url(server) << std::endl;
    return was_running || options.detach ? done : stay(server, stop);
}

}  // namespace

void add_up(Program& program) {
    auto options = std::make_shared<UpOptions>();
    options->embedded.folder = default_folder();
    auto& command =
        program.add("up", "start a private PostgreSQL with baton; prints its URL as the last line",
                    [options] { return up(*options); });
    command.add_option("--data-dir", options->embedded.folder, "the server's folder")->capture_default_str();
    command.add_option("--port", options->embedded.port, "port on loopback (default: a free one)")
        ->check(CLI::Range(1, 65535));
    command.add_flag("--detach", options->detach, "return when it runs, instead of staying until Ctrl-C");
    command.add_flag("--json", options->json, "print the URL and where the server is as JSON, for programs");
    add_mode(command, options->embedded.mode);
}

}  // namespace baton::cli
