// baton dashboard: the API and the page, without a relay.

#include <iostream>
#include <memory>

#include "assembly/catalog.hpp"
#include "assembly/example.hpp"
#include "assembly/rendering.hpp"
#include "baton/error.hpp"
#include "cli/commands.hpp"
#include "cli/pipeline_answers.hpp"
#include "cli/stop_signal.hpp"
#include "cli/target.hpp"
#include "server/api.hpp"
#include "server/status_server.hpp"

namespace baton::cli {

namespace {

struct DashboardOptions {
    Target target;
    std::string listen = "127.0.0.1:8390";
    std::string token_file;
    std::size_t connections = 4;
};

std::string url_of(const std::string& host, int port) {
    const bool six = host.find(':') != std::string::npos && !host.starts_with('[');
    return "http://" + (six ? "[" + host + "]" : host) + ":" + std::to_string(port) + "/";
}

int dashboard(const DashboardOptions& options) {
    const auto address = server::parse_address(options.listen);
    server::ApiSettings settings{.db = find_server(options.target),
                                 .loopback = server::is_loopback(server::host_of(address.host)),
                                 .tokens = server::token_sources_of_environment(),
                                 .token_file = options.token_file,
                                 .connections = options.connections};
    if (!settings.loopback && settings.tokens.empty() && settings.token_file.empty())
        throw UsageError("others could reach " + options.listen + ", and there is no token",
                         "set BATON_API_TOKEN or name a file with --token-file; or listen on 127.0.0.1");
    settings.render = [](postgres::Connection& db, const std::string& pipeline, int events) {
        return render_pipeline(db, assembly::read_catalog(db), pipeline, events);
    };
    settings.lint = lint_pipeline;
    settings.on_wrong_token = [](const std::string& from) {
        print_progress("a request from " + from + " had a wrong token");
    };
    settings.example = assembly::example_file;
    connect(options.target);  // says what is wrong before anything is served
    const StopSignal stop(StopSignal::Second::ends);
    server::Api api(std::move(settings));
    const server::StatusServer endpoints(
        options.listen, {.metrics = [&api] { return api.metrics(); }, .ready = {}, .drained = {}}, &api);
    std::cout << url_of(address.host, endpoints.port()) << std::endl;
    while (!stop.requested()) stop.wait_a_moment();
    return done;
}

}  // namespace

void add_dashboard(Program& program) {
    auto options = std::make_shared<DashboardOptions>();
    auto& command = program.add("dashboard", "the dashboard and the HTTP API, without a relay",
                                [options] { return dashboard(*options); });
    add_target(command, options->target);
    command.add_option("--listen", options->listen, "HOST:PORT")->capture_default_str();
    command.add_option("--token-file", options->token_file,
                       "file with tokens: one alone, or lines of NAME operator|viewer TOKEN");
    command.add_option("--connections", options->connections, "connections to the database, at most")
        ->check(CLI::Range(2, 100))
        ->capture_default_str();
}

}  // namespace baton::cli
