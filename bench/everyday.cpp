// An ordinary day: 500 single events in a second, and what they take of a processor. A plain table of the
// same columns is the measure; then an outbox without a relay, then with one whose sink takes everything at
// once.
//
// The relay runs in this process, so that the time from commit to delivery is known for each event; its share
// of the processor is this process without its writers. BATON_BENCH_SECONDS is the length of a round (default
// 8), BATON_BENCH_ROUNDS how many there are (default 5), BATON_BENCH_RATE how many events a second.

#include <fmt/core.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <map>
#include <thread>

#include "assembly/pipeline_parts.hpp"
#include "base/life_sign.hpp"
#include "kit/measure.hpp"
#include "kit/relay_process.hpp"
#include "kit/stand.hpp"
#include "relay/config.hpp"

namespace {

using namespace baton;
using namespace baton::bench;
using namespace std::chrono_literals;

long setting(const char* name, long fallback) {
    const char* given = std::getenv(name);
    return given != nullptr ? std::atol(given) : fallback;
}

double seconds_of(const timespec& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double processor_of_clock(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return seconds_of(time);
}

// Microseconds of each of the server's processes but the one that asks.
std::map<pid_t, double> server_time(Connection& watch) {
    std::map<pid_t, double> times;
    const auto pids = watch.query("select pid from pg_stat_activity where pid <> pg_backend_pid()");
    for (int i = 0; i < pids.rows(); ++i) {
        const auto pid = static_cast<pid_t>(pids.number(i, 0));
        times[pid] = processor_time(pid);
    }
    return times;
}

// What one round took, in percent of a core, and how late events were, in milliseconds.
struct Round {
    double server = 0, relay = 0;
    std::vector<double> late;
};

// Two writers at an even pace, each event a transaction of its own.
class Writers {
  public:
    Writers(const std::string& url, const std::string& table, long rate, double duration)
        : committed_(static_cast<std::size_t>(static_cast<double>(rate) * duration) + 2) {
        for (int i = 0; i < 2; ++i)
            threads_.emplace_back([=, this] { write(url, table, rate, duration, i); });
        while (ready_ < 2) std::this_thread::sleep_for(1ms);
    }
    void go() { go_ = true; }
    void join() {
        for (auto& thread : threads_) thread.join();
    }
    double processor() const { return processor_; }
    // When the event with that number was known to be committed.
    std::vector<Clock::time_point>& committed() { return committed_; }

  private:
    void write(const std::string& url, const std::string& table, long rate, double duration, int offset) {
        Connection db(url);
        db.prepare("write", "insert into " + table +
                                " (event_type, aggregate_id, partition_key, payload) values ('order.placed', "
                                "$1, 'k' || $1, jsonb_build_object('order', $1, 'note', repeat('x', 260))) "
                                "returning id");
        db.run_prepared("write", {std::string("-1")});
        ++ready_;
        while (!go_) std::this_thread::sleep_for(1ms);
        const double before = processor_of_clock(CLOCK_THREAD_CPUTIME_ID);
        const auto pace =
            std::chrono::duration_cast<Clock::duration>(Seconds(2.0 / static_cast<double>(rate)));
        auto next = Clock::now() + pace * offset / 2;
        const auto events = static_cast<long>(static_cast<double>(rate) * duration / 2);
        for (long i = 0; i < events; ++i) {
            std::this_thread::sleep_until(next);
            next += pace;
            const auto id = db.run_prepared("write", {std::to_string(i)}).number(0, 0) - first_id_;
            if (id >= 0 && id < static_cast<long>(committed_.size()))
                committed_[static_cast<std::size_t>(id)] = Clock::now();
        }
        processor_ = processor_ + processor_of_clock(CLOCK_THREAD_CPUTIME_ID) - before;
    }

    std::vector<Clock::time_point> committed_;
    std::vector<std::thread> threads_;
    std::atomic<int> ready_{0};
    std::atomic<bool> go_{false};
    std::atomic<double> processor_{0};

  public:
    std::atomic<long> first_id_{0};
};

// Write for a while and see what the server took.
Round watched(Connection& watch, const std::string& url, const std::string& table, long rate, double duration,
              const std::function<void(long, std::size_t)>& expect = {}) {
    Writers writers(url, table, rate, duration);
    writers.first_id_ = std::stol(watch.value("select coalesce(max(id), 0) + 1 from " + table));
    if (expect) expect(writers.first_id_, writers.committed().size());
    std::this_thread::sleep_for(300ms);
    const auto before = server_time(watch);
    const double own = processor_of_clock(CLOCK_PROCESS_CPUTIME_ID);
    const double took = seconds([&] {
        writers.go();
        writers.join();
    });
    const double own_after = processor_of_clock(CLOCK_PROCESS_CPUTIME_ID);
    Round round;
    for (const auto& [pid, time] : before) round.server += processor_time(pid) - time;
    round.server = round.server / 1e6 / took * 100;
    round.relay = (own_after - own - writers.processor()) / took * 100;
    for (const auto& time : writers.committed())
        round.late.push_back(static_cast<double>(time.time_since_epoch().count()));
    return round;
}

// The same, while a relay carries the events away.
Round with_relay(Connection& watch, const std::string& url, long rate, double duration) {
    const std::string group = new_group();
    const auto config = relay::parse_config(config_of(group, "events", "type = \"null\"", "latest"), "bench");
    auto parts = assembly::make_parts(config.pipelines.front(), {url, show_life()});
    std::vector<Clock::time_point> delivered;
    std::atomic<long> first{0};
    std::atomic<bool> measuring{false};
    parts.on_delivered = [&](const Event& event) {
        if (!measuring) return;
        const auto place = static_cast<std::size_t>(event.id - first);
        if (event.id >= first && place < delivered.size()) delivered[place] = Clock::now();
    };
    relay::Pipeline pipeline(std::move(parts));
    pipeline.start();
    while (pipeline.status().state != relay::PipelineState::running) std::this_thread::sleep_for(1ms);
    Round round = watched(watch, url, "events", rate, duration, [&](long id, std::size_t count) {
        delivered.resize(count);
        first = id;
        measuring = true;
    });
    std::this_thread::sleep_for(500ms);
    pipeline.request_stop();
    pipeline.join();
    watch.exec("select baton.drop_consumer_group('" + group + "')");
    std::vector<double> late;
    for (std::size_t i = 0; i < delivered.size(); ++i)
        if (round.late[i] != 0 && delivered[i].time_since_epoch().count() != 0)
            late.push_back(std::max(
                0.0, (static_cast<double>(delivered[i].time_since_epoch().count()) - round.late[i]) / 1e6));
    round.late = std::move(late);
    return round;
}

void measure(Stand& stand, long rate, double duration, long rounds) {
    Connection watch = stand.fresh();
    const std::string url = stand.url_of(watch);
    watch.exec("select baton.create_outbox('events')");
    watch.exec("create table bare (like events including defaults including identity)");
    watch.exec("create unique index on bare (id)");
    std::vector<double> bare, outbox, carried, relay, late;
    for (long i = 0; i < rounds; ++i) {
        bare.push_back(watched(watch, url, "bare", rate, duration).server);
        outbox.push_back(watched(watch, url, "events", rate, duration).server);
        const Round round = with_relay(watch, url, rate, duration);
        carried.push_back(round.server);
        relay.push_back(round.relay);
        late.insert(late.end(), round.late.begin(), round.late.end());
    }
    fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} | {:.1f} | {:+.1f} | {:.1f} | {:.2f} / {:.2f} |\n",
               stand.form(), median(bare), median(outbox), median(outbox) / median(bare), median(carried),
               median(carried) - median(outbox), median(relay), percentile(late, 0.5),
               percentile(late, 0.99));
    std::fflush(stdout);
}

}  // namespace

int main() {
    try {
        const long rate = setting("BATON_BENCH_RATE", 500), rounds = setting("BATON_BENCH_ROUNDS", 5);
        const auto duration = static_cast<double>(setting("BATON_BENCH_SECONDS", 8));
        const fs::path share = std::getenv("BATON_SHARE"), module = std::getenv("BATON_MODULE");
        fmt::print(
            "## {} single events a second, in percent of a core (medians of {} rounds of {} s)\n\n"
            "| form | server, plain table of the same columns | server, outbox | ratio | server, with a "
            "relay | "
            "the relay's part of it | relay | ms from commit to delivery, p50 / p99 |\n"
            "|---|---|---|---|---|---|---|---|\n",
            rate, rounds, duration);
        for (const Form form : {Form::extension, Form::plain}) {
            Stand stand(share, module, form);
            measure(stand, rate, duration, rounds);
        }
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
}
