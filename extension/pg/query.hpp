#pragma once
// Query trees: the server's parser, tree walkers, deparser, and what its planner asks.

#include "pg/guard.hpp"

extern "C" {
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "parser/analyze.h"
#include "parser/parse_agg.h"
#include "parser/parse_clause.h"
#include "parser/parse_oper.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "rewrite/rewriteManip.h"
#include "utils/fmgroids.h"
#include "utils/numeric.h"
#include "utils/rls.h"
#include "utils/ruleutils.h"
}

namespace baton::pg {

// Looks at a node; true ends the walk.
using TreeWalker = bool (*)(::Node*, void*);
// Returns what stands in a node's place.
using TreeMutator = ::Node* (*)(::Node*, void*);

// The walkers of the server take functions without a prototype up to version 15. For use inside of pg::call.
inline bool walk_expression(::Node* node, TreeWalker walker, void* context) {
#if PG_VERSION_NUM >= 160000
    return expression_tree_walker(node, walker, context);
#else
    return expression_tree_walker(node, reinterpret_cast<bool (*)()>(reinterpret_cast<void*>(walker)),
                                  context);
#endif
}

inline bool walk_query(Query* query, TreeWalker walker, void* context, int flags) {
#if PG_VERSION_NUM >= 160000
    return query_tree_walker(query, walker, context, flags);
#else
    return query_tree_walker(query, reinterpret_cast<bool (*)()>(reinterpret_cast<void*>(walker)), context,
                             flags);
#endif
}

inline ::Node* mutate_expression(::Node* node, TreeMutator mutator, void* context) {
#if PG_VERSION_NUM >= 160000
    return expression_tree_mutator(node, mutator, context);
#else
    return expression_tree_mutator(node, reinterpret_cast< ::Node* (*)()>(reinterpret_cast<void*>(mutator)),
                                   context);
#endif
}

// A copy of a tree.
template <class T>
T* copy_tree(const T* tree) {
    return call([&] { return static_cast<T*>(copyObjectImpl(tree)); });
}

// The elements of a list that holds nodes of one kind.
template <class T>
std::vector<T*> elements(const List* list) {
    std::vector<T*> nodes;
    for (int i = 0; i < list_length(list); ++i) nodes.push_back(static_cast<T*>(list_nth(list, i)));
    return nodes;
}

}  // namespace baton::pg
