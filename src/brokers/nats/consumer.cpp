#include "brokers/nats/consumer.hpp"

namespace baton::brokers {

void need_nats(natsStatus status, const std::string& doing) {
    if (status != NATS_OK) throw ConnectionError("nats, " + doing + ": " + nats_words(status));
}

NatsLink::NatsLink(const NatsOptions& server) {
    const auto made = make_nats_options(server);
    // The library would write to the terminal.
    natsOptions_SetErrorHandler(
        made.get(), [](natsConnection*, natsSubscription*, natsStatus, void*) {}, nullptr);
    need_nats(natsConnection_Connect(&connection_, made.get()), "connecting");
    jsOptions settings;
    jsOptions_Init(&settings);
    settings.Wait = server.connect_timeout.count();
    if (const auto status = natsConnection_JetStream(&jetstream_, connection_, &settings);
        status != NATS_OK) {
        natsConnection_Destroy(connection_);
        need_nats(status, "using JetStream");
    }
}

NatsLink::~NatsLink() {
    jsCtx_Destroy(jetstream_);
    natsConnection_Destroy(connection_);
}

namespace {

NatsConsumerInfo make_consumer(const NatsLink& link, const NatsConsumerOptions& options) {
    jsConsumerConfig config;
    jsConsumerConfig_Init(&config);
    config.Durable = options.durable.c_str();
    config.DeliverPolicy = options.from_end ? js_DeliverNew : js_DeliverAll;
    config.AckPolicy = js_AckExplicit;
    config.AckWait = std::chrono::nanoseconds(options.ack_wait).count();
    config.MaxDeliver = -1;
    config.MaxAckPending = options.max_ack_pending;
    if (!options.subject.empty()) config.FilterSubject = options.subject.c_str();
    jsConsumerInfo* made = nullptr;
    jsErrCode code{};
    const auto status =
        js_AddConsumer(&made, link.jetstream(), options.stream.c_str(), &config, nullptr, &code);
    need_nats(status, "making the consumer " + options.durable + " of stream " + options.stream);
    return {made, &jsConsumerInfo_Destroy};
}

}  // namespace

NatsConsumerInfo find_nats_consumer(const NatsLink& link, const NatsConsumerOptions& options,
                                    bool may_create) {
    jsConsumerInfo* found = nullptr;
    jsErrCode code{};
    const auto status = js_GetConsumerInfo(&found, link.jetstream(), options.stream.c_str(),
                                           options.durable.c_str(), nullptr, &code);
    if (status == NATS_NOT_FOUND && code == JSConsumerNotFoundErr) {
        if (may_create) return make_consumer(link, options);
        throw Error("stream " + options.stream + " has no consumer " + options.durable,
                    "make it, or set create_consumer");
    }
    if (status == NATS_NOT_FOUND) throw Error("nats has no stream " + options.stream);
    need_nats(status, "looking for the consumer " + options.durable);
    NatsConsumerInfo info(found, &jsConsumerInfo_Destroy);
    const std::string name = "the consumer " + options.durable + " of stream " + options.stream;
    if (info->Config->DeliverSubject != nullptr)
        throw UsageError(name + " is pushed to a subject", "use a pull consumer");
    if (info->Config->AckPolicy != js_AckExplicit)
        throw UsageError(name + " does not acknowledge each message", "set its ack policy to explicit");
    if (info->Config->MaxDeliver > 0)
        throw UsageError(name + " gives a message up after " + std::to_string(info->Config->MaxDeliver) +
                             " deliveries, and it would be lost",
                         "set its max_deliver to -1");
    return info;
}

}  // namespace baton::brokers
