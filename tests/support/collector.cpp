#include "support/collector.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace baton::test {

namespace {

using nlohmann::json;

constexpr int unavailable = 77;

std::map<std::string, std::string> texts_of(const json& object) {
    std::map<std::string, std::string> made;
    for (const auto& [name, value] : object.items())
        made[name] = value.is_string() ? value.get<std::string>() : value.dump();
    return made;
}

}  // namespace

Collector::Collector() : Broker("collector") {
    answer("take");
    const auto fetched = run({.argv = {BATON_COLLECTOR, "--fetch"}});
    if (fetched.exit_code == unavailable)
        throw Unavailable("opentelemetry-proto could not be fetched: " + fetched.output);
    if (fetched.exit_code != 0) throw Error("the collector cannot run: " + fetched.output);
}

void Collector::answer(const std::string& mode) const {
    std::ofstream(folder() / "mode.new") << mode;
    std::filesystem::rename(folder() / "mode.new", folder() / "mode");
}

Command Collector::command() {
    return {.argv = {BATON_COLLECTOR, std::to_string(port()), folder().string()}};
}

bool Collector::ready() {
    return accepts_connections(port());
}

std::vector<CollectedSpan> Collector::spans() const {
    std::vector<CollectedSpan> all;
    std::ifstream file(folder() / "spans");
    for (std::string line; std::getline(file, line) && !file.eof();) {
        const json read = json::parse(line);
        CollectedSpan span;
        span.trace = read.at("trace");
        span.id = read.at("id");
        span.parent = read.at("parent");
        span.name = read.at("name");
        span.state = read.at("state");
        span.error = read.at("error");
        span.authorization = read.at("authorization");
        span.kind = read.at("kind");
        span.start = read.at("start");
        span.end = read.at("end");
        span.links = read.at("links").get<std::vector<std::string>>();
        span.attributes = texts_of(read.at("attributes"));
        span.resource = texts_of(read.at("resource"));
        all.push_back(std::move(span));
    }
    return all;
}

std::string Collector::refused() const {
    std::ifstream file(folder() / "refused");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace baton::test
