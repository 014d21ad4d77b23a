#pragma once
// What stays after the demo's audit, to play with: the shop goes on slowly and sends parcels with a carrier
// whose webhook is away; one parcel without a weight was refused before and is a dead letter.

#include <string>

#include "cli/demo_relays.hpp"
#include "cli/stop_signal.hpp"

namespace baton::cli {

// Stay until a stop is asked for. A line on stdin brings the carrier back, and the next one takes it away
// again. `folder` is the server's, for commands.
void stay(const std::string& db, DemoRelays& relays, const std::string& link, const std::string& folder,
          const StopSignal& stop);

}  // namespace baton::cli
