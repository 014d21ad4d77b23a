#pragma once
// The entry of a broker: everything that baton knows of it. Each folder beside this file makes one entry, and
// nothing outside of the folder names the broker.
//
// A new broker is a folder with a CMakeLists.txt and an entry; see docs/contributing/new-broker.md.

#include <memory>
#include <string>

#include "brokers/audit_place.hpp"
#include "relay/io.hpp"
#include "relay/settings.hpp"
#include "relay/transform.hpp"

namespace baton::brokers {

// The pipeline and the relay that read.
struct Reader {
    std::string pipeline;
    std::string owner;  // this relay's name; no other relay has it
};

// A source at a broker, as the settings name it. Only open() and check() connect. The object outlives the
// feeds that it opened.
class BrokerSource {
  public:
    virtual ~BrokerSource() = default;
    // Connect and read from where the last reader's acknowledgements end. Throws Error.
    virtual std::unique_ptr<relay::Feed> open() const = 0;
    // Connect and check that the source exists and may be read. Takes nothing. Throws Error in plain words.
    virtual void check() const = 0;
};

struct Broker {
    std::string name;  // as `type` in the settings of a sink or a source
    relay::MessageForm form = {};
    // Each function throws SettingsError and connects nowhere. Null where the broker has no sink, source or
    // place.
    std::unique_ptr<relay::Sink> (*make_sink)(const relay::Settings& settings) = nullptr;
    std::unique_ptr<BrokerSource> (*make_source)(const relay::Settings& settings,
                                                 const Reader& reader) = nullptr;
    std::unique_ptr<AuditPlace> (*make_audit_place)(const PlaceRequest& request) = nullptr;
    // True when a source of this type is a table of a PostgreSQL server, which is worked like an outbox.
    bool has_tables = false;
    std::string traced_as = {};  // the name by which OpenTelemetry knows the broker; empty: `name`
};

}  // namespace baton::brokers
