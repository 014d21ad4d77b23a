#include "assembly/catalog.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace baton::assembly {

using relay::Settings;

namespace {

constexpr const char* catalog = "baton.pipelines";
constexpr int deepest = 16;
constexpr std::size_t most_settings = 1000;

// Put a JSON object's values into the settings, with dotted keys for objects within.
void read_object(const nlohmann::json& object, const std::string& prefix, const std::string& place,
                 Settings& settings, int depth = 0) {
    if (depth > deepest) throw relay::SettingsError(place + ": " + settings.name() + " is nested too deep");
    for (const auto& [name, value] : object.items()) {
        const std::string key = prefix + name;
        if (value.is_object()) {
            read_object(value, key + ".", place, settings, depth + 1);
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

// "sink.tls.ca" is ca in tls in sink.
nlohmann::ordered_json& place_in(nlohmann::ordered_json& object, const std::string& key) {
    const auto dot = key.find('.');
    if (dot == std::string::npos) return object[key];
    return place_in(object[key.substr(0, dot)], key.substr(dot + 1));
}

}  // namespace

Settings settings_of(const std::string& name, const std::string& json) {
    const auto written = nlohmann::json::parse(json, nullptr, false);
    Settings settings("pipeline " + name);
    settings.stand_at(catalog);
    settings.set("name", name, catalog);
    if (!written.is_object())
        throw relay::SettingsError("the settings of a pipeline are a JSON object",
                                   R"(like {"source": {"outbox": "orders"}, "sink": {"type": "stdout"}})");
    read_object(written, "", catalog, settings);
    if (settings.values().size() > most_settings)
        throw relay::SettingsError(settings.name() + " has more than " + std::to_string(most_settings) +
                                   " settings");
    return settings;
}

std::string as_json(const Settings& pipeline) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const auto& [key, value] : pipeline.values())
        if (key != "name" && key != "enabled")
            std::visit([&, &key = key](const auto& known) { place_in(object, key) = known; }, value);
    return object.dump();
}

std::vector<Settings> read_catalog(postgres::Connection& db) {
    const auto rows = db.query("select name, settings from baton.pipelines where enabled order by name");
    std::vector<Settings> pipelines;
    for (int row = 0; row < rows.rows(); ++row)
        pipelines.push_back(settings_of(rows.text(row, 0), rows.text(row, 1)));
    return pipelines;
}

}  // namespace baton::assembly
