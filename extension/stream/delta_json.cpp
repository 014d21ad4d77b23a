// baton_internal.row_json(row): what to_jsonb(row) gives. baton_internal.delta_json(weight, row, most_bytes):
// an aggregate that makes the payload of a delta from weighted rows, null when its text would have more
// bytes.
//
// The server turns each number into text and back, and each row into jsonb before the rows become one value.
// Here numbers and texts are taken as they are, and the whole becomes jsonb once. Other types go the server's
// way.

#include "pg/guard.hpp"

extern "C" {
#include "nodes/makefuncs.h"
#include "utils/numeric.h"
}

BATON_FUNCTION(baton_row_json);
BATON_FUNCTION(baton_delta_json_add);
BATON_FUNCTION(baton_delta_json_end);

using namespace baton;

// Everything below lives in memory contexts of the server and has no destructors: it runs inside of pg::call.
namespace {

enum class Kind : std::uint8_t { integer2, integer4, integer8, decimal, text, truth, other };

struct Column {
    int number;  // from 0
    Kind kind;
    JsonbValue key;
    FmgrInfo to_jsonb;
};

// A row type, its columns in the order in which jsonb keeps them.
struct Shape {
    Oid type;
    std::int32_t modifier;
    TupleDesc description;
    int count;
    std::int64_t key_bytes;
    Column* columns;
    Datum* values;
    bool* nulls;
};

Kind kind_of(Oid type) {
    switch (getBaseType(type)) {
        case INT2OID:
            return Kind::integer2;
        case INT4OID:
            return Kind::integer4;
        case INT8OID:
            return Kind::integer8;
        case NUMERICOID:
            return Kind::decimal;
        case TEXTOID:
        case VARCHAROID:
        case BPCHAROID:
            return Kind::text;
        case BOOLOID:
            return Kind::truth;
        default:
            return Kind::other;
    }
}

JsonbValue string_value(const char* text, int length) {
    JsonbValue value{};
    value.type = jbvString;
    value.val.string.val = const_cast<char*>(text);
    value.val.string.len = length;
    return value;
}

// Shorter keys first, as jsonb has them.
bool comes_first(const Column& one, const Column& other) {
    const auto& a = one.key.val.string;
    const auto& b = other.key.val.string;
    return a.len != b.len ? a.len < b.len : std::memcmp(a.val, b.val, static_cast<std::size_t>(a.len)) < 0;
}

void prepare_call(FmgrInfo& call, Oid type, Oid collation) {
    fmgr_info_cxt(F_TO_JSONB, &call, CurrentMemoryContext);
    Node* const argument = reinterpret_cast<Node*>(makeNullConst(type, -1, collation));
    fmgr_info_set_expr(reinterpret_cast<Node*>(makeFuncExpr(F_TO_JSONB, JSONBOID, list_make1(argument),
                                                            InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL)),
                       &call);
}

Shape* shape_of(HeapTupleHeader row) {
    auto* const shape = static_cast<Shape*>(palloc0(sizeof(Shape)));
    shape->type = HeapTupleHeaderGetTypeId(row);
    shape->modifier = HeapTupleHeaderGetTypMod(row);
    shape->description = lookup_rowtype_tupdesc_copy(shape->type, shape->modifier);
    const auto most = static_cast<std::size_t>(shape->description->natts);
    shape->columns = static_cast<Column*>(palloc0(sizeof(Column) * std::max<std::size_t>(most, 1)));
    shape->values = static_cast<Datum*>(palloc0(sizeof(Datum) * std::max<std::size_t>(most, 1)));
    shape->nulls = static_cast<bool*>(palloc0(std::max<std::size_t>(most, 1)));
    for (int i = 0; i < shape->description->natts; ++i) {
        const auto* const attribute = TupleDescAttr(shape->description, i);
        if (attribute->attisdropped) continue;
        Column& column = shape->columns[shape->count++];
        const char* const name = NameStr(attribute->attname);
        column.number = i;
        column.kind = kind_of(attribute->atttypid);
        column.key = string_value(name, static_cast<int>(std::strlen(name)));
        prepare_call(column.to_jsonb, attribute->atttypid, attribute->attcollation);
        shape->key_bytes += column.key.val.string.len + 6;  // quotes, colon, comma, blanks
    }
    std::sort(shape->columns, shape->columns + shape->count, comes_first);
    return shape;
}

// A tree of values in place of jsonb that is stored as bytes.
JsonbValue tree_of(Jsonb* stored) {
    JsonbValue value{};
    if (JB_ROOT_IS_SCALAR(stored)) {
        JsonbExtractScalar(&stored->root, &value);
        return value;
    }
    JsonbParseState* state = nullptr;
    JsonbValue* whole = nullptr;
    JsonbIterator* iterator = JsonbIteratorInit(&stored->root);
    for (;;) {
        const JsonbIteratorToken token = JsonbIteratorNext(&iterator, &value, false);
        if (token == WJB_DONE) return *whole;
        whole = pushJsonbValue(&state, token, token < WJB_BEGIN_ARRAY ? &value : nullptr);
    }
}

JsonbValue by_the_server(Column& column, Datum value) {
    return tree_of(DatumGetJsonbP(FunctionCall1(&column.to_jsonb, value)));
}

JsonbValue number_value(std::int64_t number) {
    JsonbValue value{};
    value.type = jbvNumeric;
    value.val.numeric = int64_to_numeric(number);
    return value;
}

JsonbValue value_of(Column& column, Datum datum, bool is_null) {
    JsonbValue value{};
    if (is_null) {
        value.type = jbvNull;
        return value;
    }
    switch (column.kind) {
        case Kind::integer2:
            return number_value(DatumGetInt16(datum));
        case Kind::integer4:
            return number_value(DatumGetInt32(datum));
        case Kind::integer8:
            return number_value(DatumGetInt64(datum));
        case Kind::decimal: {
            Numeric const copy = DatumGetNumericCopy(datum);
            if (numeric_is_nan(copy) || numeric_is_inf(copy)) return by_the_server(column, datum);
            value.type = jbvNumeric;
            value.val.numeric = copy;
            return value;
        }
        case Kind::text: {
            const text* const copy = DatumGetTextPCopy(datum);
            return string_value(VARDATA(copy), static_cast<int>(VARSIZE(copy) - VARHDRSZ));
        }
        case Kind::truth:
            value.type = jbvBool;
            value.val.boolean = DatumGetBool(datum);
            return value;
        case Kind::other:
            break;
    }
    return by_the_server(column, datum);
}

// A row as an object. Adds to `bytes` what its text has at least.
JsonbValue object_of(Shape& shape, HeapTupleHeader row, std::int64_t& bytes) {
    HeapTupleData tuple{};
    tuple.t_len = HeapTupleHeaderGetDatumLength(row);
    tuple.t_data = row;
    heap_deform_tuple(&tuple, shape.description, shape.values, shape.nulls);
    JsonbValue object{};
    object.type = jbvObject;
    object.val.object.nPairs = shape.count;
    object.val.object.pairs = static_cast<JsonbPair*>(
        palloc(sizeof(JsonbPair) * static_cast<std::size_t>(std::max(shape.count, 1))));
    bytes += shape.key_bytes;
    for (int i = 0; i < shape.count; ++i) {
        Column& column = shape.columns[i];
        JsonbPair& pair = object.val.object.pairs[i];
        pair.key = column.key;
        pair.value = value_of(column, shape.values[column.number], shape.nulls[column.number]);
        pair.order = static_cast<uint32>(i);
        bytes += pair.value.type == jbvString ? pair.value.val.string.len : 1;
    }
    return object;
}

struct List {
    JsonbValue* values;
    int count;
    int room;
};

// The server's own limit for the elements of an array.
constexpr int most_elements = static_cast<int>(MaxAllocSize / sizeof(JsonbValue));

void append(List& list, const JsonbValue& value) {
    if (list.count == most_elements)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("a delta cannot have more than %d rows of a kind", most_elements)));
    if (list.count == list.room) {
        list.room = std::max(list.room * 2, 64);
        const auto size = sizeof(JsonbValue) * static_cast<std::size_t>(list.room);
        list.values = static_cast<JsonbValue*>(list.values == nullptr ? palloc(size)
                                                                      : repalloc_huge(list.values, size));
    }
    list.values[list.count++] = value;
}

