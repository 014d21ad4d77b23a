#pragma once
// What stands are made of.

#include <functional>
#include <thread>

#include "chaos/stands.hpp"
#include "support/secret_file.hpp"

namespace baton::test {

inline std::string at(int port) {
    return "127.0.0.1:" + std::to_string(port);
}

// The secret by which a relay comes to a server, exchanged at the server first and some time later at the
// relay. Who audits has a login of its own. Where the secret stands in the server's settings, the server is
// killed and started for it.
class Secret {
  public:
    Secret() : file_(value()) {}
    std::string value() const { return "hush-" + std::to_string(number_); }
    std::string reference() const { return file_.reference(); }

    // `at_server` makes the server take the new value only, also from those who are there already.
    audit::Fault exchange(std::function<void(const std::string& value)> at_server) {
        return {"the secret exchanged at the server, and 2 s later at the relay",
                [this, at_server = std::move(at_server)](audit::Relays&) {
                    ++number_;
                    at_server(value());
                    std::this_thread::sleep_for(std::chrono::seconds(2));
                    file_.exchange(value());
                }};
    }

  private:
    int number_ = 1;
    SecretFile file_;
};

// A broker behind a proxy, to which the relay comes with a secret.
template <class Server>
class BrokerStand : public Stand {
  public:
    void kill_server() override { server_.kill_hard(); }
    void start_server() override { server_.start(); }
    Proxy* proxy() override { return &proxy_; }

  protected:
    void begin() {
        server_.start();
        proxy_.set_target(server_.port());
    }
    Proxy proxy_;
    Server server_;
    Secret secret_;
};

template <class Kind>
std::unique_ptr<Stand> make() {
    return std::make_unique<Kind>();
}

}  // namespace baton::test
