#pragma once
// What `status` and `doctor` look for. A check is a statement whose rows are findings: what is wrong with
// what, and the command that mends it.

#include <string>
#include <vector>

#include "operations/operation.hpp"

namespace baton::operations {

// `fix` is to be typed as it stands: into a shell when it begins with "baton", else into psql; there it ends
// with a semicolon. Where the cause is elsewhere, the command shows it. `note` is what else is to be known.
struct Check {
    std::string name;          // what is looked at
    bool quick;                // `status` looks too
    std::string sql;           // rows: severity (error, warning), object, what, fix, note
    std::string only_if = {};  // a condition; where it does not hold, nothing can be judged
};

const std::vector<Check>& checks();
// Parts of it: what baton carries, and the server that carries baton.
std::vector<Check> checks_of_events();
std::vector<Check> checks_of_server();

// Run checks: [{"check", "findings": [{"severity", "object", "what", "fix", "note"}]}]. A check that fails is
// a finding.
Json run_checks(postgres::Connection& db, bool only_quick);

// Findings about a server's clock that is so many seconds ahead of this machine's.
Json clock_findings(double seconds_ahead);
// Findings about versions, as 1.2.3: what is installed in the database, this program, and the server's
// number, as in server_version_num.
Json version_findings(const std::string& installed, const std::string& program, int server);

}  // namespace baton::operations
