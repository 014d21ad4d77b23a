#pragma once
// Wakes a reader that found nothing when events are committed: by the bell of the extension or by a
// notification. Without both the reader polls. The reader's loop is always the same:
//
//   look; found something: found(); nothing: sleep for arm(), or until wakeup() has something to read and
//   rung() says true; look again
//
// No commit between a look and the sleep after it is missed. One thread uses a doorbell.

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
    // A socket that becomes readable when the doorbell rings; -1 when there is none.
    virtual int wakeup() const { return -1; }
    // Read from the socket; true when it is time to look.
    virtual bool rung() { return false; }
};

// A few commits ring nowhere: a reader looks at least this often.
constexpr std::chrono::milliseconds usual_safety_look{5000};

// Make a doorbell of a kind: bell, notify or poll; "auto" asks the server for the kind. Behind a pooler that
// gives each transaction another session only polling works.
std::unique_ptr<Doorbell> make_doorbell(const std::string& conninfo, const std::string& outbox,
                                        const std::string& reader, std::string kind,
                                        std::shared_ptr<const Patience> patience,
                                        std::chrono::milliseconds safety_look = usual_safety_look);

// True when a pooler stands between this connection and the server.
bool is_pooled(Connection& connection);

}  // namespace baton::postgres
