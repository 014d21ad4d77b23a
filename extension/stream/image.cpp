// baton_internal.image(value) and baton_internal.row_hash(row): what tells two rows apart in a stream table.
//
// A value that is stored elsewhere, compressed or with a short header is the same value. So the image is made
// of what comes out of the toaster. Only a row within a value keeps its columns as they were stored (a row of
// its own, or the elements of an array of rows): these are taken apart, and their columns' images put
// together.

#include "stream/image.hpp"

BATON_FUNCTION(baton_keep_first);
BATON_FUNCTION(baton_image);
BATON_FUNCTION(baton_row_hash);

using namespace baton;
using stream::ImageBytes;
using stream::ImageType;

namespace {

// Whether values of a type are rows, or arrays of them.
bool has_rows(Oid type) {
    for (;;) {
        type = getBaseType(type);
        if (type == RECORDOID || type == RECORDARRAYOID || get_typtype(type) == TYPTYPE_COMPOSITE)
            return true;
        const Oid element = get_element_type(type);
        if (!OidIsValid(element)) return false;
        type = element;
    }
}

void append_image(StringInfo image, const ImageType& type, Datum value);

// A part of a value, with a mark for null and its length, so that no two lists of parts look alike.
void append_part(StringInfo image, const ImageType& type, Datum value, bool is_null) {
    appendStringInfoChar(image, is_null ? '\0' : '\1');
    if (is_null) return;
    const int length_at = image->len;
    uint32 length = 0;
    appendBinaryStringInfo(image, reinterpret_cast<const char*>(&length), sizeof length);
    append_image(image, type, value);
    length = static_cast<uint32>(image->len - length_at) - sizeof length;
    std::memcpy(image->data + length_at, &length, sizeof length);
}

void append_row(StringInfo image, Datum value) {
    HeapTupleHeader const row = DatumGetHeapTupleHeader(value);
    const TupleDesc shape =
        lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(row), HeapTupleHeaderGetTypMod(row));
    HeapTupleData tuple{};
    tuple.t_len = HeapTupleHeaderGetDatumLength(row);
    tuple.t_data = row;
    for (int i = 0; i < shape->natts; ++i) {
        const auto* const column = TupleDescAttr(shape, i);
        if (column->attisdropped) continue;
        bool is_null = false;
        const Datum part = heap_getattr(&tuple, i + 1, shape, &is_null);
        append_part(image, stream::image_type(column->atttypid), part, is_null);
    }
    ReleaseTupleDesc(shape);
}

void append_rows(StringInfo image, Datum value) {
    ArrayType* const array = DatumGetArrayTypeP(value);
    const ImageType element = stream::image_type(ARR_ELEMTYPE(array));
    char alignment = 0;
    int16 length = 0;
    bool by_value = false;
    get_typlenbyvalalign(element.type, &length, &by_value, &alignment);
    Datum* values = nullptr;
    bool* nulls = nullptr;
    int count = 0;
    deconstruct_array(array, element.type, length, by_value, alignment, &values, &nulls, &count);
    const int dimensions = ARR_NDIM(array);
    appendBinaryStringInfo(image, reinterpret_cast<const char*>(&dimensions), sizeof dimensions);
    for (const int* const bounds : {ARR_DIMS(array), ARR_LBOUND(array)})
        appendBinaryStringInfo(image, reinterpret_cast<const char*>(bounds),
                               dimensions * static_cast<int>(sizeof(int)));
    for (int i = 0; i < count; ++i) append_part(image, element, values[i], nulls[i]);
}

void append_image(StringInfo image, const ImageType& type, Datum value) {
    check_stack_depth();  // rows may stand in rows, however deep
    if (type.holds_rows && OidIsValid(get_element_type(getBaseType(type.type))))
        append_rows(image, value);
    else if (type.holds_rows)
        append_row(image, value);
    else {
        const ImageBytes bytes = stream::image_bytes(type, value);
        appendBinaryStringInfo(image, bytes.begin, static_cast<int>(bytes.size));
    }
}

bytea* make_bytea(ImageBytes image) {
    auto* const made = static_cast<bytea*>(palloc(VARHDRSZ + image.size));
    SET_VARSIZE(made, VARHDRSZ + image.size);
    std::memcpy(VARDATA(made), image.begin, image.size);
    return made;
}

// The columns of the rows that a call has hashed so far: kept for the statement, as rows are mostly of one
// type.
struct HashedShape {
    Oid type;
    int32 modifier;
    int count;
    ImageType* columns;
};

