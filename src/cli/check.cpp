#include "cli/check.hpp"

#include <algorithm>
#include <iostream>

#include "assembly/catalog.hpp"
#include "assembly/lint.hpp"
#include "base/life_sign.hpp"
#include "cli/print.hpp"
#include "cli/program.hpp"
#include "server/status_server.hpp"

namespace baton::cli {

using relay::Settings;

namespace {

// Collects what is wrong, and goes on. People read it as it is found, a program reads it all at the end.
class Report {
  public:
    explicit Report(bool json) : json_(json) {}

    // True when nothing was found.
    template <class Step>
    bool pass(const Settings& about, const Step& step) {
        try {
            step();
            return true;
        } catch (const Error& error) {
            tell(about, error);
            return false;
        }
    }
    // Say which settings it is about and where they stand, unless the words do so by themselves.
    void tell(const Settings& about, const Error& error) {
        std::string words = error.what();
        if (words.find(about.name()) == std::string::npos) words = about.name() + ": " + words;
        const std::string file = about.place().substr(0, about.place().rfind(':'));
        if (!file.empty() && !words.starts_with(file)) words = about.place() + ": " + words;
        add(file, words, error.hint());
    }
    // The same for what is wrong with a whole file.
    void tell(const std::string& file, const Error& error) { add(file, error.what(), error.hint()); }

    void say(const Settings& pipeline, const std::string& state) {
        if (!json_) std::cout << pipeline.name() << ": " << state << "\n";
        pipelines_.push_back({{"pipeline", pipeline.text("name")}, {"state", state}});
    }

    bool none() const { return problems_.empty(); }
    int end() const {
        if (json_)
            print_json(std::cout, {{"ok", none()}, {"pipelines", pipelines_}, {"problems", problems_}});
        return none() ? done : failed;
    }

  private:
    void add(const std::string& file, const std::string& words, const std::string& hint) {
        if (!json_) print_error(words, hint);
        const bool placed = !file.empty() && words.starts_with(file);
        const auto colon = placed ? words.find(": ", file.size()) : std::string::npos;
        Json problem{{"place", nullptr}, {"what", words}, {"hint", hint}};
        if (colon != std::string::npos)
            problem = {{"place", words.substr(0, colon)}, {"what", words.substr(colon + 2)}, {"hint", hint}};
        problems_.push_back(std::move(problem));
    }

    const bool json_;
    Json pipelines_ = Json::array(), problems_ = Json::array();
};

// The pipelines whose settings can be.
std::vector<Settings> check_settings(const std::vector<Settings>& pipelines,
                                     const assembly::RelayIdentity& identity, Report& report) {
    std::vector<Settings> good;
    for (const auto& settings : pipelines) {
        const auto problems = assembly::problems_of(settings, identity);
        for (const auto& problem : problems) report.tell(settings, problem);
        if (problems.empty()) good.push_back(settings);
    }
    return good;
}

void check_connections(const std::vector<Settings>& pipelines, const assembly::RelayIdentity& identity,
                       Report& report) {
    for (const auto& settings : pipelines) {
        if (!settings.boolean("enabled", true)) {
            report.say(settings, "ok, not enabled");
            continue;
        }
        const bool reads =
            report.pass(settings.below("source"), [&] { assembly::check_source(settings, identity); });
        const bool writes = report.pass(settings.below("sink"), [&] { assembly::check_sink(settings); });
        if (reads && writes) report.say(settings, "ok");
    }
}

// Whether a relay could open its endpoints there now. An address in the file is not tried: the relay that
// runs with the file has it.
void try_to_listen(const std::string& address) {
    const auto none = [] { return server::Answer{false, "this is a check"}; };
    const server::StatusServer endpoints(address, {[] { return std::string(); }, none, none});
}

// Everything but the pipelines.
void check_tables(const relay::Config& config, const DaemonOptions& daemon, const CheckOptions& options,
                  Report& report) {
    report.pass(config.log, [&] { make_log(config, daemon.log_format); });
    report.pass(config.relay, [&] { read_drain(config); });
    report.pass(config.server, [&] {
        read_server(config, daemon.listen, daemon.token_file);
        if (!options.settings_only && !daemon.listen.empty()) try_to_listen(daemon.listen);
    });
    report.pass(config.traces, [&] { read_traces(config, show_life()); });
}

}  // namespace

int check_relay(const Target& target, const DaemonOptions& daemon, const CheckOptions& options) {
    Report report(options.json);
    relay::Config config;
    try {
        if (!daemon.file.empty()) config = relay::read_config(daemon.file);
    } catch (const relay::SettingsError& error) {
        report.tell(daemon.file.string(), error);
        return report.end();
    }
    check_tables(config, daemon, options, report);
    auto pipelines = check_settings(config.pipelines, {{}, show_life()}, report);
    if (options.settings_only) {
        for (const auto& settings : pipelines) report.say(settings, "settings ok");
        return report.end();
    }
    const assembly::RelayIdentity identity{find_server(target), show_life()};
    auto db = connect(target);
    for (const auto& settings : check_settings(assembly::read_catalog(db), identity, report))
        report.pass(settings, [&] { pipelines = relay::join(pipelines, {settings}); });
    if (pipelines.empty() && report.none())
        throw Error("there is no pipeline", "add one to the file, or with baton.set_pipeline()");
    check_connections(pipelines, identity, report);
    return report.end();
}

}  // namespace baton::cli
