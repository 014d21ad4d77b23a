#pragma once
// Audits over restores: the database comes back, again and again, out of a copy of its files, at a point in
// time, out of a dump, on a promoted standby or by pg_upgrade, while writers and relays go on.

#include <map>

#include "audit/auditor.hpp"

namespace baton::test {

enum class Restore {
    clone,          // a copy of the files is started, and the original is gone
    point_in_time,  // the files and the archived log, up to a mark
    dump,           // into a new server
    standby,        // cut off from its primary, which goes on for a while and dies
    upgrade         // pg_upgrade, after an orderly stop: nothing is lost
};

// By the names of their audits: "restore-clone", ...
const std::map<std::string, Restore>& restores();

// Hold an audit with the file sink for some time. What was committed after the restore's moment is gone with
// the old server, and may have been sent: that is counted. Everything else is judged as ever.
audit::Report audit_restore(Restore restore, std::chrono::seconds time, unsigned seed,
                            const std::function<void(const std::string&)>& tell);

}  // namespace baton::test
