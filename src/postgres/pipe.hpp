#pragma once
// A connection in libpq's pipeline mode: a statement is sent before earlier statements were answered.
//
// Statements between two calls of sync() are one transaction. pump() and call() give each answer to the
// handler of its statement, in the order of sending, and throw the first error. After an error the pipe is
// dead: make a new one. One thread at a time.

#include <deque>
#include <functional>

#include "postgres/connection.hpp"

namespace baton::postgres {

class Pipe {
  public:
    using Handler = std::function<void(Result)>;

    explicit Pipe(Connection connection);

    // Prepare a statement under a name. The answer comes with the others.
    void prepare(const std::string& name, const std::string& sql);
    void send(const std::string& sql, const Params& params, Handler handler = {},
              Format format = Format::text);
    void send_prepared(const std::string& name, const Params& params, Handler handler = {},
                       Format format = Format::text);
    // End the transaction. `handler` is called when the transaction is committed.
    void sync(std::function<void()> handler = {});

    // Send one statement as a transaction of its own. Wait for its answer, and for all answers before it.
    Result call(const std::string& sql, const Params& params = {});

    // Write as much as the server takes, read what the server said, run the handlers. Does not wait.
    void pump();
    // The events for which a waiting caller polls: POLLIN, and POLLOUT while something is still to be
    // written.
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
