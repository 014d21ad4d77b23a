#include "brokers/amqp1/settings.hpp"

#include "wire/url.hpp"

namespace baton::brokers {

using namespace std::chrono_literals;

namespace {

std::string read_mechanism(const relay::Settings& settings, const Amqp1Server& server) {
    const std::string fallback = !server.user.empty()       ? "plain"
                                 : !server.tls.cert.empty() ? "external"
                                                            : "anonymous";
    const std::string name = settings.text("sasl", fallback);
    if (name == "plain" && server.user.empty())
        settings.refuse("sasl", "is plain, and there is no user name", "set username and password");
    if (name == "external" && server.tls.cert.empty())
        settings.refuse("sasl", "is external, and there is no certificate to show",
                        "set tls_cert and tls_key");
    if (name == "plain") return "PLAIN";
    if (name == "external") return "EXTERNAL";
    if (name == "anonymous") return "ANONYMOUS";
    if (name == "none") return {};
    settings.refuse("sasl", "is \"" + name + "\"", "use plain, external, anonymous or none");
}

}  // namespace

Amqp1Server read_amqp1_server(const relay::Settings& settings) {
    Amqp1Server server;
    wire::Url url;
    try {
        url = wire::parse_url(settings.text("url", "amqp://localhost:5672"));
    } catch (const UsageError& error) {
        settings.refuse("url", std::string("cannot be used: ") + error.what(), error.hint());
    }
    if (url.scheme != "amqp" && url.scheme != "amqps")
        settings.refuse("url", "must begin with amqp:// or amqps://");
    if (!url.path.empty())
        settings.refuse("url", "has a path", "queues and topics have a setting of their own: address");
    server.host = url.host;
    server.tls = wire::read_tls(settings, url.scheme == "amqps");
    server.port = url.port != 0 ? url.port : server.tls.on ? 5671 : 5672;
    server.user = settings.text("username", url.user);
    server.password = settings.text("password", url.password);
    server.mechanism = read_mechanism(settings, server);
    const std::string kind = settings.text("kind", "queue");
    if (kind != "queue" && kind != "topic" && kind != "any")
        settings.refuse("kind", "is \"" + kind + "\"", "use queue, topic or any");
    if (kind != "any") server.capability = kind;
    server.connect_timeout = settings.duration("connect_timeout", 5s);
    server.keep_alive = settings.duration("keep_alive", 60s);
    if (server.keep_alive < 0ms || (server.keep_alive > 0ms && server.keep_alive < 1s) ||
        server.keep_alive > 24h)
        settings.refuse("keep_alive", "must be 0 or between 1s and 24h");
    return server;
}

}  // namespace baton::brokers