JsonbValue array_of(const List& list) {
    JsonbValue array{};
    array.type = jbvArray;
    array.val.array.nElems = list.count;
    array.val.array.elems = list.values;
    array.val.array.rawScalar = false;
    return array;
}

struct Delta {
    Shape* shape;
    List inserted;
    List deleted;
    std::int64_t bytes;
    bool too_large;
};

void add(Delta& delta, std::int64_t weight, HeapTupleHeader row, std::int64_t most_bytes) {
    if (delta.too_large || weight == 0) return;
    if (delta.shape == nullptr || delta.shape->type != HeapTupleHeaderGetTypeId(row) ||
        delta.shape->modifier != HeapTupleHeaderGetTypMod(row))
        delta.shape = shape_of(row);
    std::int64_t bytes = 0;
    const JsonbValue object = object_of(*delta.shape, row, bytes);
    bytes = std::max<std::int64_t>(bytes, 2);  // even a row without columns
    const std::int64_t step = weight > 0 ? 1 : -1;
    for (std::int64_t left = weight; left != 0 && !delta.too_large; left -= step) {
        CHECK_FOR_INTERRUPTS();
        append(weight > 0 ? delta.inserted : delta.deleted, object);
        delta.bytes += bytes;
        delta.too_large = delta.bytes > most_bytes;
    }
}

