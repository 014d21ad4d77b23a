#pragma once
// Audits over failovers: Patroni's primary is killed under load, again and again, and a standby takes its
// place.

#include "audit/auditor.hpp"

namespace baton::test {

enum class Replication {
    synchronous,  // a commit is answered when the standby has it: nothing is lost, nothing is sent that never
                  // was
    guarded,      // asynchronous, and the relay sends only what a standby has (outbox_publish_after_standbys)
    unguarded     // asynchronous: what the dead primary alone had is lost, and may have been sent before,
                  // which is counted and not judged
};

// Hold an audit with the file sink for some time. Throws Unavailable where Patroni or etcd is not installed.
audit::Report audit_failover(Replication replication, std::chrono::seconds time, unsigned seed,
                             const std::function<void(const std::string&)>& tell);

}  // namespace baton::test
