#pragma once
// A sink's real server behind a proxy, for audits with faults.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "audit/auditor.hpp"
#include "support/proxy.hpp"

namespace baton::test {

// From an outbox to a broker, or from a broker into an inbox.
enum class Way { out, in };

class Stand {
  public:
    using Values = brokers::AuditPlace::Values;
    virtual ~Stand() = default;

    // The way of the relay's sink, through the proxy, and the auditor's own.
    virtual Values sink() = 0;
    virtual Values reader() { return {}; }
    // The way of a relay's source, where this broker can be one, and that of those who publish for it; empty
    // where it cannot.
    virtual Values source() { return {}; }
    virtual Values publisher() { return reader(); }
    // A database at the stand that a relay can live in; empty where there is none.
    virtual std::string home() { return {}; }

    // Events per second that its server can take for long.
    virtual double rate() const { return 400; }
    // Kill the server hard and start it again on its data; a stand without a server, or with one that does
    // not come back as it was, leaves these alone.
    virtual bool has_server() const { return true; }
    virtual void kill_server() {}
    virtual void start_server() {}
    // The way to the server; null when there is none.
    virtual Proxy* proxy() { return nullptr; }
    // What can be done to this server alone: its secret exchanged, its disk filled, a request refused for
    // good.
    virtual std::vector<audit::Fault> own_faults(Way) { return {}; }
};

// The stands by name. A broker's folder adds its own: add_NAME_stands() in tests/stand.cpp.
using StandMakers = std::map<std::string, std::function<std::unique_ptr<Stand>()>>;
const std::vector<std::string>& stand_names();
// Throws Unavailable when the server cannot be had.
std::unique_ptr<Stand> make_stand(const std::string& name);

// What can be done to the way between relay and broker, and to the broker; the stand's own faults among them.
std::vector<audit::Fault> broker_faults(Stand& stand, Way way = Way::out);

}  // namespace baton::test
