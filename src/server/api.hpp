#pragma once
// The HTTP API, /api/v1: every operation of the catalog, sessions, history, alerts and live streams; and the
// dashboard's files. docs/api.md says what users may rely on.
//
// Only some of the door's threads work for the API, so that /metrics and the other endpoints always find one.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "server/access.hpp"
#include "server/api_metrics.hpp"
#include "server/asked.hpp"
#include "server/database_pool.hpp"
#include "server/live.hpp"
#include "server/watch.hpp"
#include "wire/http_door.hpp"

namespace baton::server {

struct ApiSettings {
    std::string db;
    bool loopback = true;  // listens on loopback only
    std::vector<TokenSource> tokens = {};
    std::string token_file = {};  // a list of tokens
    std::size_t connections = 4;  // to the database, all in all; at least 2
    // The relay inside this program; nothing: there is none.
    std::function<std::optional<RelayNow>()> relay = [] { return std::nullopt; };
    // What a pipeline would send, as JSON.
    std::function<std::string(postgres::Connection& db, const std::string& pipeline, int events)> render = {};
    // What is wrong with a pipeline's settings: [{"setting", "what", "hint"}].
    std::function<operations::Json(const std::string& pipeline, const std::string& settings)> lint = {};
    // Told of every wrong token that is compared; who is made to wait is not told again.
    Access::OnWrongToken on_wrong_token = {};
    // A file with a pipeline to begin with. Throws UsageError for a sink that nobody knows.
    std::function<std::string(const std::string& sink, const std::string& outbox,
                              const std::string& pipeline)>
        example = {};
};

class Api {
  public:
    // Throws UsageError when tokens are wrong.
    explicit Api(ApiSettings settings);
    ~Api();
    Api(const Api&) = delete;
    Api& operator=(const Api&) = delete;

    // What the door needs for the API.
    static wire::DoorLimits limits();
    // Answer what comes through the door.
    void serve(wire::HttpDoor& door);
    // Take other tokens. Throws UsageError and keeps the old ones.
    void replace_tokens(std::vector<TokenSource> tokens) {
        access_.replace(std::move(tokens), settings_.token_file);
    }
    // How the API fares, in Prometheus' text form.
    std::string metrics();
    // End what is under way.
    void close() { pool_.close(); }

  private:
    class Slot;
    struct Asked {
        const httplib::Request& request;
        httplib::Response& response;
        const Endpoint& endpoint;
        const Visitor& visitor;
        const operations::Json arguments;
    };

    void answer(const httplib::Request& request, httplib::Response& response,
                const httplib::ContentReader* reader);
    void answer_or_throw(const httplib::Request& request, httplib::Response& response,
                         const httplib::ContentReader* reader);
    std::string own_answer(const Asked& asked);
    std::string run(const Asked& asked);
    std::string session_of(const Visitor& visitor);
    std::string history(const operations::Arguments& arguments) const;
    std::string render(const operations::Arguments& arguments);
    operations::Json lint(const operations::Arguments& arguments) const;
    std::string example(const operations::Arguments& arguments) const;
    void follow(const Asked& asked);

    const ApiSettings settings_;
    const Routes routes_;
    ApiCounts counts_;
    Access access_;
    DatabasePool pool_;
    LiveStreams live_;
    Watch watch_;
    std::shared_ptr<std::atomic<int>> working_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace baton::server
