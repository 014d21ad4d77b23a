#include "stream/compiler/text.hpp"

#include "stream/compiler/time_filter.hpp"

namespace baton::stream {

namespace {

// ---- expressions: columns are bound to the operators of a scope, and the server's deparser writes the rest
// ----

struct Binding {
    const std::vector<Alias>* scope;
    List* sublink_columns;  // bound expressions that stand for the parameters of a sublink
    bool failed;
    bool is_time = false;  // because of the time
};

// Find a column in the scope, or null.
Node* bound_column(const Binding& binding, const Var& var) {
    for (std::size_t i = 0; i < binding.scope->size(); ++i) {
        const Alias& alias = (*binding.scope)[i];
        if (alias.level != static_cast<int>(var.varlevelsup)) continue;
        const auto& origins = alias.op->origins;
        const Origin wanted{static_cast<int>(var.varno), var.varattno};
        const auto found = std::find(origins.begin(), origins.end(), wanted);
        if (found == origins.end()) continue;
        const auto attribute = static_cast<AttrNumber>(found - origins.begin() + 1);
        return reinterpret_cast<Node*>(
            makeVar(static_cast<int>(i) + 1, attribute, var.vartype, var.vartypmod, var.varcollid, 0));
    }
    return nullptr;
}

Node* bind_node(Node* node, void* context) {
    auto& binding = *static_cast<Binding*>(context);
    if (node == nullptr || binding.failed) return node;
    Node* place = nullptr;
    if (IsA(node, Var)) {
        place = bound_column(binding, *reinterpret_cast<Var*>(node));
    } else if (IsA(node, Param)) {
        const auto* const param = reinterpret_cast<Param*>(node);
        if (param->paramkind == PARAM_SUBLINK && param->paramid <= list_length(binding.sublink_columns))
            place = static_cast<Node*>(copyObjectImpl(list_nth(binding.sublink_columns, param->paramid - 1)));
    } else if (is_time(node)) {
        binding.is_time = true;
    } else if (!IsA(node, SubLink)) {
        return pg::mutate_expression(node, bind_node, context);
    }
    binding.failed = place == nullptr;
    return place;
}

[[noreturn]] void refuse(const Binding& binding) {
    if (binding.is_time) throw NotDifferential(time_out_of_place);
    throw NotDifferential("a subquery stands where its changes cannot be followed");
}

}  // namespace

RangeTblEntry* range_of(const char* name, const Operator* op) {
    auto* const entry = makeNode(RangeTblEntry);
    entry->rtekind = RTE_CTE;
    entry->ctename = pstrdup(name);
    entry->inFromCl = true;
    List* names = NIL;
    if (op != nullptr)
        for (const auto& column : op->columns) {
            names = lappend(names, makeString(pstrdup(column.name.c_str())));
            entry->coltypes = lappend_oid(entry->coltypes, column.type);
            entry->coltypmods = lappend_int(entry->coltypmods, column.typmod);
            entry->colcollations = lappend_oid(entry->colcollations, column.collation);
        }
    entry->eref = makeAlias(name, names);
    return entry;
}

Node* bound(Node* expression, const std::vector<Alias>& scope, List* sublink_columns) {
    Binding binding{&scope, sublink_columns, false};
    Node* const result = pg::call([&] { return bind_node(expression, &binding); });
    if (binding.failed) refuse(binding);
    return result;
}

std::string bound_text(Node* expression, const std::vector<Alias>& scope) {
    const char* const text = pg::call([&] {
        auto* const query = makeNode(Query);
        query->commandType = CMD_SELECT;
        for (const auto& alias : scope)
            query->rtable = lappend(query->rtable, range_of(alias.name, alias.op));
        query->rtable = lappend(
            query->rtable, range_of("nobody", nullptr));  // beside another range a column gets its prefix
        query->jointree = makeFromExpr(NIL, nullptr);
        auto* const value =
            makeTargetEntry(reinterpret_cast<Expr*>(expression), 1, pstrdup("baton_value"), false);
        query->targetList = list_make1(value);
        return pg_get_querydef(query, false);
    });
    constexpr std::string_view before = "SELECT";  // a CASE stands on a line of its own
    constexpr std::string_view after = " AS baton_value";
    std::string_view view = text;
    view.remove_prefix(std::min(view.find_first_not_of(" \n"), view.size()));
    if (!view.starts_with(before) || !view.ends_with(after))
        throw SqlError("unexpected text of an expression: " + std::string(view), "XX000");
    view.remove_prefix(before.size());
    view.remove_suffix(after.size());
    view.remove_prefix(std::min(view.find_first_not_of(" \n"), view.size()));
    return "(" + std::string(view) + ")";
}

std::string expression_text(Node* expression, const std::vector<Alias>& scope) {
    return bound_text(bound(expression, scope), scope);
}

std::string all_of(const std::vector<std::string>& conditions) {
    return conditions.empty() ? "true" : join(conditions, " and ");
}

std::string block_text(const Query* query, const Operator& core, const std::string& input) {
    const std::vector<Alias> scope{{input.c_str(), &core}};
    Binding binding{&scope, nullptr, false};
    const char* const text = pg::call([&]() -> const char* {
        const auto bind = [&](auto& part) {
            part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(
                bind_node(reinterpret_cast<Node*>(part), &binding));
        };
        auto* const block = static_cast<Query*>(copyObjectImpl(query));
        bind(block->targetList);
        bind(block->havingQual);
        bind(block->windowClause);
        bind(block->limitOffset);
        bind(block->limitCount);
        if (binding.failed) return nullptr;
        block->rtable = list_make1(range_of(input.c_str(), &core));
        auto* const reference = makeNode(RangeTblRef);
        reference->rtindex = 1;
        block->jointree = makeFromExpr(list_make1(reference), nullptr);
        block->cteList = NIL;
        int number = 0;
        ListCell* cell = nullptr;
        foreach (cell, block->targetList) {
            auto* const target = lfirst_node(TargetEntry, cell);
            if (!target->resjunk) target->resname = psprintf("x%d", ++number);
        }
        return pg_get_querydef(block, false);
    });
    if (text == nullptr) refuse(binding);
    return text;
}

std::string equality_text(Oid equality, Node* left, Node* right, const std::vector<Alias>& scope) {
    Node* const comparison = pg::call([&] {
        return reinterpret_cast<Node*>(make_opclause(equality, BOOLOID, false, reinterpret_cast<Expr*>(left),
                                                     reinterpret_cast<Expr*>(right), InvalidOid,
                                                     exprCollation(left)));
    });
    return bound_text(comparison, scope);
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
    std::string text;
    for (const auto& part : parts) {
        if (!text.empty()) text += separator;
        text += part;
    }
    return text;
}

std::string column_list(const std::vector<Column>& columns, std::string_view alias) {
    std::vector<std::string> names;
    for (const auto& column : columns)
        names.push_back(alias.empty() ? column.name : std::string(alias) + "." + column.name);
    return join(names, ", ");
}

namespace {

std::string collation_text(const Column& column) {
    if (!OidIsValid(column.collation) || column.collation == DEFAULT_COLLATION_OID) return "";
    const char* const name = pg::call([&] { return generate_collation_name(column.collation); });
    return std::string(" collate ") + name;
}

}  // namespace

std::string null_list(const std::vector<Column>& columns) {
    std::vector<std::string> nulls;
    for (const auto& column : columns)
        nulls.push_back("(null::" + type_text(column.type, column.typmod) + collation_text(column) + ") as " +
                        column.name);
    return join(nulls, ", ");
}

std::string definition_text(const Column& column) {
    return column.name + " " + type_text(column.type, -1) + collation_text(column);
}

Column column_of(std::string name, const Node* expression) {
    struct Shape {
        Oid type;
        int32 typmod;
        Oid collation;
    };
    const Shape shape = pg::call([&] {
        return Shape{exprType(expression), exprTypmod(expression), exprCollation(expression)};
    });
    if (shape.type == RECORDOID) throw NotDifferential("a column is a row of no named type");
    return {std::move(name), shape.type, shape.typmod, shape.collation};
}

std::vector<Column> output_columns(const List* targets) {
    std::vector<Column> columns;
    for (const auto* const target : pg::elements<TargetEntry>(targets))
        if (!target->resjunk)
            columns.push_back(column_of("x" + std::to_string(columns.size() + 1),
                                        reinterpret_cast<const Node*>(target->expr)));
    return columns;
}

std::string type_text(Oid type, int32 typmod) {
    return pg::call([&] {
        return format_type_extended(type, typmod, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
    });
}

std::string quoted(const char* identifier) {
    return pg::call([&] { return quote_identifier(identifier); });
}

std::string table_text(Oid relation) {
    const char* const name = pg::call([&] {
        return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)),
                                          get_rel_name(relation));
    });
    return name;
}

