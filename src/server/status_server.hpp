#pragma once
// The relay's endpoints: /metrics, /livez, /readyz and /drained. Listens on loopback unless told otherwise.
//
//   /livez    the process answers
//   /readyz   the database answers and no pipeline is in trouble: 200, else 503 with the reasons
//   /drained  every pipeline has settled what it read and found nothing more: 200, else 503

#include <functional>
#include <memory>
#include <string>

namespace baton::server {

class Api;

struct Answer {
    bool good;
    std::string text;
};

struct StatusSources {
    std::function<std::string()> metrics;
    std::function<Answer()> ready;
    std::function<Answer()> drained;
};

struct Address {
    std::string host;
    int port;
};

// Read HOST:PORT, or a port of loopback; throws UsageError.
Address parse_address(const std::string& listen);

class StatusServer {
  public:
    // `listen` is HOST:PORT; port 0 takes a free one. A source that is null has no endpoint. With an API,
    // which outlives this object, the API and the dashboard are served too. Throws Error when it cannot
    // listen there, also when another program does.
    StatusServer(const std::string& listen, StatusSources sources, Api* api = nullptr);
    ~StatusServer();

    int port() const;

  private:
    struct Implementation;
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace baton::server
