#include <memory>

#include "baton/error.hpp"
#include "cli/check.hpp"
#include "cli/commands.hpp"
#include "cli/relay_daemon.hpp"
#include "cli/target.hpp"

namespace baton::cli {

namespace {

struct RelayOptions {
    Target target;
    DaemonOptions daemon;
    std::string check;  // all, settings, or empty
    bool json = false;
};

int relay_command(RelayOptions& options) {
    if (!options.check.empty())
        return check_relay(options.target, options.daemon, {options.check == "settings", options.json});
    options.daemon.db = find_server(options.target);
    RelayDaemon daemon(options.daemon);
    const StopSignal stop(StopSignal::Second::ends);
    daemon.run(stop);
    return done;
}

}  // namespace

void add_relay(Program& program) {
    auto options = std::make_shared<RelayOptions>();
    auto& command =
        program.add("relay", "carry events from outboxes to brokers, as a file or the catalog says",
                    [options] { return relay_command(*options); });
    add_target(command, options->target);
    command.add_option(
        "--config", options->daemon.file,
        "TOML file with pipelines, or a folder of them (default: only those in baton.pipelines)");
    auto* check =
        command.add_flag("--check{all}", options->check,
                         "say what is wrong with the settings, the database and the destinations, and exit; "
                         "--check=settings connects nowhere");
    check->check(CLI::IsMember({"all", "settings"}));
    command.add_flag("--json", options->json, "with --check: print JSON, for programs")->needs(check);
    command.add_option("--listen", options->daemon.listen,
                       "HOST:PORT for the dashboard, the API, /metrics, /livez, /readyz and /drained "
                       "(default: none)");
    command.add_option("--token-file", options->daemon.token_file,
                       "file with tokens for the API: one alone, or lines of NAME operator|viewer TOKEN");
    command.add_option("--log", options->daemon.log_format, "text or json")
        ->check(CLI::IsMember({"text", "json"}));
}

}  // namespace baton::cli
