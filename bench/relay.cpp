// What the relay carries, how fast, and at what cost: ratios within one run.
//
// The relay is a child process, the programs that it is measured against are the brokers' own libraries in
// their plainest loop with acknowledgements. BATON_BENCH_EVENTS sets the size of the backlog for the null
// sink (default 1,000,000), BATON_BENCH_BROKER_EVENTS that for each broker (default 1,000,000, RabbitMQ a
// tenth), BATON_BENCH_ROUNDS how often each is repeated (default 3). BATON_BENCH_CHART names the picture that
// is drawn. Words name the parts to be run (null, drain, latency, writers) and the brokers; without any, all
// are.

#include <fmt/core.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "assembly/pipeline_parts.hpp"
#include "base/life_sign.hpp"
#include "base/process.hpp"
#include "brokers/kafka/tests/server.hpp"
#include "brokers/nats/tests/server.hpp"
#include "brokers/rabbitmq/tests/server.hpp"
#include "brokers/redis/tests/server.hpp"
#include "brokers/registry.hpp"
#include "kit/chart.hpp"
#include "kit/measure.hpp"
#include "kit/producer.hpp"
#include "kit/relay_process.hpp"
#include "local_server/local_server.hpp"
#include "postgres/connection.hpp"
#include "relay/config.hpp"
#include "relay/transform.hpp"
#include "support/broker.hpp"

namespace {

using namespace baton;
using namespace baton::bench;
using namespace baton::postgres;
using namespace std::chrono_literals;

long setting(const char* name, long fallback) {
    const char* given = std::getenv(name);
    return given != nullptr ? std::atol(given) : fallback;
}

// What was asked for on the command line.
struct Selection {
    std::vector<std::string> words;

    bool part(const std::string& name) const { return chosen(name, {"null", "drain", "latency", "writers"}); }
    bool broker(const std::string& name) const {
        return chosen(name, {"kafka", "nats", "redis", "rabbitmq"});
    }

  private:
    bool has(const std::string& name) const { return std::ranges::find(words, name) != words.end(); }
    bool chosen(const std::string& name, const std::vector<std::string>& kind) const {
        return has(name) || std::ranges::none_of(kind, [this](const auto& other) { return has(other); });
    }
};

// A broker, what the relay needs to know to reach it, and the loop to beat.
struct Rival {
    std::string name;
    std::string sink;  // lines of [pipeline.sink]
    std::function<std::unique_ptr<Producer>()> producer;
};

double copy_binary(Connection& db, const std::string& outbox) {
    return seconds([&] {
        db.exec(
            "copy (select id, event_id, tenant_id, aggregate_type, aggregate_id, event_type, schema_version, "
            "topic, "
            "partition_key, payload, headers, trace_id, correlation_id, causation_id, occurred_at, "
            "available_at "
            "from " +
            outbox + " order by id) to stdout (format binary)");
        char* row = nullptr;
        while (PQgetCopyData(db.native(), &row, 0) > 0) PQfreemem(row);
        while (PGresult* rest = PQgetResult(db.native())) PQclear(rest);
    });
}

void null_sink(const std::string& url, const std::filesystem::path& folder, long events, long rounds,
               std::vector<Bar>& bars) {
    fmt::print(
        "## Draining {} events of 300 bytes to the null sink, against COPY BINARY of the same rows to a "
        "client\n\n"
        "| payload type | COPY, events/s | relay, events/s | ratio | relay CPU, s per 1,000,000 | resident "
        "MB |\n"
        "|---|---|---|---|---|---|\n",
        events);
    const auto n = static_cast<double>(events);
    for (const std::string type : {"jsonb", "json", "text", "bytea"}) {
        Connection db(url);
        const std::string outbox = "events_" + type;
        fill(db, outbox, type, events);
        copy_binary(db, outbox);
        std::vector<double> copies, drains, processor, memory;
        for (long round = 0; round < rounds; ++round) {
            copies.push_back(copy_binary(db, outbox));
            const Drain one = drain(url, folder, outbox, "type = \"null\"");
            drains.push_back(one.seconds);
            processor.push_back(one.processor);
            memory.push_back(one.memory);
        }
        fmt::print("| {} | {:.0f} | {:.0f} | {:.2f} | {:.2f} | {:.0f} |\n", type, n / median(copies),
                   n / median(drains), median(copies) / median(drains), median(processor) / n * 1e6,
                   median(memory));
        std::fflush(stdout);
        bars.push_back({"null, " + type, "COPY BINARY or bare producer", n / median(copies),
                        fmt::format("{:.0f}/s", n / median(copies))});
        bars.push_back(
            {"null, " + type, "relay", n / median(drains), fmt::format("{:.0f}/s", n / median(drains))});
        db.exec("select baton.drop_outbox('" + outbox + "')");
    }
}

// The message that the relay makes of an event like those in the log.
struct Sample {
    std::string payload = R"({"order": 123456, "note": ")" + std::string(260, 'x') + "\"}";
    Event event;
    std::string storage;
    Messages messages;

