#include "assembly/catalog.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace baton::assembly {

using relay::Settings;

namespace {

// Put a JSON object's values into the settings, with dotted keys for objects within.
void read_object(const nlohmann::json& object, const std::string& prefix, const std::string& place,
                 Settings& settings) {
    for (const auto& [name, value] : object.items()) {
        const std::string key = prefix + name;
        if (value.is_object()) {
            read_object(value, key + ".", place, settings);
        } else if (value.is_string()) {
            settings.set(key, value.get<std::string>(), place);
        } else if (value.is_number_integer()) {
            settings.set(key, value.get<std::int64_t>(), place);
        } else if (value.is_number()) {
            settings.set(key, value.get<double>(), place);
        } else if (value.is_boolean()) {
            settings.set(key, value.get<bool>(), place);
        } else if (value.is_array() && std::all_of(value.begin(), value.end(),
                                                   [](const auto& item) { return item.is_string(); })) {
            settings.set(key, value.get<std::vector<std::string>>(), place);
        } else {
            throw relay::SettingsError(place + ": " + key + " is of a kind that no setting has",
                                       "write text, a number, true, false or a list of texts");
        }
    }
}

}  // namespace

std::vector<Settings> read_catalog(postgres::Connection& db) {
    const auto rows = db.query("select name, settings from baton.pipelines where enabled order by name");
    std::vector<Settings> pipelines;
    for (int row = 0; row < rows.rows(); ++row) {
        const std::string name = rows.text(row, 0);
        Settings settings("pipeline " + name);
        settings.stand_at("baton.pipelines");
        settings.set("name", name, "baton.pipelines");
        read_object(nlohmann::json::parse(rows.view(row, 1)), "", "baton.pipelines", settings);
        pipelines.push_back(std::move(settings));
    }
    return pipelines;
}

}  // namespace baton::assembly
