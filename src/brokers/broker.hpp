#pragma once
// What baton knows of a broker: one entry. Each folder beside this file makes one, and nothing outside of the
// folder names the broker.
//
// A new broker is a folder with a CMakeLists.txt and an entry; see docs/contributing/new-broker.md.

#include <memory>
#include <string>

#include "brokers/audit_place.hpp"
#include "relay/io.hpp"
#include "relay/settings.hpp"
#include "relay/transform.hpp"

namespace baton::brokers {

// Who reads.
struct Reader {
    std::string pipeline;
    std::string owner;  // this relay's name, unlike any other's
};

// What is read at a broker, as the settings name it. Connects nowhere before open() or check(); outlives what
// it opened.
class BrokerSource {
  public:
    virtual ~BrokerSource() = default;
    // Connect and read from where the last reader's acknowledgements end. Throws Error.
    virtual std::unique_ptr<relay::Feed> open() const = 0;
    // Connect and look whether what is to be read is there and may be read, without taking anything. Throws
    // Error in plain words.
    virtual void check() const = 0;
};

struct Broker {
    std::string name;  // as `type` in the settings of a sink or a source
    relay::MessageForm form = {};
    // Each throws SettingsError and connects nowhere; null where the broker has none.
    std::unique_ptr<relay::Sink> (*make_sink)(const relay::Settings& settings) = nullptr;
    std::unique_ptr<BrokerSource> (*make_source)(const relay::Settings& settings,
                                                 const Reader& reader) = nullptr;
    std::unique_ptr<AuditPlace> (*make_audit_place)(const PlaceRequest& request) = nullptr;
    // A source of this type is a table of a PostgreSQL server, which is worked as an outbox is.
    bool has_tables = false;
};

}  // namespace baton::brokers
