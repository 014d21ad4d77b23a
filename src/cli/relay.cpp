#include <iostream>
#include <memory>

#include "baton/error.hpp"
#include "cli/commands.hpp"
#include "cli/relay_daemon.hpp"
#include "cli/target.hpp"

namespace baton::cli {

namespace {

struct RelayOptions {
    Target target;
    DaemonOptions daemon;
    bool check = false;
};

// Validate and try the connections, without sending anything; says something about every pipeline.
int check(const RelayOptions& options) {
    const std::string url = find_server(options.target);
    std::vector<relay::Settings> pipelines;
    if (!options.daemon.file.empty()) pipelines = relay::read_config(options.daemon.file).pipelines;
    auto db = connect(options.target);
    pipelines = relay::join(std::move(pipelines), relay::read_catalog(db));
    if (pipelines.empty())
        throw Error("there is no pipeline", "add one to the file, or with baton.set_pipeline()");
    bool good = true;
    for (const auto& settings : pipelines) {
        try {
            check_connections(settings, {url, make_owner_name()});
            std::cout << settings.name() << ": ok\n";
        } catch (const Error& error) {
            good = false;
            const std::string said = error.what();
            print_error(
                said.find(settings.name()) == std::string::npos ? settings.name() + ": " + said : said,
                error.hint());
        }
    }
    return good ? done : failed;
}

int relay_command(RelayOptions& options) {
    if (options.check) return check(options);
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
    command.add_option("--config", options->daemon.file,
                       "TOML file with pipelines (default: only those in baton.pipelines)");
    command.add_flag("--check", options->check, "validate, test the connections and exit");
    command.add_option("--listen", options->daemon.listen,
                       "HOST:PORT for /metrics, /livez, /readyz and /drained (default: none)");
    command.add_option("--log", options->daemon.log_format, "text or json")
        ->check(CLI::IsMember({"text", "json"}));
}

}  // namespace baton::cli
