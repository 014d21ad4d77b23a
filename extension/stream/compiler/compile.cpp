// baton_internal.compile_stream_query(): a query becomes the statement that computes its change.

#include "stream/compiler/fitness.hpp"
#include "stream/compiler/text.hpp"

BATON_FUNCTION(baton_compile_stream_query);

namespace baton::stream {

namespace {

struct Compiled {
    std::string qualified;
    std::string sources;
    std::optional<std::string> delta;
    std::optional<std::string> reason;
    std::optional<std::string> tree;
};

Query* analyzed(const char* text) {
    return pg::call([&] {
        List* const statements = pg_parse_query(text);
        if (list_length(statements) != 1)
            ereport(ERROR,
                    (errcode(ERRCODE_SYNTAX_ERROR),
                     errmsg("a stream table is made of one statement, not of %d", list_length(statements))));
        return parse_analyze_fixedparams(linitial_node(RawStmt, statements), text, nullptr, 0, nullptr);
    });
}

// While it lives, the deparser writes every name with its schema, except for pg_catalog's.
class QualifiedNames {
  public:
    QualifiedNames() : level_(pg::call([] { return NewGUCNestLevel(); })) {
        pg::call([] {
            set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
                              GUC_ACTION_SAVE, true, 0, false);
        });
    }
    ~QualifiedNames() { AtEOXact_GUC(true, level_); }
    QualifiedNames(const QualifiedNames&) = delete;
    QualifiedNames& operator=(const QualifiedNames&) = delete;

  private:
    int level_;
};

// ORDER BY v and DISTINCT ON (v) mean the column v of the result before one of the input. So the deparser
// must write the prefix of every column there, which it leaves out where only one range is in reach, and for
// columns that JOIN .. USING merges.
bool make_columns_plain(Node* node, void* context) {
    if (node == nullptr) return false;
    if (!IsA(node, Query)) return pg::walk_expression(node, make_columns_plain, context);
    auto* const query = reinterpret_cast<Query*>(node);
    pg::walk_query(query, make_columns_plain, context, 0);
    if (query->sortClause == NIL || query->setOperations != nullptr) return false;
    query->targetList =
        reinterpret_cast<List*>(flatten_join_alias_vars(query, reinterpret_cast<Node*>(query->targetList)));
    auto* const nobody = makeNode(RangeTblEntry);
    nobody->rtekind = RTE_RESULT;
    nobody->eref = makeAlias("nobody", NIL);
    query->rtable = lappend(query->rtable, nobody);
    return false;
}

std::string as_json(const std::vector<Source>& sources) {
    std::vector<std::string> objects;
    for (const auto& source : sources) {
        std::vector<std::string> columns;
        for (const int column : source.columns) columns.push_back(std::to_string(column));
        objects.push_back("{\"relation\": " + std::to_string(source.relation) + ", \"columns\": [" +
                          join(columns, ", ") + "]}");
    }
    return "[" + join(objects, ", ") + "]";
}

// The statement that gives the change, and the operators behind it.
void compile_change(Query* query, Compiled& result) {
    Compiler compiler;
    Target target;
    for (const auto* const column : pg::elements<TargetEntry>(query->targetList))
        if (!column->resjunk) target.columns.emplace_back(column->resname);
    const Operator& root = compiler.block(query, &target);
    result.tree = describe(root);
    if (root.is_constant()) throw NotDifferential("the query reads no table");
    std::vector<std::string> outputs;
    for (std::size_t i = 0; i < root.columns.size(); ++i)
        outputs.push_back(root.columns[i].name + " as " + quoted(target.columns[i].c_str()));
    result.delta = compiler.script().with_clause() + "\nselect " + join(outputs, ", ") +
                   ", baton_weight from " + root.change;
}

Compiled compile(const char* text) {
    Query* const query = analyzed(text);
    check_query(query);
    const QualifiedNames names;
    Compiled result;
    result.qualified = pg::call([&] {
        auto* const copy = static_cast<Query*>(copyObjectImpl(query));
        make_columns_plain(reinterpret_cast<Node*>(copy), nullptr);
        return pg_get_querydef(copy, false);
    });
    const Reading reading = find_sources(query);
    result.sources = as_json(reading.sources);
    try {
        if (reading.problem) throw NotDifferential(*reading.problem);
        check_functions(reading.queries);
        compile_change(query, result);
    } catch (const NotDifferential& obstacle) {
        result.reason = obstacle.what();
    }
    return result;
}

Datum as_row(FunctionCallInfo fcinfo, const Compiled& result) {
    const std::array columns{&result.delta, &result.reason, &result.tree};
    return pg::call([&] {
        TupleDesc shape = nullptr;
        if (get_call_result_type(fcinfo, nullptr, &shape) != TYPEFUNC_COMPOSITE)
            elog(ERROR, "a row is expected");
        Datum values[5] = {CStringGetTextDatum(result.qualified.c_str()),
                           DirectFunctionCall1(jsonb_in, CStringGetDatum(result.sources.c_str())), 0, 0, 0};
        bool nulls[5] = {};
        for (int i = 0; i < 3; ++i) {
            nulls[i + 2] = !columns[static_cast<std::size_t>(i)]->has_value();
            if (!nulls[i + 2])
                values[i + 2] = CStringGetTextDatum((*columns[static_cast<std::size_t>(i)])->c_str());
        }
        return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(shape), values, nulls));
    });
}

}  // namespace

}  // namespace baton::stream

using namespace baton;

extern "C" Datum baton_compile_stream_query(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        const char* const query = pg::call([&] { return text_to_cstring(PG_GETARG_TEXT_PP(0)); });
        return stream::as_row(fcinfo, stream::compile(query));
    });
}
