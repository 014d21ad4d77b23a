#include "brokers/mqtt/settings.hpp"

#include "wire/url.hpp"

namespace baton::brokers {

using namespace std::chrono_literals;

MqttServer read_mqtt_server(const relay::Settings& settings) {
    MqttServer server;
    wire::Url url;
    try {
        url = wire::parse_url(settings.text("url", "mqtt://localhost:1883"));
    } catch (const UsageError& error) {
        settings.refuse("url", std::string("cannot be used: ") + error.what(), error.hint());
    }
    if (url.scheme != "mqtt" && url.scheme != "mqtts")
        settings.refuse("url", "must begin with mqtt:// or mqtts://");
    if (!url.path.empty()) settings.refuse("url", "has a path", "topics have a setting of their own");
    server.host = url.host;
    server.tls = wire::read_tls(settings, url.scheme == "mqtts");
    server.port = url.port != 0 ? url.port : server.tls.on ? 8883 : 1883;
    server.hello.user = settings.text("username", url.user);
    server.hello.has_user = !server.hello.user.empty();
    server.hello.password = settings.text("password", url.password);
    server.hello.has_password = !server.hello.password.empty();
    for (const auto& [key, text] :
         {std::pair{"username", &server.hello.user}, std::pair{"password", &server.hello.password}})
        if (text->size() > mqtt_longest_text) settings.refuse(key, "is longer than 65535 bytes");
    server.connect_timeout = settings.duration("connect_timeout", 5s);
    const auto keep_alive = settings.duration("keep_alive", 60s);
    if (keep_alive > 65535s || (keep_alive > 0s && keep_alive < 1s))
        settings.refuse("keep_alive", "must be 0 or between 1s and 65535s");
    server.hello.keep_alive =
        static_cast<std::uint16_t>(std::chrono::floor<std::chrono::seconds>(keep_alive).count());
    return server;
}

}  // namespace baton::brokers
