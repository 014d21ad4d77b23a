#include "assembly/example.hpp"

#include <nlohmann/json.hpp>

#include "brokers/registry.hpp"

namespace baton::assembly {

std::string example_file(const std::string& sink, const std::string& outbox, const std::string& name) {
    const auto quoted = [](const std::string& text) {
        return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    };
    return "# A pipeline for baton relay --config FILE. Check it with: baton pipelines lint FILE\n"
           "# Everything that can be set: docs/relay.md\n"
           "[[pipeline]]\nname = " +
           quoted(name) +
           "                # the consumer group has this name, too\n\n[pipeline.source]\noutbox = " +
           quoted(outbox) +
           "\n# start = \"latest\"                   # a new group begins with what comes from now on\n\n"
           "# [pipeline.filter]                   # patterns with * and ?, ! excludes\n"
           "# event_types = [\"order.*\", \"!order.viewed\"]\n\n[pipeline.sink]\n" +
           brokers::example_of_sink(sink) +
           "\n# [pipeline.failure]\n# attempts = 8                         # in a row, before an event is "
           "parked\n# max_attempts = 10                    # before it is a dead letter\n";
}

}  // namespace baton::assembly
