#pragma once
// A real PgBouncer in transaction mode before a server of the tests.

#include "local_server/local_server.hpp"
#include "support/broker.hpp"

namespace baton::test {

class PgBouncer final : public Broker {
  public:
    // Two server connections for each database and user: fewer than the clients, so that they take turns.
    explicit PgBouncer(const local_server::LocalServer& server);
    // The way to this database through it; takes a connection string of the server itself.
    std::string url(const std::string& direct) const;

  protected:
    Command command() override;
    bool ready() override;
    void prepare() override;

  private:
    std::filesystem::path server_folder_;
    int server_port_;
};

}  // namespace baton::test
