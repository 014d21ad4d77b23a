#pragma once
// A pipeline's next messages, as the API gives them.

#include <string>
#include <vector>

#include "assembly/rendering.hpp"
#include "operations/operation.hpp"

namespace baton::cli {

// Throws operations::NotFound when no pipeline has the name.
inline std::string render_pipeline(postgres::Connection& db, const std::vector<relay::Settings>& pipelines,
                                   const std::string& name, int events) {
    for (const auto& settings : pipelines)
        if (settings.text("name") == name)
            return assembly::as_json(assembly::render(db, settings, events))
                .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    throw operations::NotFound("there is no pipeline \"" + name + "\" that is enabled");
}

}  // namespace baton::cli
