#pragma once
// What happens at the end of transactions and around utility statements.

#include "pg/guard.hpp"

namespace baton::pg {

// Call `observer` at every transaction event of this process. The observer runs where nothing may fail: at
// commit the transaction is already durable and visible. So the observer must neither allocate nor raise.
void on_transaction_event(void (*observer)(XactEvent) noexcept);

// Watch utility statements. `before` may throw to refuse the statement. `after` runs when the statement
// succeeded.
struct UtilityObserver {
    void (*before)(const Node* statement);
    void (*after)(const Node* statement);
};
void observe_utility_statements(UtilityObserver observer);

}  // namespace baton::pg
