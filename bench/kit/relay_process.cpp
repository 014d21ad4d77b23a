#include "kit/relay_process.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "kit/measure.hpp"

namespace baton::bench {

using namespace std::chrono_literals;
using postgres::Connection;

std::string config_of(const std::string& group, const std::string& outbox, const std::string& sink,
                      const std::string& start) {
    return fmt::format(
        "[[pipeline]]\nname = \"{0}\"\n[pipeline.source]\noutbox = \"{1}\"\ngroup = \"{0}\"\nstart = "
        "\"{2}\"\n"
        "[pipeline.sink]\n{3}\n",
        group, outbox, start, sink);
}

std::string new_group() {
    static int made = 0;
    return "bench_" + std::to_string(++made);
}

RelayProcess::RelayProcess(const std::string& url, const std::filesystem::path& folder,
                           const std::string& config)
    : file_(folder / "relay.toml") {
    std::ofstream(file_) << config;
    const auto program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "baton";
    process_.emplace(Command{.argv = {program.string(), "relay", "--db", url, "--config", file_.string()},
                             .output = folder / "relay.log",
                             .dies_with_us = true});
}

double RelayProcess::peak_memory() const {
    std::ifstream status("/proc/" + std::to_string(process_->pid()) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
    return 0;
}

double RelayProcess::processor_time() const {
    std::ifstream file("/proc/" + std::to_string(process_->pid()) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream rest(text.substr(text.rfind(')') + 2));
    std::string word;
    double ticks = 0;
    for (int i = 3; i <= 15 && rest >> word; ++i)
        if (i == 14 || i == 15) ticks += std::stod(word);
    return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

Drain drain(const std::string& url, const std::filesystem::path& folder, const std::string& outbox,
            const std::string& sink) {
    const std::string group = new_group();
    Connection db(url);
    const auto last = db.value("select max(id) from " + outbox);
    db.prepare(
        "taken",
        "select exists (select from baton_internal.group_positions p join baton.consumer_groups g using "
        "(group_id) where g.group_name = '" +
            group + "' and p.owner is not null)");
    db.prepare(
        "done",
        "select exists (select from baton_internal.group_positions p join baton.consumer_groups g using "
        "(group_id) where g.group_name = '" +
            group + "' and p.after_id >= " + last + ")");
    RelayProcess relay(url, folder, config_of(group, outbox, sink));
    while (db.run_prepared("taken").text(0, 0) != "t") std::this_thread::sleep_for(1ms);
    Drain result;
    result.seconds = seconds([&] {
        while (db.run_prepared("done").text(0, 0) != "t") std::this_thread::sleep_for(5ms);
    });
    result.processor = relay.processor_time();
    result.memory = relay.peak_memory();
    relay.stop();
    db.exec("select baton.drop_consumer_group('" + group + "')");
    return result;
}

void fill(Connection& db, const std::string& outbox, const std::string& type, long events) {
    db.exec("select baton.create_outbox('" + outbox + "', payload_type => '" + type + "')");
    const std::string payload = "json_build_object('order', i, 'note', repeat('x', 260))::text";
    const std::string value =
        type == "bytea" ? "convert_to(" + payload + ", 'UTF8')" : "(" + payload + ")::" + type;
    db.query("insert into " + outbox +
                 " (event_type, aggregate_id, partition_key, payload) select 'order.placed', "
                 "i::text, 'k' || i % 10000, " +
                 value + " from generate_series(1, $1::bigint) i",
             {events});
    db.exec("vacuum analyze " + outbox);
}

}  // namespace baton::bench
