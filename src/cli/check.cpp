#include "cli/check.hpp"

#include <iostream>

#include "assembly/catalog.hpp"
#include "base/life_sign.hpp"
#include "cli/program.hpp"
#include "server/status_server.hpp"

namespace baton::cli {

using relay::Settings;

namespace {

// Collects what is wrong, and goes on.
class Findings {
  public:
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
    bool none() const { return count_ == 0; }

  private:
    // Say which settings it is about and where they stand, unless the words do so by themselves.
    void tell(const Settings& about, const Error& error) {
        ++count_;
        std::string words = error.what();
        if (words.find(about.name()) == std::string::npos) words = about.name() + ": " + words;
        if (!about.place().empty() && !words.starts_with(about.place().substr(0, about.place().rfind(':'))))
            words = about.place() + ": " + words;
        print_error(words, error.hint());
    }

    int count_ = 0;
};

// The pipelines whose settings can be.
std::vector<Settings> check_settings(const std::vector<Settings>& pipelines,
                                     const assembly::RelayIdentity& identity, Findings& findings) {
    std::vector<Settings> good;
    for (const auto& settings : pipelines)
        if (findings.pass(settings, [&] { assembly::make_parts(settings, identity); }))
            good.push_back(settings);
    return good;
}

void check_connections(const std::vector<Settings>& pipelines, const assembly::RelayIdentity& identity,
                       Findings& findings) {
    for (const auto& settings : pipelines) {
        if (!settings.boolean("enabled", true)) {
            std::cout << settings.name() << ": ok, not enabled\n";
            continue;
        }
        const bool reads =
            findings.pass(settings.below("source"), [&] { assembly::check_source(settings, identity); });
        const bool writes = findings.pass(settings.below("sink"), [&] { assembly::check_sink(settings); });
        if (reads && writes) std::cout << settings.name() << ": ok\n";
    }
}

// Whether a relay could open its endpoints there now. An address in the file is not tried: the relay that
// runs with the file has it.
void try_to_listen(const std::string& address) {
    const auto none = [] { return server::Answer{false, "this is a check"}; };
    const server::StatusServer endpoints(address, {[] { return std::string(); }, none, none});
}

}  // namespace

int check_relay(const Target& target, const DaemonOptions& options, bool settings_only) {
    Findings findings;
    const auto config = options.file.empty() ? relay::Config{} : relay::read_config(options.file);
    findings.pass(config.log, [&] { make_log(config, options.log_format); });
    findings.pass(config.relay, [&] { read_drain(config); });
    findings.pass(config.server, [&] {
        read_server(config, options.listen, options.token_file);
        if (!settings_only && !options.listen.empty()) try_to_listen(options.listen);
    });
    findings.pass(config.traces, [&] { read_traces(config, show_life()); });
    auto pipelines = check_settings(config.pipelines, {{}, show_life()}, findings);
    if (settings_only) {
        for (const auto& settings : pipelines) std::cout << settings.name() << ": settings ok\n";
        return findings.none() ? done : failed;
    }
    const assembly::RelayIdentity identity{find_server(target), show_life()};
    auto db = connect(target);
    for (auto& settings : assembly::read_catalog(db))
        findings.pass(settings, [&] {
            assembly::make_parts(settings, identity);
            pipelines = relay::join(std::move(pipelines), {settings});
        });
    if (pipelines.empty() && findings.none())
        throw Error("there is no pipeline", "add one to the file, or with baton.set_pipeline()");
    check_connections(pipelines, identity, findings);
    return findings.none() ? done : failed;
}

}  // namespace baton::cli
