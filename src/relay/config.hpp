#pragma once
// The relay's configuration: pipelines as groups of settings, from TOML files.
//
//   [relay]              drain = "10s"
//   [log]                format = "text" | "json", level = "info"
//   [server]             listen = "127.0.0.1:9187"
//   [[pipeline]]
//   name = "orders"
//   [pipeline.source]    outbox = "order_events"
//   [pipeline.sink]      type = "file", path = "out.jsonl"
//
// Every setting remembers file, line and key for the messages about it.

#include <filesystem>
#include <map>
#include <vector>

#include "relay/settings.hpp"

namespace baton::relay {

struct Config {
    Settings relay{"relay"};
    Settings log{"log"};
    Settings server{"server"};
    std::vector<Settings> pipelines;
};

// Read a file, or every *.toml of a folder in the order of their names. Throws SettingsError with file and
// line: no TOML, unknown tables, a pipeline without a name or with one used twice, a table of the relay's own
// in two files.
Config read_config(const std::filesystem::path& path);
// The files that read_config() reads.
std::vector<std::filesystem::path> config_files(const std::filesystem::path& path);
// The same from text; `name` stands for the file in messages.
Config parse_config(std::string_view text, const std::string& name);

// Add the catalog's pipelines to those of the file; throws SettingsError when a name is used in both.
std::vector<Settings> join(std::vector<Settings> file, std::vector<Settings> catalog);

}  // namespace baton::relay
