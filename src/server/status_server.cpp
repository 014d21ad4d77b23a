#include "server/status_server.hpp"

#include <charconv>
#include <thread>

#include "baton/error.hpp"
#include "server/api.hpp"

namespace baton::server {

struct StatusServer::Implementation {
    explicit Implementation(Api* served)
        : http(served == nullptr ? wire::DoorLimits{} : Api::limits()), api(served) {}

    // Each connection lasts for one answer: nobody keeps others waiting.
    wire::HttpDoor http;
    Api* api;
    int port = 0;
    std::thread thread;
};

namespace {

void give(httplib::Response& response, const Answer& answer) {
    response.status = answer.good ? 200 : 503;
    response.set_content(answer.text + "\n", "text/plain; charset=utf-8");
}

}  // namespace

Address parse_address(const std::string& listen) {
    const auto colon = listen.rfind(':');
    const std::string host = colon == std::string::npos ? "127.0.0.1" : listen.substr(0, colon);
    const std::string digits = colon == std::string::npos ? listen : listen.substr(colon + 1);
    const char* end = digits.data() + digits.size();
    int port = -1;
    const auto read = std::from_chars(digits.data(), end, port);
    if (read.ec != std::errc{} || read.ptr != end || port < 0 || port > 65535 || host.empty())
        throw UsageError("\"" + listen + "\" is no address to listen on",
                         "write HOST:PORT, like 127.0.0.1:9187");
    return {host, port};
}

StatusServer::StatusServer(const std::string& listen, StatusSources sources, Api* api)
    : implementation_(std::make_unique<Implementation>(api)) {
    const auto [host, port] = parse_address(listen);
    auto& http = implementation_->http;
    if (sources.metrics)
        http.Get("/metrics", [sources](const httplib::Request&, httplib::Response& response) {
            response.set_content(sources.metrics(), "text/plain; version=0.0.4; charset=utf-8");
        });
    http.Get("/livez", [](const httplib::Request&, httplib::Response& response) {
        give(response, {true, "ok"});
    });
    if (sources.ready)
        http.Get("/readyz", [sources](const httplib::Request&, httplib::Response& response) {
            give(response, sources.ready());
        });
    if (sources.drained)
        http.Get("/drained", [sources](const httplib::Request&, httplib::Response& response) {
            give(response, sources.drained());
        });
    if (api != nullptr) api->serve(http);
    implementation_->port = http.take_port(host, port);
    if (implementation_->port <= 0)
        throw Error("cannot listen on " + listen,
                    "another program may have the port: choose another with --listen");
    implementation_->thread = std::thread([this] { implementation_->http.listen_after_bind(); });
    while (!http.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

StatusServer::~StatusServer() {
    if (implementation_->api != nullptr) implementation_->api->close();
    implementation_->http.stop();
    if (implementation_->thread.joinable()) implementation_->thread.join();
}

int StatusServer::port() const {
    return implementation_->port;
}

}  // namespace baton::server
