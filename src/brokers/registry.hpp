#pragma once
// The brokers of this build, by name.

#include <vector>

#include "brokers/broker.hpp"

namespace baton::brokers {

// In the order of their names.
const std::vector<Broker>& registry();

// Make the sink that settings.text("type") names. Throws SettingsError for an unknown type, and for bad or
// unknown settings.
std::unique_ptr<relay::Sink> make_sink(const relay::Settings& settings);
// The form of this sink's messages. Throws SettingsError for an unknown type.
const relay::MessageForm& form_of(const relay::Settings& sink);

// Settings of a sink of this type to begin with, with remarks: the file sink.toml of the broker's folder.
// Throws UsageError for a type that is none.
std::string example_of_sink(const std::string& type);

// True when the settings name a broker, and not a table of a PostgreSQL server.
bool is_broker(const relay::Settings& source);
// True when the settings name a table of a PostgreSQL server other than the relay's own.
bool is_elsewhere(const relay::Settings& source);
// Make the source that settings.text("type") names. Throws SettingsError for an unknown type, and for bad or
// unknown settings.
std::shared_ptr<const BrokerSource> make_source(const relay::Settings& settings, const Reader& reader);

// The messaging.system of a trace, for the type that a sink or a source has. An unknown type is its own name.
std::string traced_name(const std::string& type);

// Throws SettingsError for a sink type that cannot be read back.
std::unique_ptr<AuditPlace> make_audit_place(const PlaceRequest& request);

}  // namespace baton::brokers
