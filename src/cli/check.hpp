#pragma once
// `baton relay --check`: could a relay run with these settings? There are four steps. Everything that is
// wrong is printed with its place:
//
//   settings      the file alone; connects nowhere
//   endpoints     whether the address of --listen is free
//   database      what the pipelines read from, and the pipelines of the catalog
//   destinations  each pipeline's broker or server, and whether the destination exists

#include "cli/relay_daemon.hpp"
#include "cli/target.hpp"

namespace baton::cli {

struct CheckOptions {
    bool settings_only = false;
    bool json = false;  // print {"ok", "pipelines": [{"pipeline", "state"}], "problems": [...]}
};

// Check all, or the settings alone. Returns the exit code.
int check_relay(const Target& target, const DaemonOptions& daemon, const CheckOptions& options);

}  // namespace baton::cli
