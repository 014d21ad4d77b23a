#pragma once
// The sources by the name that a pipeline's source gives them: source = { type = "kafka", ... }. A source
// with `outbox`, here or (postgres) on another server, is none of these: it reads a table.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::sources {

// Who reads.
struct Reader {
    std::string pipeline;
    std::string owner;  // this relay's name, unlike any other's
};

// A broker, as the settings name it. Connects nowhere before open() or check(); outlives what it opened.
class BrokerSource {
  public:
    virtual ~BrokerSource() = default;
    // Connect and read from where the last reader's acknowledgements end. Throws Error.
    virtual std::unique_ptr<relay::Feed> open() const = 0;
    // Connect and look whether what is to be read is there and may be read, without taking anything. Throws
    // Error in plain words.
    virtual void check() const = 0;
};

using MakeSource = std::function<std::unique_ptr<BrokerSource>(const relay::Settings&, const Reader&)>;

// Every broker of this build.
const std::map<std::string, MakeSource>& registry();

// True when the settings name a broker, and not an outbox of a PostgreSQL server.
bool is_broker(const relay::Settings& source);

// Make the source that settings.text("type") names; throws SettingsError for an unknown type, bad settings or
// unknown ones.
std::shared_ptr<const BrokerSource> make_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::sources
