#pragma once
// Appends JSON lines to a file.
//
//   path          the file; its folder must exist
//   fsync         "batch" (default): delivered means on disk; "never": delivered means written to the
//   operating
//                 system
//   rotate_size   begin a new file when the current one has this many bytes: 500000000 or "500MB"
//   rotate_after  begin a new file when the current one is this old: "24h"
//   keep          how many full files stay; older ones are deleted. 0 (default): all of them
//
// A full file is renamed to NAME-20260131T235959Z[-N].EXT in the same folder. One process writes at a time:
// the file is locked. After a crash the last line may be cut off. The sink removes such a line when it opens
// the file again, because the line was never reported as delivered. When somebody moves or deletes the file,
// the sink begins a new file under the same name. Lines of a deleted file that were not reported yet are
// written again.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_file_sink(const relay::Settings& settings);

}  // namespace baton::brokers