// {"v": 1, "deleted": [..], "inserted": [..]}, in jsonb's order.
Jsonb* payload_of(const Delta& delta) {
    constexpr int parts = 3;
    JsonbPair pairs[parts]{};
    pairs[0].key = string_value("v", 1);
    pairs[0].value = number_value(1);
    pairs[1].key = string_value("deleted", 7);
    pairs[1].value = array_of(delta.deleted);
    pairs[2].key = string_value("inserted", 8);
    pairs[2].value = array_of(delta.inserted);
    JsonbValue whole{};
    whole.type = jbvObject;
    whole.val.object.nPairs = parts;
    whole.val.object.pairs = pairs;
    return JsonbValueToJsonb(&whole);
}

}  // namespace

extern "C" Datum baton_row_json(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        return pg::call([&] {
            HeapTupleHeader const row = PG_GETARG_HEAPTUPLEHEADER(0);
            auto* shape = static_cast<Shape*>(fcinfo->flinfo->fn_extra);
            if (shape == nullptr || shape->type != HeapTupleHeaderGetTypeId(row) ||
                shape->modifier != HeapTupleHeaderGetTypMod(row)) {
                MemoryContext const before = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
                shape = shape_of(row);
                MemoryContextSwitchTo(before);
                fcinfo->flinfo->fn_extra = shape;
            }
            std::int64_t bytes = 0;
            JsonbValue object = object_of(*shape, row, bytes);
            return PointerGetDatum(JsonbValueToJsonb(&object));
        });
    });
}

extern "C" Datum baton_delta_json_add(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        return pg::call([&] {
            MemoryContext memory = nullptr;
            if (AggCheckCallContext(fcinfo, &memory) == 0) elog(ERROR, "delta_json is an aggregate");
            if (PG_ARGISNULL(1) || PG_ARGISNULL(2) || PG_ARGISNULL(3))
                ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                                errmsg("delta_json takes a weight, a row and a number of bytes, not null")));
            MemoryContext const before = MemoryContextSwitchTo(memory);
            auto* const delta = PG_ARGISNULL(0) ? static_cast<Delta*>(palloc0(sizeof(Delta)))
                                                : reinterpret_cast<Delta*>(PG_GETARG_POINTER(0));
            add(*delta, PG_GETARG_INT64(1), PG_GETARG_HEAPTUPLEHEADER(2), PG_GETARG_INT64(3));
            MemoryContextSwitchTo(before);
            return PointerGetDatum(delta);
        });
    });
}

extern "C" Datum baton_delta_json_end(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const Delta nothing{};
        const auto* const delta =
            PG_ARGISNULL(0) ? &nothing : reinterpret_cast<const Delta*>(PG_GETARG_POINTER(0));
        if (delta->too_large) PG_RETURN_NULL();
        return pg::call([&] { return PointerGetDatum(payload_of(*delta)); });
    });
}