bool equality_is_image(const Column& column) {
    const bool is_enum = pg::call([&] { return type_is_enum(column.type); });
    switch (column.type) {
        case BOOLOID:
        case INT2OID:
        case INT4OID:
        case INT8OID:
        case OIDOID:
        case DATEOID:
        case TIMEOID:
        case TIMESTAMPOID:
        case TIMESTAMPTZOID:
        case UUIDOID:
        case BYTEAOID:
            return true;
        case TEXTOID:
        case VARCHAROID:
            return pg::call([&] { return get_collation_isdeterministic(column.collation); });
        default:
            return is_enum;
    }
}

std::string image_text(const Column& column, const std::string& reference) {
    return equality_is_image(column) ? reference : "baton_internal.image(" + reference + ")";
}

std::string netted(const std::vector<Column>& columns, const std::string& weighted_rows) {
    std::vector<std::string> values;
    std::vector<std::string> images;
    for (const auto& column : columns) {
        const std::string reference = "u." + column.name;
        values.push_back(equality_is_image(column)
                             ? reference
                             : "baton_internal.one_of(" + reference + ") as " + column.name);
        images.push_back(image_text(column, reference));
    }
    values.emplace_back("sum(u.baton_weight)::bigint as baton_weight");
    return "select " + join(values, ", ") + " from (" + weighted_rows + ") u group by " + join(images, ", ") +
           " having sum(u.baton_weight) <> 0";
}

std::string spread(const std::vector<Column>& columns, const std::string& weighted_rows) {
    return "select " + column_list(columns, "g") + " from (" + netted(columns, weighted_rows) +
           ") g, generate_series(1, g.baton_weight)";
}

}  // namespace baton::stream
