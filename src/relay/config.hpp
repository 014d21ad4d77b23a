#pragma once
// The relay's configuration: pipelines as groups of settings, from TOML files.
//
//   [relay]              drain = "10s"
//   [log]                format = "text" | "json", level = "info"
//   [server]             listen = "127.0.0.1:9187"
//   [[server.tokens]]    name = "ann", role = "operator", token_file = "/etc/baton/ann"
//   [traces]             endpoint = "http://127.0.0.1:4318", sampler = "parentbased_always_on"
//   [[pipeline]]
//   name = "orders"
//   [pipeline.source]    outbox = "order_events"
//   [pipeline.sink]      type = "file", path = "out.jsonl"
//
// Every setting remembers file, line and key for error messages.

#include <filesystem>
#include <map>
#include <vector>

#include "relay/settings.hpp"

namespace baton::relay {

struct Config {
    Settings relay{"relay"};
    Settings log{"log"};
    Settings server{"server"};
    std::vector<Settings> tokens;  // of the server
    Settings traces{"traces"};
    std::vector<Settings> pipelines;
};

// Read a file, or every *.toml of a folder in the order of their names. Throws SettingsError with file and
// line when a file is no TOML, has an unknown table, or has a pipeline whose name is missing or used twice,
// and when a table of the relay's own stands in two files.
Config read_config(const std::filesystem::path& path);
// The files that read_config() reads.
std::vector<std::filesystem::path> config_files(const std::filesystem::path& path);
// Read the configuration from text. `name` stands for the file in messages.
Config parse_config(std::string_view text, const std::string& name);

// Add the catalog's pipelines to the file's pipelines. Throws SettingsError when a name is used in both.
std::vector<Settings> join(std::vector<Settings> file, std::vector<Settings> catalog);

}  // namespace baton::relay
