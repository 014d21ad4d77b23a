#pragma once
// Publishing in a libpqxx transaction (6 or 7). Header only: the library does not need libpqxx.
//
//   pqxx::work tx(connection);
//   tx.exec("insert into orders values (7, 42)");
//   baton::publish(tx, baton::Outbox("order_events"), {.type = "order.placed"});
//   tx.commit();

#include <algorithm>
#include <pqxx/pqxx>
#include <vector>

#include "baton/outbox.hpp"

namespace baton {

namespace detail {
inline pqxx::result exec(pqxx::transaction_base& tx, const Statement& statement) {
    std::vector<const char*> values;
    for (const auto& value : statement.parameters) values.push_back(value ? value->c_str() : nullptr);
    return tx.exec_params(statement.sql, pqxx::prepare::make_dynamic_params(values.begin(), values.end()));
}
}  // namespace detail

// Publish in the transaction `tx`, in order, with one statement per thousand events unless some have
// idempotency keys. Throws the exceptions of libpqxx. For a duplicate the id of the first event is missing.
inline std::vector<Published> publish(pqxx::transaction_base& tx, const Outbox& outbox,
                                      std::span<const NewEvent> events) {
    const bool keyed = std::any_of(events.begin(), events.end(),
                                   [](const NewEvent& event) { return event.idempotency_key.has_value(); });
    std::vector<Published> published;
    while (!events.empty()) {
        const auto some = events.first(std::min<std::size_t>(events.size(), keyed ? 1 : 1000));
        events = events.subspan(some.size());
        const Statement statement = outbox.statement(some);
        const pqxx::result rows = detail::exec(tx, statement);
        for (std::size_t i = 0; i < some.size(); ++i) {
            const bool there = i < static_cast<std::size_t>(rows.size());
            const auto row = static_cast<pqxx::result::size_type>(i);
            published.push_back(
                {there ? rows[row][0].as<std::int64_t>() : 0, statement.event_ids[i], !there});
        }
    }
    return published;
}

inline Published publish(pqxx::transaction_base& tx, const Outbox& outbox, const NewEvent& event) {
    return publish(tx, outbox, std::span(&event, 1)).front();
}

template <Typed T>
Published publish(pqxx::transaction_base& tx, const Outbox& outbox, const T& value, NewEvent event = {}) {
    return publish(tx, outbox, as_event(value, std::move(event)));
}

}  // namespace baton
