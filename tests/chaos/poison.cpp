#include "chaos/poison.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isolation/outbox_workload.hpp"

namespace baton::test {

audit::Report audit_poison(std::chrono::seconds time) {
    constexpr int most = 1'000'000;
    Cluster cluster(Form::extension);
    const auto url = cluster.fresh_database();
    Connection(url).exec("select baton.create_outbox('events')");
    std::set<std::string> deadly{"31"};  // two of them near each other
    for (int number = 0; number < most; number += 1000) deadly.insert(std::to_string(number));
    const auto outcome = work_with_deadly_events(url, deadly, time);
    std::set<std::string> wrong;
    std::set_symmetric_difference(outcome.dead.begin(), outcome.dead.end(), outcome.committed.begin(),
                                  outcome.committed.end(), std::inserter(wrong, wrong.end()));
    audit::Report report;
    report.sink = fmt::format("poison ({} events killed their consumers)", outcome.committed.size());
    report.dead = static_cast<long>(wrong.size());
    auto& it = report.judgement;
    it.committed = static_cast<long>(outcome.verdict.expected);
    it.arrived = static_cast<long>(outcome.verdict.handled);
    it.copies = static_cast<long>(outcome.verdict.repeated);
    it.lost.count = static_cast<long>(outcome.verdict.lost - outcome.committed.size());
    it.phantom.count = static_cast<long>(outcome.verdict.phantom);
    it.out_of_order.count = static_cast<long>(outcome.verdict.out_of_order);
    it.unexplained_copies.count = static_cast<long>(outcome.verdict.revived);
    if (!report.good()) it.lost.examples = {outcome.verdict.examples};
    return report;
}

}  // namespace baton::test
