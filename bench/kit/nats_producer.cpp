#include <nats/nats.h>

#include <stdexcept>

#include "kit/producer.hpp"

namespace baton::bench {

namespace {

void check(natsStatus status) {
    if (status != NATS_OK) throw std::runtime_error(std::string("nats: ") + natsStatus_GetText(status));
}

class NatsProducer final : public Producer {
  public:
    NatsProducer(const std::string& url, std::string subject) : subject_(std::move(subject)) {
        check(natsConnection_ConnectTo(&connection_, url.c_str()));
        jsOptions options;
        jsOptions_Init(&options);
        options.PublishAsync.MaxPending = 5000;
        options.PublishAsync.StallWait = 10000;
        check(natsConnection_JetStream(&context_, connection_, &options));
    }
    ~NatsProducer() override {
        jsCtx_Destroy(context_);
        natsConnection_Destroy(connection_);
    }
    NatsProducer(const NatsProducer&) = delete;
    NatsProducer& operator=(const NatsProducer&) = delete;

    void send(const Message& message, long times) override {
        for (long i = 0; i < times; ++i) {
            natsMsg* made = make(message);
            check(js_PublishMsgAsync(context_, &made, nullptr));
        }
        jsPubOptions options;
        jsPubOptions_Init(&options);
        options.MaxWait = 60000;
        check(js_PublishAsyncComplete(context_, &options));
    }

    void send_and_wait(const Message& message) override {
        natsMsg* made = make(message);
        check(js_PublishMsg(nullptr, context_, made, nullptr, nullptr));
        natsMsg_Destroy(made);
    }

  private:
    natsMsg* make(const Message& message) {
        natsMsg* made = nullptr;
        check(natsMsg_Create(&made, subject_.c_str(), nullptr, message.body.data(),
                             static_cast<int>(message.body.size())));
        for (const auto& header : message.headers)
            natsMsgHeader_Set(made, header.name.c_str(), header.value.c_str());
        natsMsgHeader_Set(made, "Nats-Msg-Id", (prefix_ + std::to_string(++count_)).c_str());
        return made;
    }

    std::string subject_;
    natsConnection* connection_ = nullptr;
    jsCtx* context_ = nullptr;
    std::string prefix_ = "00000000-0000-7000-8000-" + std::to_string(reinterpret_cast<std::uintptr_t>(this));
    long count_ = 0;
};

}  // namespace

std::unique_ptr<Producer> make_nats_producer(const std::string& url, const std::string& subject) {
    return std::make_unique<NatsProducer>(url, subject);
}

void create_nats_stream(const std::string& url, const std::string& stream, const std::string& subject) {
    natsConnection* connection = nullptr;
    jsCtx* context = nullptr;
    check(natsConnection_ConnectTo(&connection, url.c_str()));
    check(natsConnection_JetStream(&context, connection, nullptr));
    jsStreamConfig wanted;
    jsStreamConfig_Init(&wanted);
    const char* subjects[] = {subject.c_str()};
    wanted.Name = stream.c_str();
    wanted.Subjects = subjects;
    wanted.SubjectsLen = 1;
    check(js_AddStream(nullptr, context, &wanted, nullptr, nullptr));
    jsCtx_Destroy(context);
    natsConnection_Destroy(connection);
}

}  // namespace baton::bench
