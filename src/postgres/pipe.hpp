#pragma once
// A connection in libpq's pipeline mode: statements are sent without waiting for the answers to those before.
//
// Statements between two calls of sync() are one transaction. An answer goes to the handler of its statement,
// in the order of sending, from within pump() or call(). The first error throws from there, and then the pipe
// is dead: make a new one. One thread at a time.

#include <deque>
#include <functional>

#include "postgres/connection.hpp"

namespace baton::postgres {

class Pipe {
  public:
    using Handler = std::function<void(Result)>;

    explicit Pipe(Connection connection);

    // Prepare under a name; answers come with the others.
    void prepare(const std::string& name, const std::string& sql);
    void send(const std::string& sql, const Params& params, Handler handler = {},
              Format format = Format::text);
    void send_prepared(const std::string& name, const Params& params, Handler handler = {},
                       Format format = Format::text);
    // End the transaction; `handler` gets to know when it is committed.
    void sync(std::function<void()> handler = {});

    // Send one statement as a transaction of its own and wait for its answer, and so for all before it.
    Result call(const std::string& sql, const Params& params = {});

    // Write what the server takes, read what it said, run the handlers; does not wait.
    void pump();
    // What a caller that waits polls for: POLLIN, and POLLOUT while something is still to be written.
    short events() const;
    int socket() const { return PQsocket(connection_.native()); }
    bool idle() const { return waiting_.empty(); }

    Connection& connection() { return connection_; }

  private:
    struct Expected {
        bool sync;
        Handler on_result;
        std::function<void()> on_sync;
    };
    void sent(int ok, Handler handler);
    void take_answers();

    Connection connection_;
    std::deque<Expected> waiting_;
    bool unsent_ = false;
};

}  // namespace baton::postgres
