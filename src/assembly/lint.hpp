#pragma once
// Everything that is wrong with the settings of a pipeline, where make_parts() tells of the first thing only.

#include <vector>

#include "assembly/pipeline_parts.hpp"

namespace baton::assembly {

enum class Secrets {
    followed,  // ${env:NAME} and ${file:/path} are looked up here
    unknown,   // they are known elsewhere only: nothing is said about settings with such a reference
};

// Connects nowhere. At most 50 problems are named; none: make_parts() takes these settings.
std::vector<relay::SettingsError> problems_of(relay::Settings pipeline, const RelayIdentity& identity,
                                              Secrets secrets = Secrets::followed);

}  // namespace baton::assembly
