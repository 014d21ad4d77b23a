// Rows whose key was touched by a change. Nulls are one key, as in GROUP BY and DISTINCT.

#include "stream/compiler/text.hpp"

namespace baton::stream {

// Comparing with = lets the planner use indexes and hashes. Keys that hold a null are looked for apart, if
// there are any.
std::string rows_of_touched(const Operator& touched, const std::vector<Node*>& values,
                            const std::vector<Oid>& equalities, const std::string& select, const Alias& alias,
                            const std::string& source) {
    const std::vector<Alias> scope{alias, {"k", &touched}};
    const std::string head = select + " from " + source + " " + alias.name + ", " + touched.now + " k where ";
    std::vector<std::string> equal;
    std::vector<std::string> same;
    std::vector<std::string> null;
    for (std::size_t i = 0; i < values.size(); ++i) {
        Node* const key = pg::call([&] {
            const Column& column = touched.columns[i];
            return reinterpret_cast<Node*>(
                makeVar(2, static_cast<AttrNumber>(i + 1), column.type, column.typmod, column.collation, 0));
        });
        equal.push_back(equality_text(equalities[i], values[i], key, scope));
        null.push_back("k." + touched.columns[i].name + " is null");
        same.push_back("(" + equal.back() + " or " + bound_text(values[i], scope) + " is null and " +
                       null.back() + ")");
    }
    if (values.empty()) return head + "true";
    return head + all_of(equal) + "\n union all " + head + "(" + join(null, " or ") + ") and " + all_of(same);
}

}  // namespace baton::stream
