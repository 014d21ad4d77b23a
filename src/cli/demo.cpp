#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "baton/error.hpp"
#include "cli/commands.hpp"
#include "cli/demo_audit.hpp"
#include "cli/demo_page.hpp"
#include "cli/demo_relays.hpp"
#include "cli/demo_screen.hpp"
#include "cli/demo_shop.hpp"
#include "cli/demo_stay.hpp"
#include "cli/embedded.hpp"

namespace fs = std::filesystem;

namespace baton::cli {

using namespace std::chrono_literals;

namespace {

struct DemoOptions {
    EmbeddedOptions embedded;
    double seconds = 12;
    int writers = 4;
    bool keep = false;
};

// The run itself: what happens when, and what is shown meanwhile.
class Demo {
  public:
    Demo(const DemoOptions& options, const std::string& db, const DemoFiles& files, const StopSignal& stop)
        : options_(options), db_(db), files_(files), stop_(stop), shop_(db), relays_(db, files) {}

    Audit run() {
        Shop::build(db_);
        page_.emplace(db_, files_.events.parent_path(), relays_);
        fmt::print("  watch it: {}\n", page_->link());
        std::fflush(stdout);
        began_ = DemoClock::now();
        relays_.start();
        shop_.open(options_.writers, std::chrono::milliseconds(static_cast<long>(options_.seconds * 1000)));
        while (elapsed() < options_.seconds) turn();
        shop_.wait_until_closed();
        screen_.tell(elapsed(), "the shop is closed; what is under way comes home");
        deltas_ = shop_.close_revenue();
        const auto limit = elapsed() + 60;
        while (!all_home() && elapsed() < limit) turn();
        relays_.stop();
        shop_.close_books();
        screen_.finish(view());
        check();
        Audit audit = audit_demo(db_, files_);
        audit.tracks[0].latency = latency_between(shop_.commits(), relays_.filed, pause_);
        audit.tracks[1].latency = latency_between(shop_.commits(), relays_.received, pause_);
        return audit;
    }

    bool colored() const { return screen_.colored(); }
    // Leave the shop open, with something to mend, until a stop is asked for.
    void stay() { cli::stay(db_, relays_, page_->link(), options_.embedded.folder.string(), stop_); }

  private:
    double elapsed() const { return std::chrono::duration<double>(DemoClock::now() - began_).count(); }

    bool all_home() const {
        const long committed = shop_.counts().committed;
        return relays_.filed_count >= committed && relays_.received_count >= committed &&
               shop_.counts().handled >= committed && relays_.delta_count >= deltas_;
    }

    void turn() {
        check();
        narrate();
        screen_.show(view());
        std::this_thread::sleep_for(100ms);
    }

    void check() const {
        stop_.check();
        if (const auto failure = shop_.failure(); !failure.empty())
            throw Error("the shop broke down: " + failure);
    }

    // Tell what is worth knowing, each thing once; in the middle the relay is stopped and started again.
    void narrate() {
        const bool held = shop_.counts().held_open > 0;
        if (held && !held_)
            screen_.tell(elapsed(), "a transaction with 3 events is held open: only its own events wait");
        if (!held && held_) screen_.tell(elapsed(), "it commits, and its events follow");
        held_ = held;
        if (restarts_ == 0 && elapsed() > options_.seconds * 0.6) {
            // What was committed just before is under way while it stops.
            pause_.from = DemoClock::now() - 200ms;
            relays_.stop();
            ++restarts_;
            started_again_ = elapsed() + std::min(options_.seconds * 0.08, 1.0);
            screen_.tell(elapsed(), "the relay is stopped; the shop does not notice");
        } else if (restarts_ == 1 && elapsed() > started_again_) {
            relays_.start();
            pause_.until = DemoClock::now() + 500ms;  // and a little until it has caught up
            ++restarts_;
            screen_.tell(elapsed(), "the relay is back and goes on where it was");
        }
        const std::string trouble = relays_.trouble();
        if (!trouble.empty() && trouble != trouble_) screen_.tell(elapsed(), trouble);
        trouble_ = trouble;
    }

    DemoView view() {
        const auto& counts = shop_.counts();
        if (elapsed() > measured_ + 0.5) {
            measured_ = elapsed();
            latency_ = latency_between(shop_.commits(), relays_.filed, pause_);
        }
        return {elapsed(),        options_.seconds,    options_.writers,       counts.placed,
                counts.changed,   counts.paid,         counts.cancelled,       counts.rolled_back,
                counts.committed, relays_.filed_count, relays_.received_count, counts.handled,
                latency_.p50,     latency_.p99};
    }

    const DemoOptions& options_;
    std::string db_;
    DemoFiles files_;
    const StopSignal& stop_;
    Shop shop_;
    DemoRelays relays_;
    DemoScreen screen_;
    DemoClock::time_point began_;
    bool held_ = false;
    int restarts_ = 0;
    double started_again_ = 0;
    double measured_ = -1;
    long deltas_ = 0;
    Latency latency_;
    Pause pause_;
    std::string trouble_;
    std::optional<DemoPage> page_;
};

// A folder of its own unless one is named, gone afterwards unless it is to be kept.
int demo(DemoOptions options) {
    const bool own_folder = options.embedded.folder.empty();
    if (own_folder)
        options.embedded.folder = fs::temp_directory_path() / ("baton-demo-" + std::to_string(::getpid()));
    const StopSignal stop;
    auto [server, was_running] = bring_up(options.embedded, stop);
    const auto tidy_up = [&, &private_server = server, leave = options.keep || was_running] {
        if (leave) return;
        if (own_folder) {
            private_server.remove();
        } else {
            private_server.stop();
        }
    };
    const DemoFiles files{server.folder() / "shop.jsonl", server.folder() / "revenue.jsonl"};
    bool passed = false;
    try {
        fs::remove(files.events);
        fs::remove(files.revenue);
        Demo run(options, server.url(app_database, app_role), files, stop);
        const Audit audit = run.run();
        passed = audit.passed();
        const auto bold = [&run](const char* code, const char* text) {
            return run.colored() ? fmt::format("\033[1;{}m{}\033[0m", code, text) : std::string(text);
        };
        fmt::print("\n{}\n  {}\n", describe(audit),
                   passed ? bold("32", "passed: every committed event arrived once, in order")
                          : bold("31", "failed: see the audit above"));
        if (options.keep && passed) run.stay();
    } catch (...) {
        tidy_up();
        throw;
    }
    if (options.keep)
        fmt::print("\n  server   {}\n  files    {}, {}\n  stop it  baton down --data-dir {}\n",
                   app_url(server), files.events.string(), files.revenue.string(), server.folder().string());
    std::fflush(stdout);
    tidy_up();
    return passed ? done : failed;
}

}  // namespace

void add_demo(Program& program) {
    auto options = std::make_shared<DemoOptions>();
    auto& command = program.add("demo", "watch baton carry the events of a small shop, and audit it",
                                [options] { return demo(*options); });
    command.add_option("--data-dir", options->embedded.folder,
                       "the server's folder (default: one of its own, deleted afterwards)");
    command.add_option("--seconds", options->seconds, "how long the shop is open")
        ->check(CLI::Range(1.0, 86400.0))
        ->capture_default_str();
    command.add_option("--writers", options->writers, "how many write at the same time")
        ->check(CLI::Range(1, 50))
        ->capture_default_str();
    command.add_flag("--keep", options->keep,
                     "leave the shop open with something to mend, and the server running afterwards");
    add_mode(command, options->embedded.mode);
}

}  // namespace baton::cli
