#include "sinks/registry.hpp"

#include "relay/transform.hpp"
#include "sinks/file.hpp"
#include "sinks/http.hpp"
#include "sinks/kafka.hpp"
#include "sinks/nats.hpp"
#include "sinks/null.hpp"
#include "sinks/postgres.hpp"
#include "sinks/rabbitmq.hpp"
#include "sinks/redis.hpp"
#include "sinks/sqs.hpp"
#include "sinks/stdout.hpp"

namespace baton::sinks {

const std::map<std::string, MakeSink>& registry() {
    static const std::map<std::string, MakeSink> sinks{
        {"file", make_file}, {"http", make_http},         {"kafka", make_kafka},       {"nats", make_nats},
        {"null", make_null}, {"postgres", make_postgres}, {"rabbitmq", make_rabbitmq}, {"redis", make_redis},
        {"sqs", make_sqs},   {"stdout", make_stdout},
    };
    return sinks;
}

std::unique_ptr<relay::Sink> make_sink(const relay::Settings& settings) {
    const std::string type = settings.text("type");
    const auto found = registry().find(type);
    if (found == registry().end()) {
        std::string known;
        for (const auto& [name, make] : registry()) known += (known.empty() ? "" : ", ") + name;
        settings.refuse("type", "is \"" + type + "\", which is no sink", "known sinks: " + known);
    }
    auto sink = found->second(settings);
    relay::know_transform_settings(settings);
    settings.refuse_unknown();
    return sink;
}

}  // namespace baton::sinks
