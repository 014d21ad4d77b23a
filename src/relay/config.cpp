#include "relay/config.hpp"

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

namespace fs = std::filesystem;

namespace baton::relay {

namespace {

std::string place_of(const toml::node& node, const std::string& file) {
    return file + ":" + std::to_string(node.source().begin.line);
}

[[noreturn]] void refuse(const toml::node& node, const std::string& file, const std::string& why,
                         const std::string& hint = {}) {
    throw SettingsError(place_of(node, file) + ": " + why, hint);
}

// Put a table's values into the settings, nested tables under dotted keys.
void read_table(const toml::table& table, const std::string& prefix, const std::string& file,
                Settings& settings) {
    for (const auto& [name, node] : table) {
        const std::string key = prefix + std::string(name.str());
        const std::string place = place_of(node, file);
        if (const auto* below = node.as_table()) {
            settings.stand_at(place, key);
            read_table(*below, key + ".", file, settings);
        } else if (const auto* text = node.as_string()) {
            settings.set(key, text->get(), place);
        } else if (const auto* whole = node.as_integer()) {
            settings.set(key, whole->get(), place);
        } else if (const auto* real = node.as_floating_point()) {
            if (!std::isfinite(real->get())) refuse(node, file, key + " is no number that can be reached");
            settings.set(key, real->get(), place);
        } else if (const auto* flag = node.as_boolean()) {
            settings.set(key, flag->get(), place);
        } else if (const auto* list = node.as_array()) {
            std::vector<std::string> values;
            for (const auto& item : *list) {
                if (!item.is_string()) refuse(node, file, key + " must be a list of texts");
                values.push_back(item.as_string()->get());
            }
            settings.set(key, values, place);
        } else {
            refuse(node, file, key + " is of a kind that no setting has",
                   "write text, a number, true, false or a list of texts");
        }
    }
}

void read_pipelines(const toml::node& node, const std::string& file, Config& config) {
    const auto* list = node.as_array();
    if (list == nullptr)
        refuse(node, file, "pipeline must be a list of tables", "write [[pipeline]] with two brackets");
    std::set<std::string> names;
    for (const auto& item : *list) {
        const auto* table = item.as_table();
        if (table == nullptr) refuse(item, file, "a pipeline must be a table", "write [[pipeline]]");
        const auto name = (*table)["name"].value<std::string>();
        if (!name || name->empty())
            refuse(item, file, "the pipeline has no name", "write name = \"...\" below [[pipeline]]");
        if (!names.insert(*name).second)
            refuse(*(*table)["name"].node(), file, "there is another pipeline \"" + *name + "\"");
        Settings settings("pipeline " + *name);
        settings.stand_at(place_of(item, file));
        read_table(*table, "", file, settings);
        config.pipelines.push_back(std::move(settings));
    }
}

// Take [[server.tokens]] out of [server]. In place: a copy of a table does not know where it stands.
void take_tokens(toml::table& server, const std::string& file, Config& config) {
    const toml::node* tokens = server.get("tokens");
    if (tokens == nullptr) return;
    const auto* list = tokens->as_array();
    if (list == nullptr)
        refuse(*tokens, file, "server.tokens must be a list of tables",
               "write [[server.tokens]] with two brackets");
    for (const auto& item : *list) {
        const auto* table = item.as_table();
        if (table == nullptr) refuse(item, file, "a token must be a table", "write [[server.tokens]]");
        Settings settings("server, token");
        settings.stand_at(place_of(item, file));
        read_table(*table, "", file, settings);
        config.tokens.push_back(std::move(settings));
    }
    server.erase("tokens");
}

}  // namespace

Config parse_config(std::string_view text, const std::string& name) {
    Config config;
    toml::table root;
    try {
        root = toml::parse(text, name);
    } catch (const toml::parse_error& error) {
        throw SettingsError(name + ":" + std::to_string(error.source().begin.line) + ": " +
                            std::string(error.description()));
    }
    for (auto&& [key, node] : root) {
        const std::string table(key.str());
        if (table == "pipeline") {
            read_pipelines(node, name, config);
            continue;
        }
        Settings* settings = table == "relay"    ? &config.relay
                             : table == "log"    ? &config.log
                             : table == "server" ? &config.server
                             : table == "traces" ? &config.traces
                                                 : nullptr;
        if (settings == nullptr || !node.is_table())
            refuse(node, name, table + " is not known here",
                   "the tables are [relay], [log], [server], [traces] and [[pipeline]]");
        settings->stand_at(place_of(node, name));
        if (table == "server") take_tokens(*node.as_table(), name, config);
        read_table(*node.as_table(), "", name, *settings);
    }
    return config;
}

namespace {

Config read_file(const fs::path& file) {
    std::ifstream input(file);
    if (!input) throw SettingsError("cannot read " + file.string(), "name the relay's file with --config");
    std::ostringstream text;
    text << input.rdbuf();
    return parse_config(text.str(), file.string());
}

// Editors keep locks and copies beside a file, under names that begin with a dot.
bool is_config(const fs::directory_entry& entry) {
    const fs::path name = entry.path().filename();
    return name.extension() == ".toml" && !name.string().starts_with('.') && !entry.is_directory();
}

// Take a table of the relay's own from the file that has it.
void take_table(Settings& into, Settings& from) {
    if (from.place().empty()) return;
    if (!into.place().empty())
        throw SettingsError(from.place() + ": [" + from.name() + "] is at " + into.place() + " already",
                            "write that table in one of the files");
    into = std::move(from);
}

}  // namespace

std::vector<fs::path> config_files(const fs::path& path) {
    std::error_code none;
    if (!fs::is_directory(path, none)) return {path};
    std::vector<fs::path> files;
    try {
        for (const auto& entry : fs::directory_iterator(path))
            if (is_config(entry)) files.push_back(entry.path());
    } catch (const fs::filesystem_error& error) {
        throw SettingsError("cannot read the folder " + path.string() + ": " + error.code().message());
    }
    std::sort(files.begin(), files.end());
    return files;
}

Config read_config(const fs::path& path) {
    const auto files = config_files(path);
    if (files.empty())
        throw SettingsError("the folder " + path.string() + " has no *.toml",
                            "write the relay's pipelines there, or name a file with --config");
    Config all;
    for (const auto& file : files) {
        Config one = read_file(file);
        take_table(all.relay, one.relay);
        take_table(all.log, one.log);
        take_table(all.server, one.server);
        std::move(one.tokens.begin(), one.tokens.end(), std::back_inserter(all.tokens));
        take_table(all.traces, one.traces);
        for (auto& settings : one.pipelines) {
            for (const auto& other : all.pipelines)
                if (other.name() == settings.name())
                    settings.refuse("name", "is used at " + other.place() + " too", "rename one of them");
            all.pipelines.push_back(std::move(settings));
        }
    }
    return all;
}

std::vector<Settings> join(std::vector<Settings> file, std::vector<Settings> catalog) {
    for (auto& settings : catalog) {
        for (const auto& other : file)
            if (other.name() == settings.name())
                settings.refuse("name", "is used in the file too",
                                "rename one of them, or delete it with baton.delete_pipeline()");
        file.push_back(std::move(settings));
    }
    return file;
}

}  // namespace baton::relay
