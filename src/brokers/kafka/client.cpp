#include "brokers/kafka/client.hpp"

#include <algorithm>
#include <array>

namespace baton::brokers {

std::string set_kafka_property(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
    std::array<char, 512> error{};
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error.data(), error.size()) == RD_KAFKA_CONF_OK)
        return {};
    return error.data();
}

KafkaConf make_kafka_conf(const KafkaProperties& properties) {
    KafkaConf conf(rd_kafka_conf_new(), &rd_kafka_conf_destroy);
    for (const auto& [name, value] : properties)
        if (const auto complaint = set_kafka_property(conf.get(), name, value); !complaint.empty())
            throw Error(complaint);
    rd_kafka_conf_set_log_cb(conf.get(), [](const rd_kafka_t*, int, const char*, const char*) {});
    return conf;
}

rd_kafka_t* make_kafka_handle(rd_kafka_type_t type, KafkaConf conf) {
    std::array<char, 512> error{};
    rd_kafka_t* handle = rd_kafka_new(type, conf.get(), error.data(), error.size());
    if (handle == nullptr)
        throw Error(std::string("cannot make a kafka ") +
                    (type == RD_KAFKA_PRODUCER ? "producer: " : "consumer: ") + error.data());
    [[maybe_unused]] const auto* owned_by_handle = conf.release();
    return handle;
}

// Whoever may change a pipeline may not therefore run what he likes on the relay's machine. Some of these run
// as soon as they are set.
constexpr std::array<std::string_view, 4> foreign_code{"plugin.library.paths", "ssl.engine.location",
                                                       "ssl.providers", "sasl.kerberos.kinit.cmd"};

KafkaProperties read_kafka_properties(const relay::Settings& settings,
                                      std::span<const KafkaProperty> defaults,
                                      std::span<const KafkaProperty> fixed) {
    KafkaProperties properties;
    const KafkaConf trial(rd_kafka_conf_new(), &rd_kafka_conf_destroy);
    for (const auto& [name, value] : defaults) properties[name] = value;
    for (const auto& [name, value] : settings.table("properties")) {
        for (const auto& [ours, needed] : fixed)
            if (name == ours && value != needed)
                settings.refuse("properties." + name, "cannot be set",
                                "baton needs it to be " + std::string(needed));
        if (std::ranges::find(foreign_code, name) != foreign_code.end())
            settings.refuse("properties." + name, "cannot be set",
                            "it would run code of elsewhere in the relay");
        const auto complaint = set_kafka_property(trial.get(), name, value);
        if (!complaint.empty())
            settings.refuse("properties." + name, "is refused by librdkafka: " + complaint);
        properties[name] = value;
    }
    for (const auto& [name, value] : fixed) properties[name] = value;
    if (settings.has("brokers") || !properties.contains("bootstrap.servers"))
        properties["bootstrap.servers"] = settings.text("brokers");
    return properties;
}

}  // namespace baton::brokers
