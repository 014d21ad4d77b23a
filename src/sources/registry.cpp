#include "sources/registry.hpp"

#include "sources/http.hpp"
#include "sources/kafka.hpp"
#include "sources/nats.hpp"
#include "sources/rabbitmq.hpp"
#include "sources/redis.hpp"
#include "sources/sqs.hpp"

namespace baton::sources {

const std::map<std::string, MakeSource>& registry() {
    static const std::map<std::string, MakeSource> sources{
        {"http", make_http},         {"kafka", make_kafka}, {"nats", make_nats},
        {"rabbitmq", make_rabbitmq}, {"redis", make_redis}, {"sqs", make_sqs},
    };
    return sources;
}

bool is_broker(const relay::Settings& source) {
    if (!source.has("type")) return false;
    const std::string type = source.text("type");
    return type != "outbox" && type != "postgres";
}

std::shared_ptr<const BrokerSource> make_source(const relay::Settings& settings, const Reader& reader) {
    const std::string type = settings.text("type");
    const auto found = registry().find(type);
    if (found == registry().end()) {
        std::string known = "outbox, postgres";
        for (const auto& [name, make] : registry()) known += ", " + name;
        settings.refuse("type", "is \"" + type + "\", which is no source", "known sources: " + known);
    }
    auto source = found->second(settings, reader);
    settings.refuse_unknown();
    return source;
}

}  // namespace baton::sources
