#include "server/process_metrics.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

namespace baton::server {

using prometheus::MetricFamily;
using prometheus::MetricType;

namespace {

void add(std::vector<MetricFamily>& families, const char* name, const char* help, MetricType type,
         double value) {
    MetricFamily family{name, help, type, {{}}};
    (type == MetricType::Counter ? family.metric[0].counter.value : family.metric[0].gauge.value) = value;
    families.push_back(std::move(family));
}

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double cpu_seconds() {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct Memory {
    double all = 0;
    double resident = 0;
};

Memory memory_bytes() {
    std::ifstream file("/proc/self/statm");
    Memory pages;
    file >> pages.all >> pages.resident;
    const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
    return {pages.all * page, pages.resident * page};
}

double entries(const char* folder, std::error_code& error) {
    double count = 0;
    for (auto at = std::filesystem::directory_iterator(folder, error);
         !error && at != std::filesystem::directory_iterator(); at.increment(error))
        ++count;
    return count;
}

double threads() {
    std::error_code error;
    return entries("/proc/self/task", error);
}

double most_files() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return static_cast<double>(limit.rlim_cur);
}

// Without a file left to look with, all of them are open.
double open_files() {
    std::error_code error;
    const double all = entries("/proc/self/fd", error);
    if (error == std::errc::too_many_files_open) return most_files();
    return std::max(all - 1, 0.0);  // without the one that looks
}

// Since when the process is there; what came before main() is short.
const double started_at =
    std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();

}  // namespace

void add_process_metrics(std::vector<MetricFamily>& families) {
    add(families, "process_cpu_seconds_total", "CPU time that the relay used", MetricType::Counter,
        cpu_seconds());
    const auto memory = memory_bytes();
    add(families, "process_resident_memory_bytes", "memory that the relay has", MetricType::Gauge,
        memory.resident);
    add(families, "process_virtual_memory_bytes", "addresses that the relay has", MetricType::Gauge,
        memory.all);
    add(families, "process_threads", "threads of the relay", MetricType::Gauge, threads());
    add(families, "process_open_fds", "open files and connections", MetricType::Gauge, open_files());
    add(families, "process_max_fds", "most open files and connections", MetricType::Gauge, most_files());
    add(families, "process_start_time_seconds", "when the relay started, in seconds since 1970",
        MetricType::Gauge, started_at);
}

}  // namespace baton::server
