#include "cli/relay_daemon.hpp"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <thread>

#include "assembly/example.hpp"
#include "base/life_sign.hpp"
#include "cli/pipeline_answers.hpp"
#include "event/time_text.hpp"

namespace baton::cli {

using namespace std::chrono_literals;
using relay::PipelineState;
using relay::PipelineStatus;
using relay::Settings;

namespace {

// How much longer than its pipelines drain a relay that stops may take before it ends by itself.
constexpr auto stop_reserve = 20s;
// States of what does not run at all.
constexpr const char* not_reloaded = "not reloaded";
constexpr const char* left_out = "left out";

std::atomic<bool> reload_requested{false};

void on_hangup(int) {
    reload_requested = true;
}

void follow_hangups() {
    struct sigaction action {};
    action.sa_handler = &on_hangup;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGHUP, &action, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
}

double now_in_seconds() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// A sentence for the log about a pipeline's new state.
const char* sentence(PipelineState state) {
    switch (state) {
        case PipelineState::starting:
            return "pipeline starts";
        case PipelineState::standby:
            return "pipeline stands by";
        case PipelineState::running:
            return "pipeline runs";
        case PipelineState::retrying:
            return "pipeline tries again";
        case PipelineState::halted:
            return "pipeline is halted";
        case PipelineState::stopped:
            return "pipeline has stopped";
    }
    return "";
}

LogLevel level_of(PipelineState state) {
    if (state == PipelineState::halted) return LogLevel::error;
    return state == PipelineState::retrying ? LogLevel::warning : LogLevel::info;
}

// A poisoned topic can make thousands of dead events: the log tells of one in ten seconds, and how many
// others there were since.
class DeadEventsTold {
  public:
    bool is_time() {
        const auto now = std::chrono::steady_clock::now();
        if (now >= next_) {
            next_ = now + 10s;
            return true;
        }
        ++others_;
        return false;
    }
    std::string take_others() {
        const long others = std::exchange(others_, 0);
        return others == 0 ? "" : std::to_string(others);
    }

