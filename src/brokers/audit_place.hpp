#pragma once
// A place at a broker that is made for one audit: a topic, a stream, a queue, an inbox, a file, an address of
// our own. The relay's sink is pointed at it, the auditor follows it while the audit runs and reads it whole
// at the end, and then it is removed.

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "brokers/received.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

struct PlaceRequest {
    std::string name;        // unlike any other's
    relay::Settings sink;    // as the pipeline has it, without a destination
    relay::Settings reader;  // how the auditor itself reaches the broker; the same unless told otherwise
    std::filesystem::path folder;  // for files
};

class AuditPlace {
  public:
    using Values = std::map<std::string, relay::Settings::Value>;
    virtual ~AuditPlace() = default;

    // Make it. Throws Error, as all of these may while the broker is away.
    virtual void create() = 0;
    // What the sink's settings need beyond those given.
    virtual Values sink_values() = 0;
    // Follow it: what has come since the last call, waiting up to `patience`. May miss some and repeat some
    // after trouble; forget() then makes it connect anew.
    virtual std::vector<Received> follow(std::chrono::milliseconds patience) = 0;
    virtual void forget() = 0;
    // Everything that is there, oldest first within each key. The last call but one.
    virtual std::vector<Received> read_all() = 0;
    virtual void remove() = 0;

    // The way in: what a source's settings need, the destination of what is published for it, and whether a
    // source reads it in the order of its keys whatever happens.
    virtual Values source_values() const {
        throw UsageError("the way in from here cannot be audited", "audit a broker that has a source");
    }
    virtual std::string publish_to() const { return {}; }
    virtual bool source_keeps_order() const { return false; }

    virtual bool keeps_order() const { return true; }
    virtual bool deduplicates() const { return false; }
};

}  // namespace baton::brokers