HashedShape& shape_of(FmgrInfo& self, Oid type, int32 modifier, TupleDesc shape) {
    auto* known = static_cast<HashedShape*>(self.fn_extra);
    if (known == nullptr)
        self.fn_extra = known =
            static_cast<HashedShape*>(MemoryContextAllocZero(self.fn_mcxt, sizeof(HashedShape)));
    if (known->columns != nullptr && known->type == type && known->modifier == modifier &&
        known->count == shape->natts)
        return *known;
    if (known->columns != nullptr) pfree(std::exchange(known->columns, nullptr));
    auto* const columns = static_cast<ImageType*>(
        MemoryContextAllocZero(self.fn_mcxt, sizeof(ImageType) * static_cast<std::size_t>(shape->natts) + 1));
    for (int i = 0; i < shape->natts; ++i)
        if (!TupleDescAttr(shape, i)->attisdropped)
            columns[i] = stream::image_type(TupleDescAttr(shape, i)->atttypid);
    *known = {type, modifier, shape->natts, columns};
    return *known;
}

std::uint64_t hash_row(FmgrInfo& self, HeapTupleHeader row) {
    constexpr std::uint64_t null_hash = 0x9e3779b97f4a7c15;  // any constant will do
    const Oid type = HeapTupleHeaderGetTypeId(row);
    const int32 modifier = HeapTupleHeaderGetTypMod(row);
    const TupleDesc shape = lookup_rowtype_tupdesc(type, modifier);
    const HashedShape& known = shape_of(self, type, modifier, shape);
    HeapTupleData tuple{};
    tuple.t_len = HeapTupleHeaderGetDatumLength(row);
    tuple.t_data = row;
    auto* const values =
        static_cast<Datum*>(palloc(sizeof(Datum) * static_cast<std::size_t>(shape->natts) + 1));
    auto* const nulls = static_cast<bool*>(palloc(static_cast<std::size_t>(shape->natts) + 1));
    heap_deform_tuple(&tuple, shape, values, nulls);
    std::uint64_t hash = 0;
    for (int i = 0; i < shape->natts; ++i) {
        if (TupleDescAttr(shape, i)->attisdropped) continue;
        if (nulls[i]) {
            hash = hash_combine64(hash, null_hash);
            continue;
        }
        const ImageBytes image = stream::image_bytes(known.columns[i], values[i]);
        hash = hash_bytes_extended(reinterpret_cast<const unsigned char*>(image.begin),
                                   static_cast<int>(image.size), hash);
    }
    ReleaseTupleDesc(shape);
    return hash;
}

}  // namespace

ImageType stream::image_type(Oid type) {
    ImageType found{type, 0, false, false};
    get_typlenbyval(type, &found.length, &found.by_value);
    found.holds_rows = found.length == -1 && has_rows(type);
    return found;
}

ImageBytes stream::image_bytes(const ImageType& type, const Datum& value) {
    if (type.holds_rows) {
        StringInfoData image;
        initStringInfo(&image);
        append_image(&image, type, value);
        return {image.data, static_cast<std::size_t>(image.len)};
    }
    if (type.by_value) {
        const auto length = static_cast<std::size_t>(type.length);
        const auto* const bytes = reinterpret_cast<const char*>(&value);
        return {std::endian::native == std::endian::little ? bytes : bytes + sizeof(Datum) - length, length};
    }
    if (type.length == -1) {
        const auto* const whole = PG_DETOAST_DATUM_PACKED(value);
        return {VARDATA_ANY(whole), VARSIZE_ANY_EXHDR(whole)};
    }
    const char* const bytes = DatumGetPointer(value);
    return {bytes, type.length > 0 ? static_cast<std::size_t>(type.length) : std::strlen(bytes)};
}

extern "C" Datum baton_image(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        if (PG_ARGISNULL(0)) PG_RETURN_NULL();
        return pg::call([&] {
            FmgrInfo& self = *fcinfo->flinfo;
            if (self.fn_extra == nullptr) {
                const Oid type = get_fn_expr_argtype(&self, 0);
                if (!OidIsValid(type)) elog(ERROR, "the type of the value is not known");
                auto* const made =
                    static_cast<ImageType*>(MemoryContextAlloc(self.fn_mcxt, sizeof(ImageType)));
                *made = stream::image_type(type);
                self.fn_extra = made;
            }
            const auto& type = *static_cast<const ImageType*>(self.fn_extra);
            if (type.length == -1 && !type.holds_rows)  // the value's own bytes, under another name
                return PointerGetDatum(PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(0)));
            return PointerGetDatum(make_bytea(stream::image_bytes(type, PG_GETARG_DATUM(0))));
        });
    });
}

extern "C" Datum baton_row_hash(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        return pg::call([&] {
            return Int64GetDatum(static_cast<int64>(hash_row(*fcinfo->flinfo, PG_GETARG_HEAPTUPLEHEADER(0))));
        });
    });
}

// No pg::enter: nothing here can fail.
extern "C" Datum baton_keep_first(PG_FUNCTION_ARGS) {
    PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}
