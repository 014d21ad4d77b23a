#include "pg/xact.hpp"

namespace baton::pg {

namespace {

constexpr std::size_t most_observers = 4;
std::array<UtilityObserver, most_observers> observers;
std::size_t observer_count = 0;
ProcessUtility_hook_type next_hook = nullptr;

void forward_event(XactEvent event, void* observer) {
    reinterpret_cast<void (*)(XactEvent) noexcept>(observer)(event);
}

// Run a utility statement between the observers. The statement may longjmp: nothing here has a destructor.
void process_utility(PlannedStmt* planned, const char* query, bool read_only_tree,
                     ProcessUtilityContext context, ParamListInfo params, QueryEnvironment* environment,
                     DestReceiver* receiver, QueryCompletion* completion) {
    const Node* const statement = planned->utilityStmt;
    for (std::size_t i = 0; i < observer_count; ++i)
        if (observers[i].before != nullptr) enter([&] { observers[i].before(statement); });
    auto* const run = next_hook != nullptr ? next_hook : standard_ProcessUtility;
    run(planned, query, read_only_tree, context, params, environment, receiver, completion);
    for (std::size_t i = 0; i < observer_count; ++i)
        if (observers[i].after != nullptr) enter([&] { observers[i].after(statement); });
}

}  // namespace

void on_transaction_event(void (*observer)(XactEvent) noexcept) {
    RegisterXactCallback(forward_event, reinterpret_cast<void*>(observer));
}

void observe_utility_statements(UtilityObserver observer) {
    if (observer_count == 0) {
        next_hook = ProcessUtility_hook;
        ProcessUtility_hook = process_utility;
    }
    observers.at(observer_count++) = observer;
}

}  // namespace baton::pg
