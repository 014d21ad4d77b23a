#include "chaos/failover.hpp"

#include "support/cluster.hpp"
#include "support/patroni.hpp"
#include "support/program.hpp"

namespace baton::test {

using namespace std::chrono_literals;

audit::Report audit_failover(Replication replication, std::chrono::seconds time, unsigned seed,
                             const std::function<void(const std::string&)>& tell) {
    PatroniCluster cluster(replication == Replication::synchronous);
    Connection(cluster.url()).exec("create database shop");
    {
        Connection db(cluster.url("shop"));
        db.exec("create extension baton");
        if (replication == Replication::guarded)
            db.exec("select baton.set_setting('outbox_publish_after_standbys', '1')");
    }
    audit::Plan plan;
    plan.db = cluster.url("shop");
    plan.program = program_file();
    plan.sink = {{"type", "file"}};
    plan.duration = time;
    plan.relays = 2;
    plan.lease = 3s;
    plan.load.seed = seed;
    plan.may_send_what_is_taken_back = replication == Replication::unguarded;
    plan.load.database_may_lose = replication != Replication::synchronous;
    plan.faults = {
        {"the primary killed, its standby promoted", [&cluster](audit::Relays&) { cluster.fail_over(); }},
        audit::kill_relay()};
    plan.fault_interval = 2s;
    plan.tell = tell;
    return audit::run_audit(plan);
}

}  // namespace baton::test