    explicit Sample(const Rival& rival) {
        event.id = 123456;
        event.event_id = "0193a5c2-7d4e-7b1a-9c3f-0123456789ab";
        event.event_type = "order.placed";
        event.aggregate_id = "123456";
        event.partition_key = "k3456";
        event.schema_version = "1";
        event.payload = payload;
        event.occurred_at =
            std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
        const auto config = relay::parse_config(config_of("sample", "events", rival.sink), "bench");
        const auto& pipeline = config.pipelines.front();
        const auto sink = pipeline.below("sink");
        relay::Transform(sink, pipeline.below("filter"), brokers::form_of(sink))
            .render(event, messages, storage);
    }
    const Message& message() const { return messages.front(); }
};

double own_processor_time() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds_of = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

// Saturate a broker, bare and by the relay; returns the relay's rate.
double saturate(const Rival& rival, const std::string& url, const std::filesystem::path& folder,
                const std::string& outbox, long events, long rounds, std::vector<Bar>& bars) {
    const Sample sample(rival);
    const auto producer = rival.producer();
    const auto n = static_cast<double>(events);
    std::vector<double> bare, bare_processor, carried, processor, memory;
    producer->send(sample.message(), std::min(events, 20'000L));  // warms both
    for (long round = 0; round < rounds; ++round) {
        const double before = own_processor_time();
        bare.push_back(seconds([&] { producer->send(sample.message(), events); }));
        bare_processor.push_back(own_processor_time() - before);
        const Drain one = drain(url, folder, outbox, rival.sink);
        carried.push_back(one.seconds);
        processor.push_back(one.processor);
        memory.push_back(one.memory);
    }
    fmt::print("| {} | {:.0f} | {:.0f} | {:.2f} | {:.2f} | {:.2f} | {:.0f} |\n", rival.name, n / median(bare),
               n / median(carried), median(bare) / median(carried), median(bare_processor) / n * 1e6,
               median(processor) / n * 1e6, median(memory));
    std::fflush(stdout);
    bars.push_back({rival.name, "COPY BINARY or bare producer", n / median(bare),
                    fmt::format("{:.0f}/s", n / median(bare))});
    bars.push_back({rival.name, "relay", n / median(carried), fmt::format("{:.0f}/s", n / median(carried))});
    return n / median(carried);
}

// Milliseconds from the moment at which a writer knew of its commit to the sink's report of the broker's
// acknowledgement, for transactions of `rows` events that begin every `pace`.
std::vector<double> latencies(const Rival& rival, const std::string& url, int transactions, int rows,
                              std::chrono::microseconds pace) {
    Connection db(url);
    const std::string group = new_group();
    const auto config = relay::parse_config(config_of(group, "events", rival.sink, "latest"), "bench");
    auto parts = assembly::make_parts(config.pipelines.front(), {url, show_life()});
    const auto count = static_cast<std::size_t>(transactions) * static_cast<std::size_t>(rows);
    const long base = std::stol(db.value("select coalesce(max(id), 0) from events"));
    std::vector<Clock::time_point> committed(count), delivered(count);
    std::atomic<std::size_t> arrived{0};
    parts.on_delivered = [&](const Event& event) {
        const auto place = static_cast<std::size_t>(event.id - base - 1);
        if (place < count) delivered[place] = Clock::now();
        ++arrived;
    };
    relay::Pipeline pipeline(std::move(parts));
    pipeline.start();
    while (pipeline.status().state != relay::PipelineState::running) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(200ms);
    db.prepare("write",
               "insert into events (event_type, aggregate_id, partition_key, payload) select 'order.placed', "
               "i::text, 'k' || i, jsonb_build_object('order', i, 'note', repeat('x', 260)) "
               "from generate_series(1, " +
                   std::to_string(rows) + ") i");
    auto next = Clock::now();
    for (int i = 0; i < transactions; ++i) {
        std::this_thread::sleep_until(next);
        next += pace;
        db.run_prepared("write");
        std::fill_n(committed.begin() + static_cast<long>(i) * rows, rows, Clock::now());
    }
    const auto limit = Clock::now() + 60s;
    while (arrived < count && Clock::now() < limit) std::this_thread::sleep_for(5ms);
    pipeline.request_stop();
    pipeline.join();
    db.exec("select baton.drop_consumer_group('" + group + "')");
    if (arrived < count)
        throw std::runtime_error(fmt::format("only {} of {} events arrived", arrived.load(), count));
    std::vector<double> times;
    for (std::size_t i = 0; i < count; ++i)
        times.push_back(std::max(0.0, Seconds(delivered[i] - committed[i]).count() * 1000));
    return times;
}

std::string spread(const std::vector<double>& times) {
    return fmt::format("{:.2f} / {:.2f} / {:.2f}", percentile(times, 0.5), percentile(times, 0.99),
                       percentile(times, 0.999));
}

void show_latency(const Rival& rival, const std::string& url, double saturation) {
    std::vector<double> own;
    if (rival.producer) {
        const Sample sample(rival);
        const auto producer = rival.producer();
        for (int i = 0; i < 2000; ++i) {
            const double time = seconds([&] { producer->send_and_wait(sample.message()); }) * 1000;
            if (i >= 200) own.push_back(time);
            std::this_thread::sleep_for(3ms);
        }
    }
    const auto idle = latencies(rival, url, 2000, 1, 3ms);
    // half of what the relay can carry, in 250 transactions per second, for 8 seconds
    const int rows = std::max(1, static_cast<int>(saturation / 2 / 250));
    const auto busy = latencies(rival, url, 2000, rows, 4ms);
    fmt::print("| {} | {} | {} | {} | {} |\n", rival.name, own.empty() ? "" : spread(own), spread(idle),
               rows * 250, spread(busy));
    std::fflush(stdout);
}

// Transactions per second of eight writers.
double writers(const std::string& url, double duration) {
    std::atomic<bool> stop{false};
    std::atomic<long> written{0};
    std::vector<std::thread> sessions;
    for (int i = 0; i < 8; ++i)
        sessions.emplace_back([&] {
            Connection db(url);
            db.prepare(
                "write",
                "with o as (insert into orders (note) values (repeat('n', 100)) returning id) insert into "
                "events (event_type, aggregate_id, payload) select 'order.placed', id::text, "
                "jsonb_build_object('order', id, 'note', repeat('x', 260)) from o");
            while (!stop) {
                db.run_prepared("write");
                ++written;
            }
        });
    std::this_thread::sleep_for(Seconds(duration));
    stop = true;
    for (auto& session : sessions) session.join();
    return static_cast<double>(written) / duration;
}

void slow_down(const Rival& rival, const std::string& url, const std::filesystem::path& folder, long rounds) {
    std::vector<double> ratios, alone;
    for (long round = 0; round < rounds; ++round) {
        const double without = writers(url, 3);
        const std::string group = new_group();
        RelayProcess relay(url, folder, config_of(group, "events", rival.sink, "latest"));
        std::this_thread::sleep_for(500ms);
        const double with = writers(url, 3);
        relay.stop();
        Connection(url).exec("select baton.drop_consumer_group('" + group + "', true)");
        alone.push_back(without);
        ratios.push_back(with / without);
    }
    fmt::print("| {} | {:.0f} | {:.2f} |\n", rival.name, median(alone), median(ratios));
    std::fflush(stdout);
}

void run(const std::string& url, const std::filesystem::path& folder, const Selection& selection) {
    const long rounds = setting("BATON_BENCH_ROUNDS", 3);
    const long events = setting("BATON_BENCH_BROKER_EVENTS", 1'000'000);
    std::vector<Bar> bars;
    if (selection.part("null"))
        null_sink(url, folder, setting("BATON_BENCH_EVENTS", 1'000'000), rounds, bars);

    Connection db(url);
    db.exec("create table orders (id bigint generated always as identity primary key, note text)");
    fill(db, "events", "jsonb", events);
    test::KafkaServer kafka;
    test::NatsServer nats;
    test::RedisServer redis;
    test::RabbitServer rabbit;
    struct Contest {
        test::Broker* broker;
        std::function<Rival()> prepare;
        std::optional<Rival> rival;
        double rate = 40'000;  // of the relay, when it was not measured
    };
    std::vector<Contest> contests{
        {&kafka,
         [&] {
             const std::string brokers = "127.0.0.1:" + std::to_string(kafka.port());
             create_kafka_topic(brokers, "bench");
             return Rival{"kafka", "type = \"kafka\"\nbrokers = \"" + brokers + "\"\ntopic = \"bench\"",
                          [brokers] { return make_kafka_producer(brokers, "bench"); }};
         },
         {}},
        {&nats,
         [&] {
             create_nats_stream(nats.url(), "bench", "bench");
             return Rival{"nats", "type = \"nats\"\nurl = \"" + nats.url() + "\"\nsubject = \"bench\"",
                          [&nats] { return make_nats_producer(nats.url(), "bench"); }};
         },
         {}},
        {&redis,
         [&] {
             return Rival{"redis",
                          "type = \"redis\"\nurl = \"redis://127.0.0.1:" + std::to_string(redis.port()) +
                              "\"\nstream = \"bench\"",
                          [&redis] { return make_redis_producer(redis.port(), "bench"); }};
         },
         {}},
        {&rabbit,
         [&] {
             create_rabbitmq_queue(rabbit.port(), "bench");
             return Rival{"rabbitmq",
                          "type = \"rabbitmq\"\nurl = \"amqp://guest:guest@127.0.0.1:" +
                              std::to_string(rabbit.port()) + "\"\nrouting_key = \"bench\"",
                          [&rabbit] { return make_rabbitmq_producer(rabbit.port(), "bench"); }};
         },
         {}}};
    const std::vector<std::string> names{"kafka", "nats", "redis", "rabbitmq"};
    // Each broker runs alone, and is prepared when it starts for the first time.
    const auto with_each = [&](const std::function<void(Contest&)>& measure) {
        for (std::size_t i = 0; i < contests.size(); ++i) {
            if (!selection.broker(names[i])) continue;
            contests[i].broker->start();
            if (!contests[i].rival) contests[i].rival = contests[i].prepare();
            measure(contests[i]);
            contests[i].broker->stop();
        }
    };
    if (selection.part("drain")) {
        fmt::print(
            "\n## Draining {} events to a broker (RabbitMQ: a tenth), against its library's own loop with "
            "acknowledgements\n\n"
            "| broker | bare, events/s | relay, events/s | ratio | bare CPU, s per 1,000,000 | relay CPU | "
            "resident MB |\n"
            "|---|---|---|---|---|---|---|\n",
            events);
        const long few = std::max(events / 10, 1L);
        with_each([&](Contest& contest) {
            if (contest.broker == &rabbit) {
                fill(db, "few_events", "jsonb", few);
                contest.rate = saturate(*contest.rival, url, folder, "few_events", few, rounds, bars);
                return;
            }
            contest.rate = saturate(*contest.rival, url, folder, "events", events, rounds, bars);
            if (contest.broker != &kafka) return;
            fill(db, "events_as_json", "json", events);
            Rival as_json = *contest.rival;
            as_json.name += ", payload as json";
            saturate(as_json, url, folder, "events_as_json", events, rounds, bars);
            db.exec("select baton.drop_outbox('events_as_json')");
        });
    }
    const Rival nothing{"null", "type = \"null\"", {}};
    if (selection.part("latency")) {
        fmt::print(
            "\n## Milliseconds from commit to the broker's acknowledgement, p50 / p99 / p99.9\n\n"
            "| broker | its own round trip | relay, idle | events/s | relay, half of saturation "
            "|\n|---|---|---|---|---|\n");
        show_latency(nothing, url, 40'000);
        with_each([&](Contest& contest) {
            // A queue that nobody reads slows RabbitMQ down the longer it is.
            if (contest.broker == &rabbit) create_rabbitmq_queue(rabbit.port(), "bench");
            show_latency(*contest.rival, url, std::min(contest.rate, 40'000.0));
        });
    }
    if (selection.part("writers")) {
        fmt::print(
            "\n## Eight writers with an event in each transaction, while the relay carries them away\n\n"
            "| sink | writers alone, tps | with the relay |\n|---|---|---|\n");
        slow_down(nothing, url, folder, rounds);
        with_each([&](Contest& contest) { slow_down(*contest.rival, url, folder, rounds); });
    }
    if (const char* picture = std::getenv("BATON_BENCH_CHART"); picture != nullptr && !bars.empty())
        write_chart(picture, "Events per second: the relay against the bare producer", bars);
}

}  // namespace

int main(int argc, char** argv) {
    std::string folder = (std::filesystem::temp_directory_path() / "baton-bench-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) return 1;
    std::filesystem::permissions(folder,
                                 std::filesystem::perms{0755});  // the server's account goes through it
    local_server::LocalServer server({folder + "/data",
                                      0,
                                      true,
                                      true,
                                      {"shared_buffers = '1GB'", "max_wal_size = '8GB'",
                                       "checkpoint_timeout = '30min'", "max_connections = 100"}});
    int status = 0;
    try {
        server.create();
        server.start();
        Connection(server.url()).exec("create extension baton");
        run(server.url(), folder, {std::vector<std::string>(argv + 1, argv + argc)});
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        status = 1;
    }
    server.remove();
    std::filesystem::remove_all(folder);
    return status;
}
