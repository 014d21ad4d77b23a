#pragma once
// The ways in which a database comes back: at a point in time, on a promoted standby, out of a dump, by
// pg_upgrade. A clone is Cluster::copy_files(), started.

#include <functional>

#include "support/cluster.hpp"
#include "support/folder.hpp"

namespace baton::test {

// Where a server keeps its log for restores to a point in time.
class LogArchive {
  public:
    LogArchive();
    // What the server to be restored is started with.
    std::vector<std::string> settings() const;
    // Mark this moment of a server under a name, and wait until the log up to there is in the archive.
    void mark(Cluster& cluster, const std::string& name);
    // Start a copy of that server's files, taken before the moment, as the server was at that moment; returns
    // when it takes writes, on a timeline of its own.
    void recover(Cluster& copy, const std::string& name) const;

  private:
    Folder folder_;
};

// The address of a database of one server on another server that has it too.
std::string same_database(const std::string& url, Cluster& other);

// Wait until the standby has replayed what the primary has written by now.
void wait_for_replay(Cluster& primary, Cluster& standby);
// Cut a standby off its primary, which may go on: what that one commits from now on never arrives.
void cut_off(Cluster& standby);
// Make a standby the primary; returns when it takes writes.
void promote(Cluster& standby);

struct Dump {
    int jobs = 1;                                                  // of pg_restore
    std::vector<std::string> options = {};                         // of pg_dump
    std::function<void(const std::string& section)> between = {};  // called after each section, when given
    bool go_on = false;  // after an error, as psql does unless it is told otherwise
};
// Dump one database and load it into another, which Cluster::database_for_restore() made. Throws Error in the
// words of the tool that failed.
// With several jobs there are two sections: before the data, and all the rest.
void dump_and_restore(const std::string& from, const std::string& to, const Dump& dump = {});

// Move all of a server's databases into a new cluster of the same version with pg_upgrade; the old one is
// stopped for good. Returns the new one, started.
Cluster upgrade(Cluster& old_cluster);

// Let a server give out transaction ids.
void burn_transaction_ids(Connection& db, int count);

}  // namespace baton::test
