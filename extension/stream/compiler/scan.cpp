// A table. Its present rows are the table's; its change stands in its change buffer, which every statement
// that changes the table fills in its own transaction. Of the buffer, this statement's snapshot shows what is
// committed, and the frontier of the last refresh says which of that was there then: the rest is the change.
//
// A row that changed a hundred times since then came and went a hundred times. The change is netted, so that
// it has no more rows than the table had and has: joins would multiply the others.

#include "stream/compiler/text.hpp"

namespace baton::stream {

namespace {

constexpr std::string_view unseen = "baton_internal.is_unseen(xid, step)";

Column table_column(Oid relation, const Origin& origin) {
    Column column{"v" + std::to_string(origin.range) + "_" + std::to_string(origin.attribute), InvalidOid, -1,
                  InvalidOid};
    pg::call([&] {
        get_atttypetypmodcoll(relation, static_cast<AttrNumber>(origin.attribute), &column.type,
                              &column.typmod, &column.collation);
    });
    return column;
}

}  // namespace

const Operator& scan(Compiler& compiler, const RangeTblEntry& entry, int range,
                     const std::vector<Origin>& used) {
    const std::string table = table_text(entry.relid);
    Operator& op = compiler.make("scan of " + table, {});
    std::vector<std::string> now;
    std::vector<std::string> change;
    for (const auto& origin : used) {
        if (origin.range != range) continue;
        if (origin.attribute == 0)
            throw NotDifferential("the query takes whole rows of " + table + " as a value");
        if (origin.attribute < 0) throw NotDifferential("the query reads a system column of " + table);
        op.columns.push_back(table_column(entry.relid, origin));
        op.origins.push_back(origin);
        const char* const name = pg::call(
            [&] { return get_attname(entry.relid, static_cast<AttrNumber>(origin.attribute), false); });
        now.push_back("t." + quoted(name) + " as " + op.columns.back().name);
        change.push_back("c" + std::to_string(origin.attribute) + " as " + op.columns.back().name);
    }
    if (now.empty()) {  // count(*) needs rows without columns, which SQL cannot write down everywhere
        op.columns.push_back({"v" + std::to_string(range) + "_0", BOOLOID, -1, InvalidOid});
        op.origins.push_back({range, 0});
        now.push_back("true as " + op.columns.back().name);
        change.push_back("true as " + op.columns.back().name);
    }
    compiler.script().add_view(
        op.now, "select " + join(now, ", ") + " from " + (entry.inh ? "" : "only ") + table + " t");
    compiler.script().add_table(
        op.change, netted(op.columns, "select " + join(change, ", ") +
                                          ", weight::bigint as baton_weight from baton_internal.changes_" +
                                          std::to_string(entry.relid) + " where " + std::string(unseen)));
    return op;
}

}  // namespace baton::stream
