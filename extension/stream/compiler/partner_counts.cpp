// How many partners rows of A have in B, now and before, for all rows of before(A) that have a partner in
// change(B). Others have as many as before. Before the change a row had as many as it has now, minus what its
// partners weigh in the change.
//
// The rows are numbered, so that both counts are joins which the planner may hash: a look at the change for
// each row would take time by the product of both.

#include "stream/compiler/text.hpp"

namespace baton::stream {

std::string affected_rows(Compiler& compiler, const Operator& owner, const Side& side, const Side& partner,
                          const std::string& condition) {
    std::string affected = Compiler::name("affected", owner) + "_" + side.alias;
    compiler.script().add_table(
        affected, "select row_number() over () as baton_row, " + column_list(side.op->columns, side.alias) +
                      ", " + side.alias + ".baton_weight from " + compiler.before(*side.op) + " " +
                      side.alias + " where exists (select from " + partner.op->change + " " + partner.alias +
                      " where " + condition + ")");
    return affected;
}

std::string partner_counts(Compiler& compiler, const Operator& owner, const Side& side, const Side& partner,
                           const std::string& condition) {
    const std::string affected = affected_rows(compiler, owner, side, partner, condition);
    const auto count = [&](const std::string& partners, const std::string& what) {
        return "(select " + std::string(side.alias) + ".baton_row, " + what + " as partners from " +
               affected + " " + side.alias + " join " + partners + " " + partner.alias + " on " + condition +
               " group by 1)";
    };
    std::string counts = Compiler::name("counts", owner) + "_" + side.alias;
    compiler.script().add_view(
        counts,
        "select r.*, coalesce(n.partners, 0) as partners_now, coalesce(n.partners, 0) - c.partners as "
        "partners_before from " +
            affected + " r left join " + count(partner.op->now, "count(*)") + " n using (baton_row) join " +
            count(partner.op->change, "sum(" + std::string(partner.alias) + ".baton_weight)") +
            " c using (baton_row)");
    return counts;
}

}  // namespace baton::stream