  private:
    std::chrono::steady_clock::time_point next_{};
    long others_ = 0;
};

}  // namespace

Log make_log(const relay::Config& config, const std::string& given) {
    const std::string format = given.empty() ? config.log.text("format", "text") : given;
    if (format != "text" && format != "json")
        config.log.refuse("format", "is \"" + format + "\"", "write text or json");
    const std::string level = config.log.text("level", "info");
    constexpr const char* levels[] = {"debug", "info", "warning", "error"};
    const auto* found = std::find(std::begin(levels), std::end(levels), level);
    if (found == std::end(levels))
        config.log.refuse("level", "is \"" + level + "\"", "write debug, info, warning or error");
    config.log.refuse_unknown();
    return Log(format == "json" ? LogFormat::json : LogFormat::text,
               static_cast<LogLevel>(found - std::begin(levels)));
}

std::chrono::milliseconds read_drain(const relay::Config& config) {
    const auto drain = config.relay.duration("drain", 10s);
    config.relay.refuse_unknown();
    return drain;
}

RelayDaemon::RelayDaemon(DaemonOptions options)
    : options_(std::move(options)),
      config_(options_.file.empty() ? relay::Config{} : relay::read_config(options_.file)),
      log_(make_log(config_, options_.log_format)),
      identity_{options_.db, show_life()},
      traces_(read_traces(config_, identity_.owner), log_),
      supervisor_(
          std::make_unique<relay::Supervisor>([this](const Settings& settings) { return make(settings); },
                                              [this](const std::string& pipeline, const std::string& what) {
                                                  log_.info(what, {{"pipeline", pipeline}});
                                              })) {
    read_drain(config_);
    server_ = read_server(config_, options_.listen, options_.token_file);
    for (const auto& settings : config_.pipelines) make(settings);
    reloads_.last_good = now_in_seconds();
}

relay::PipelineParts RelayDaemon::make(const Settings& settings) {
    auto parts = assembly::make_parts(settings, identity_);
    if (!settings.has("limits.drain")) parts.drain_limit = config_.relay.duration("drain", 10s);
    longest_drain_ = std::max(longest_drain_, parts.drain_limit);
    parts.traces = traces_.traces;
    parts.on_state = [this](const PipelineStatus& status) {
        log_.write(level_of(status.state), sentence(status.state),
                   {{"pipeline", status.name}, {"reason", status.detail}});
    };
    parts.on_trouble = [this](const PipelineStatus& status) {
        if (status.trouble.empty())
            log_.info("events get through again", {{"pipeline", status.name}});
        else
            log_.warn("no event gets through", {{"pipeline", status.name}, {"reason", status.trouble}});
    };
    parts.on_failure = [this, name = parts.name,
                        told = DeadEventsTold{}](const relay::Failure& failure) mutable {
        failures_.add(name, std::string(failure.event->event_type.value_or("unknown")));
        if (failure.kind != relay::Failure::Kind::dead || !told.is_time()) return;
        log_.warn("an event is dead", {{"pipeline", name},
                                       {"event", failure.event->source_id},
                                       {"reason", failure.error},
                                       {"others", told.take_others()}});
    };
    return parts;
}

bool RelayDaemon::file_changed() {
    if (options_.file.empty()) return false;
    FileMarks marks;
    try {
        for (const auto& file : relay::config_files(options_.file))
            marks[file] = {std::filesystem::last_write_time(file), std::filesystem::file_size(file)};
    } catch (const std::filesystem::filesystem_error&) {  // a file is being exchanged
        return false;
    } catch (const Error&) {  // so is the folder
        return false;
    }
    const bool changed = file_marks_ && *file_marks_ != marks;
    file_marks_ = std::move(marks);
    return changed;
}

// Read the file and the secrets again; what is wrong with them is said, and everything goes on as before.
void RelayDaemon::reload() {
    relay::Config before = config_;
    try {
        if (!options_.file.empty()) config_ = relay::read_config(options_.file);
        read_drain(config_);
        const auto server = read_server(config_, options_.listen, options_.token_file);
        apply(false);
        if (api_) api_->replace_tokens(server.tokens);
        log_.info("configuration reloaded", {{"file", options_.file.string()}});
        const std::lock_guard lock(trouble_mutex_);
        reload_trouble_.clear();
        ++reloads_.good;
        reloads_.last_good = now_in_seconds();
    } catch (const Error& error) {
        config_ = std::move(before);
        log_.error("configuration not reloaded, the old one stays",
                   {{"reason", error.what()}, {"hint", error.hint()}});
        const std::lock_guard lock(trouble_mutex_);
        reload_trouble_ = error.what();
        ++reloads_.bad;
    }
}

// Take secrets that were exchanged; nobody need say so.
void RelayDaemon::follow_secrets() {
    const auto now = std::chrono::steady_clock::now();
    if (now < secrets_seen_at_ + 1s) return;
    secrets_seen_at_ = now;
    if (supervisor_->secrets_changed()) reload();
}

void RelayDaemon::apply(bool first) {
    std::vector<Settings> wanted = config_.pipelines;
    std::map<std::string, std::string> left_out;
    for (auto& settings : catalog_) {
        try {
            make(settings);
            wanted = relay::join(wanted, {settings});
        } catch (const Error& error) {  // one pipeline that cannot be does not stop the others
            log_.error("pipeline of the catalog is left out",
                       {{"reason", error.what()}, {"hint", error.hint()}});
            left_out[settings.name()] = error.what();
        }
    }
    {
        const std::lock_guard lock(trouble_mutex_);
        left_out_ = std::move(left_out);
    }
    supervisor_->apply(wanted);
    {
        const std::lock_guard lock(trouble_mutex_);
        wanted_ = wanted;
    }
    if (first && wanted.empty())
        log_.warn("there is no pipeline yet",
                  {{"hint", "add one to the file, or with baton.set_pipeline()"}});
}

std::string RelayDaemon::metrics() {
    server::MetricsInput input{supervisor_->status(), failures_.all(), database_->view(), {}, {}, false};
    if (traces_.exporter) input.spans = {traces_.exporter->exported(), traces_.exporter->dropped()};
    {
        const std::lock_guard lock(trouble_mutex_);
        input.reloads = reloads_;
        input.configuration_good = reload_trouble_.empty() && left_out_.empty();
    }
    return server::render_metrics(input);
}

// Why the relay is not ready; empty when it is.
std::vector<std::string> RelayDaemon::troubles() {
    std::vector<std::string> reasons;
    if (const std::string why = database_->trouble(); !why.empty()) reasons.push_back("database: " + why);
    for (const auto& one : own_troubles())
        reasons.push_back(one.state == not_reloaded ? "configuration not reloaded: " + one.words
                          : one.state == left_out   ? one.pipeline + " is left out: " + one.words
                                                    : one.pipeline + ": " + one.words);
    return reasons;
}

// What hinders the relay besides its own database.
std::vector<Trouble> RelayDaemon::own_troubles() {
    std::vector<Trouble> all;
    {
        const std::lock_guard lock(trouble_mutex_);
        if (!reload_trouble_.empty()) all.push_back({"", "", not_reloaded, reload_trouble_});
        for (const auto& [name, why] : left_out_) all.push_back({name, "", left_out, why});
    }
    for (const auto& status : supervisor_->status()) {
        const bool good = status.state == PipelineState::running || status.state == PipelineState::standby;
        if (good && status.trouble.empty()) continue;
        const std::string& why = good ? status.trouble : status.detail;
        const std::string state = relay::name_of(status.state);
        all.push_back({status.name, status.group, state, why.empty() ? state : why});
    }
    return all;
}

server::Answer RelayDaemon::ready() {
    std::string reasons;
    for (const auto& reason : troubles()) reasons += (reasons.empty() ? "" : "\n") + reason;
    return {reasons.empty(), reasons.empty() ? "ok" : reasons};
}

server::RelayNow RelayDaemon::now() {
    return {identity_.owner, supervisor_->status(), troubles(), started_at_};
}

std::string RelayDaemon::render(postgres::Connection& db, const std::string& pipeline, int events) {
    std::vector<Settings> known;
    {
        const std::lock_guard lock(trouble_mutex_);
        known = wanted_;
    }
    return render_pipeline(db, known, pipeline, events);
}

server::Answer RelayDaemon::drained() {
    std::vector<server::GroupLag> known;
    try {
        known = database_->groups();
    } catch (const Error& error) {
        return {false, error.what()};
    }
    std::string reasons;
    for (const auto& status : supervisor_->status()) {
        const auto found = std::find_if(known.begin(), known.end(),
                                        [&](const auto& group) { return group.group == status.group; });
        // A broker and another server are not asked how much they still have.
        const auto lag = found == known.end() ? 0 : static_cast<std::size_t>(found->events);
        std::string why;
        if (status.state != PipelineState::running && status.state != PipelineState::standby)
            why = relay::name_of(status.state);
        else if (found == known.end() && !status.group.empty())
            why = "has no group yet";
        else if (lag > 0 || status.buffered > 0)
            why = std::to_string(std::max(lag, status.buffered)) + " events are not settled";
        if (!why.empty()) reasons += (reasons.empty() ? "" : "\n") + status.name + ": " + why;
    }
    return {reasons.empty(), reasons.empty() ? "drained" : reasons};
}

void RelayDaemon::listen() {
    if (server_.listen.empty()) return;
    if (server_.api)
        api_ = std::make_unique<server::Api>(
            server::ApiSettings{.db = options_.db,
                                .loopback = server_.loopback,
                                .tokens = server_.tokens,
                                .token_file = server_.token_file,
                                .connections = server_.connections,
                                .relay = [this] { return now(); },
                                .render = [this](auto& db, const auto& pipeline,
                                                 int events) { return render(db, pipeline, events); },
                                .lint = lint_pipeline,
                                .on_wrong_token =
                                    [this](const std::string& address) {
                                        log_.warn("a request had a wrong token", {{"from", address}});
                                    },
                                .example = assembly::example_file});
    endpoints_ = std::make_unique<server::StatusServer>(
        server_.listen,
        server::StatusSources{[this] { return metrics(); }, [this] { return ready(); },
                              [this] { return drained(); }},
        api_.get());
    log_.info("endpoints are open", {{"port", std::to_string(endpoints_->port())}});
}

// Drain and stop the pipelines. A library that does not return must not keep the process alive: what is not
// settled comes again.
void RelayDaemon::stop_pipelines() {
    const auto limit = longest_drain_ + stop_reserve;
    std::mutex mutex;
    std::condition_variable_any stopped;
    const std::jthread watchdog([&](const std::stop_token& done) {
        std::unique_lock lock(mutex);
        stopped.wait_for(lock, done, limit, [] { return false; });
        if (done.stop_requested()) return;
        log_.error("relay ends: its pipelines do not stop", {{"hint", "what was not settled comes again"}});
        std::_Exit(1);
    });
    supervisor_->stop();
}

// Send the spans that are left, for as long as the settings allow.
void RelayDaemon::flush_traces() const {
    if (!traces_.exporter) return;
    const auto before = traces_.exporter->dropped();
    traces_.exporter->close();
    if (const auto lost = traces_.exporter->dropped() - before; lost > 0)
        log_.warn("spans were not exported", {{"spans", std::to_string(lost)}});
}

void RelayDaemon::run(const StopSignal& stop) {
    follow_hangups();
    started_at_ = std::string_view(
        TimeText(std::chrono::time_point_cast<Timestamp::duration>(std::chrono::system_clock::now())));
    log_.info("relay starts", {{"owner", identity_.owner}, {"file", options_.file.string()}});
    const RelayNotes::Sources notes{[this] { return own_troubles(); },
                                    [this] { return supervisor_->status(); }};
    database_ = std::make_unique<DatabaseWatch>(options_.db, identity_.owner, log_, notes);
    listen();
    file_changed();
    supervisor_->apply(config_.pipelines);
    bool first = true;
    while (!stop.requested()) {
        if (reload_requested.exchange(false) || file_changed()) reload();
        follow_secrets();
        if (auto changed = database_->take_changes()) {
            catalog_ = std::move(*changed);
            apply(std::exchange(first, false));
        }
        stop.wait_a_moment();
    }
    log_.info("relay stops, draining");
    database_->request_stop();
    stop_pipelines();
    flush_traces();
    endpoints_.reset();
    api_.reset();
    database_.reset();
    log_.info("relay has stopped");
}

}  // namespace baton::cli
