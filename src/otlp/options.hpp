#pragma once
// What can be set about the way to a collector.

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace baton::otlp {

using std::chrono::milliseconds;

struct Options {
    std::string url;                              // with the path: http://127.0.0.1:4318/v1/traces
    std::map<std::string, std::string> headers;   // secrets stand here: never written to a log
    std::map<std::string, std::string> resource;  // service.name and so on
    milliseconds timeout{10'000};                 // of a request
    milliseconds interval{5'000};                 // spans wait for others for so long
    milliseconds flush_limit{5'000};              // at the end
    std::size_t queue = 8192;                     // spans that wait; more are dropped
    std::size_t batch = 512;                      // spans of a request
    bool gzip = false;
    std::string ca;  // files; empty: the system's authorities, no certificate of our own
    std::string certificate;
    std::string key;
};

}  // namespace baton::otlp
