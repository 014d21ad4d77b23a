#pragma once
// Pipelines that are kept in the database, by baton.set_pipeline().

#include <string>
#include <vector>

#include "postgres/connection.hpp"
#include "relay/settings.hpp"

namespace baton::assembly {

// The pipelines of the catalog that are enabled.
std::vector<relay::Settings> read_catalog(postgres::Connection& db);

// A pipeline's settings in the form that the catalog has. Throws SettingsError when they are of another form.
relay::Settings settings_of(const std::string& name, const std::string& json);
// The other way; the name and whether the pipeline is enabled stand beside the settings, not in them. Secrets
// stay references.
std::string as_json(const relay::Settings& pipeline);

}  // namespace baton::assembly
