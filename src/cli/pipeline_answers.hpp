#pragma once
// What the API knows of pipelines: their next messages, and what is wrong with their settings.

#include <string>
#include <vector>

#include "assembly/catalog.hpp"
#include "assembly/lint.hpp"
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

// Secrets are not looked up: they are those of a relay, and an answer must not tell of them.
inline operations::Json lint_pipeline(const std::string& name, const std::string& settings) {
    operations::Json problems = operations::Json::array();
    const auto add = [&problems](const relay::SettingsError& error) {
        problems.push_back(
            {{"setting", error.key().empty() ? operations::Json(nullptr) : operations::Json(error.key())},
             {"what", error.what()},
             {"hint", error.hint()}});
    };
    try {
        for (const auto& problem :
             assembly::problems_of(assembly::settings_of(name, settings), {}, assembly::Secrets::unknown))
            add(problem);
    } catch (const relay::SettingsError& error) {
        add(error);
    }
    return problems;
}

}  // namespace baton::cli
