#pragma once
// How a reader that found nothing is woken when events are committed: by the bell of the extension, by a
// notification, or not at all, so that it polls. The reader's loop is the same for all three:
//
//   look; found something: found(); nothing: sleep for arm(), or until wakeup() has something to read and
//   rung() says true; look again
//
// Between a look and the sleep after it no commit is missed. One thread uses it.

#include <chrono>
#include <memory>
#include <string>

#include "postgres/connection.hpp"

namespace baton::postgres {

class Doorbell {
  public:
    using milliseconds = std::chrono::milliseconds;

    virtual ~Doorbell() = default;
    // The last look found nothing: how long may the reader sleep before it looks again?
    virtual milliseconds arm() = 0;
    // The last look found something.
    virtual void found() {}
    // A socket that becomes readable when it rings; -1 when there is none.
    virtual int wakeup() const { return -1; }
    // Read from the socket; true when it is time to look.
    virtual bool rung() { return false; }
};

// How events are waited for: "auto" asks the server, the others are bell, notify and poll.
// Behind a pooler that gives each transaction another session only polling works.
std::unique_ptr<Doorbell> make_doorbell(const std::string& conninfo, const std::string& outbox,
                                        const std::string& reader, std::string kind,
                                        std::shared_ptr<const Patience> patience);

// True when a pooler stands between this connection and the server.
bool is_pooled(Connection& connection);

}  // namespace baton::postgres
