#include "stream/compiler/block.hpp"

namespace baton::stream {

namespace {

struct Walk {
    Mentions* mentions;
    int depth;  // of queries within the block
};

bool note(Node* node, void* context) {
    auto& walk = *static_cast<Walk*>(context);
    if (node == nullptr) return false;
    if (IsA(node, Var)) {
        const auto* const var = reinterpret_cast<Var*>(node);
        const int level = static_cast<int>(var->varlevelsup) - walk.depth;
        if (level == 0) walk.mentions->columns.insert({static_cast<int>(var->varno), var->varattno});
        if (level > 0) walk.mentions->levels.insert(level);
        return false;
    }
    if (IsA(node, RangeTblEntry)) {  // the walker goes on to what is in it
        const auto* const entry = reinterpret_cast<RangeTblEntry*>(node);
        if (entry->rtekind == RTE_CTE && entry->self_reference &&
            static_cast<int>(entry->ctelevelsup) >= walk.depth)
            walk.mentions->is_recursive = true;
        return false;
    }
    if (IsA(node, Query)) {
        ++walk.depth;
        pg::walk_query(reinterpret_cast<Query*>(node), note, context,
                       QTW_IGNORE_JOINALIASES | QTW_EXAMINE_RTES_BEFORE);
        --walk.depth;
        return false;
    }
    return pg::walk_expression(node, note, context);
}

Mentions noted(Node* node, int depth = 0) {
    Mentions mentions{{}, {}, false};
    Walk walk{&mentions, depth};
    pg::call([&] { note(node, &walk); });
    return mentions;
}

}  // namespace

Mentions mentions_of(Node* expression) {
    return noted(expression);
}

Mentions mentions_of_query(Query* query) {
    return noted(reinterpret_cast<Node*>(query));
}

Mentions mentions_of_item(const RangeTblEntry& entry) {
    switch (entry.rtekind) {
        case RTE_SUBQUERY:
            return mentions_of_query(entry.subquery);
        case RTE_FUNCTION:
            return noted(reinterpret_cast<Node*>(entry.functions));
        case RTE_VALUES:
            return noted(reinterpret_cast<Node*>(entry.values_lists));
        case RTE_CTE:
            return {{}, {}, static_cast<bool>(entry.self_reference)};
        default:
            return {{}, {}, false};
    }
}

bool has_sublink(Node* expression) {
    return pg::call([&] { return checkExprHasSubLink(expression); });
}

bool holds_subquery(const RangeTblEntry& entry) {
    return has_sublink(reinterpret_cast<Node*>(entry.functions)) ||
           has_sublink(reinterpret_cast<Node*>(entry.values_lists));
}

}  // namespace baton::stream
