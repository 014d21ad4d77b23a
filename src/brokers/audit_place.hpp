#pragma once
// A place at a broker that is made for one audit: a topic, a stream, a queue, an inbox, a file, an address of
// our own. The relay's sink writes to the place. The auditor follows the place while the audit runs, reads
// all of it at the end, and removes it.

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "baton/error.hpp"
#include "brokers/received.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

struct PlaceRequest {
    std::string name;              // no other place has this name
    relay::Settings sink;          // as the pipeline has it, without a destination
    relay::Settings reader;        // how the auditor itself reaches the broker; usually the same settings
    std::filesystem::path folder;  // for files
};

class AuditPlace {
  public:
    using Values = std::map<std::string, relay::Settings::Value>;
    virtual ~AuditPlace() = default;

    // Make the place. This and the other functions may throw Error while the broker is away.
    virtual void create() = 0;
    // The values that the sink's settings need in addition.
    virtual Values sink_values() = 0;
    // Return what has come since the last call; wait up to `patience` for the first. After trouble messages
    // may be missing or come twice; call forget() then, to connect anew.
    virtual std::vector<Received> follow(std::chrono::milliseconds patience) = 0;
    virtual void forget() = 0;
    // Return everything in the place, oldest first within each key. Only remove() may follow.
    virtual std::vector<Received> read_all() = 0;
    // The same, the ids alone: where there may be very many messages.
    virtual void read_ids(const std::function<void(std::string_view)>& take) {
        for (const auto& message : read_all()) take(message.id);
    }
    virtual void remove() = 0;

    // For audits of a source: the values that its settings need, the destination of messages for the source,
    // and whether the source keeps the order of keys whatever happens.
    virtual Values source_values() const {
        throw UsageError("the way in from here cannot be audited", "audit a broker that has a source");
    }
    virtual std::string publish_to() const { return {}; }
    virtual bool source_keeps_order() const { return false; }

    virtual bool keeps_order() const { return true; }
    virtual bool deduplicates() const { return false; }
};

}  // namespace baton::brokers
