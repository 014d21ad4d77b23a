#include "brokers/nats/audit_client.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "baton/error.hpp"
#include "wire/encoding.hpp"

namespace baton::brokers {

namespace {

using OptionsPtr = std::unique_ptr<natsOptions, decltype(&natsOptions_Destroy)>;

void need(natsStatus status, const std::string& what) {
    if (status == NATS_OK) return;
    const char* words = nats_GetLastError(nullptr);
    throw Error("nats: cannot " + what + ": " + natsStatus_GetText(status) +
                (words != nullptr && *words != '\0' ? std::string(", ") + words : ""));
}

OptionsPtr make_options(const std::string& url) {
    natsOptions* made = nullptr;
    need(natsOptions_Create(&made), "make options");
    OptionsPtr options(made, &natsOptions_Destroy);
    need(natsOptions_SetURL(made, url.c_str()), "understand the url");
    need(natsOptions_SetAllowReconnect(made, false), "turn reconnecting off");
    return options;
}

std::string decode(const std::string& text) {
    return wire::base64_decode(text).value_or("");
}

}  // namespace

NatsClient::NatsClient(const relay::Settings& settings) {
    const std::string url = settings.text("url");
    const auto options = make_options(url);
    const auto text = [&settings](const char* key) { return settings.text(key, ""); };
    if (!text("username").empty())
        need(natsOptions_SetUserInfo(options.get(), text("username").c_str(), text("password").c_str()),
             "set the user");
    if (!text("token").empty())
        need(natsOptions_SetToken(options.get(), text("token").c_str()), "set the token");
    if (!text("credentials").empty())
        need(natsOptions_SetUserCredentialsFromFiles(options.get(), text("credentials").c_str(), nullptr),
             "use the credentials");
    if (!text("tls_ca").empty())
        need(natsOptions_LoadCATrustedCertificates(options.get(), text("tls_ca").c_str()), "load tls_ca");
    if (!text("tls_ca").empty() || url.starts_with("tls://"))
        need(natsOptions_SetSecure(options.get(), true), "turn TLS on");
    connect(options.get());
}

NatsClient::NatsClient(const std::string& url) {
    connect(make_options(url).get());
}

void NatsClient::connect(natsOptions* options) {
    need(natsConnection_Connect(&connection_, options), "connect");
    const auto status = natsConnection_JetStream(&jetstream_, connection_, nullptr);
    if (status != NATS_OK) natsConnection_Destroy(connection_);
    need(status, "use JetStream");
}

NatsClient::~NatsClient() {
    natsSubscription_Destroy(following_);
    jsCtx_Destroy(jetstream_);
    natsConnection_Destroy(connection_);
}

void NatsClient::add_stream(const std::string& name, const std::string& subject, int largest) {
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    const char* subjects[] = {subject.c_str()};
    config.Name = name.c_str();
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    if (largest > 0) config.MaxMsgSize = largest;
    need(js_AddStream(nullptr, jetstream_, &config, nullptr, nullptr), "add stream " + name);
}

void NatsClient::delete_stream(const std::string& name) {
    need(js_DeleteStream(jetstream_, name.c_str(), nullptr, nullptr), "delete stream " + name);
}

std::vector<Received> NatsClient::read(const std::string& stream) {
    jsStreamInfo* info = nullptr;
    need(js_GetStreamInfo(&info, jetstream_, stream.c_str(), nullptr, nullptr), "find stream " + stream);
    const auto last = info->State.LastSeq;
    jsStreamInfo_Destroy(info);
    std::vector<Received> messages;
    for (std::uint64_t number = 1; number <= last; ++number) messages.push_back(get(stream, number));
    return messages;
}

void NatsClient::follow(const std::string& stream, std::uint64_t next) {
    jsSubOptions options;
    jsSubOptions_Init(&options);
    options.Stream = stream.c_str();
    options.Config.AckPolicy = js_AckNone;
    options.Config.DeliverPolicy = js_DeliverByStartSequence;
    options.Config.OptStartSeq = next;
    need(js_SubscribeSync(&following_, jetstream_, (stream + ".>").c_str(), nullptr, &options, nullptr),
         "follow stream " + stream);
}

std::vector<std::string> NatsClient::read_on(std::uint64_t& next, std::chrono::milliseconds patience) {
    std::vector<std::string> ids;
    for (;;) {
        natsMsg* message = nullptr;
        const auto status =
            natsSubscription_NextMsg(&message, following_, ids.empty() ? patience.count() : 1);
        if (status == NATS_TIMEOUT) return ids;
        need(status, "read on");
        const std::unique_ptr<natsMsg, decltype(&natsMsg_Destroy)> owned(message, &natsMsg_Destroy);
        const char* id = nullptr;
        if (natsMsgHeader_Get(message, "Nats-Msg-Id", &id) == NATS_OK) ids.emplace_back(id);
        jsMsgMetaData* data = nullptr;
        if (natsMsg_GetMetaData(&data, message) == NATS_OK) next = data->Sequence.Stream + 1;
        jsMsgMetaData_Destroy(data);
        if (ids.size() >= 1000) return ids;
    }
}

// Ask the server itself: the library reads an empty header as the line that follows.
Received NatsClient::get(const std::string& stream, std::uint64_t sequence) {
    natsMsg* reply = nullptr;
    const std::string subject = "$JS.API.STREAM.MSG.GET." + stream;
    const std::string request = R"({"seq":)" + std::to_string(sequence) + "}";
    need(natsConnection_RequestString(&reply, connection_, subject.c_str(), request.c_str(), 30'000),
         "get a message");
    const auto answer =
        nlohmann::json::parse(natsMsg_GetData(reply), natsMsg_GetData(reply) + natsMsg_GetDataLength(reply));
    natsMsg_Destroy(reply);
    const auto& message = answer.at("message");
    Received out;
    out.body = decode(message.value("data", ""));
    std::istringstream headers(decode(message.value("hdrs", "")));
    for (std::string line; std::getline(headers, line);) {
        const auto colon = line.find(": ");
        if (colon != std::string::npos)
            out.headers[line.substr(0, colon)] = line.substr(colon + 2, line.size() - colon - 3);
    }
    out.id = out.headers["Nats-Msg-Id"];
    out.key = out.headers["partition-key"];
    return out;
}

}  // namespace baton::brokers
