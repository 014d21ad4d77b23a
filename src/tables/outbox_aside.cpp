#include "tables/outbox_aside.hpp"

#include <algorithm>

namespace baton::tables {

std::vector<std::int64_t> set_aside_what_cannot_go(postgres::Pipe& pipe, const std::string& group_id,
                                                   const std::string& epoch, const OutboxBatch& batch) {
    std::vector<long long> ids;
    std::vector<std::string> keys;
    std::string due = "{";
    for (std::size_t i = 0; i < batch.events.size(); ++i) {
        ids.push_back(batch.events[i].id);
        keys.emplace_back(batch.events[i].key());
        if (i > 0) due += ',';
        const auto when = batch.has_due ? batch.due[i] : std::nullopt;
        due += when ? std::to_string(when->time_since_epoch().count()) : "NULL";
    }
    const auto answer = pipe.call(
        "select unnest(baton_internal.set_aside($1, $2, $3, array(select nullif(k, '') from "
        "unnest($4::text[]) with "
        "ordinality u (k, n) order by n), "
        "array(select timestamptz 'epoch' + t * interval '1 microsecond' from unnest($5::bigint[]) with "
        "ordinality u (t, n) order by n)))",
        {group_id, epoch, postgres::array_literal(ids), postgres::array_literal(keys), due + "}"});
    std::vector<std::int64_t> aside;
    for (int row = 0; row < answer.rows(); ++row) aside.push_back(answer.number<std::int64_t>(row, 0));
    std::sort(aside.begin(), aside.end());
    return aside;
}

}  // namespace baton::tables
