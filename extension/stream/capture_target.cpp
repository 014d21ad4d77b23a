// Finding a table's change buffer, once per session and table, and again when one of the tables was changed.

#include "stream/capture_target.hpp"

BATON_FUNCTION(baton_tie_buffer);

namespace baton::stream {

namespace {

auto& known_targets() {
    static auto& known =
        *new std::unordered_map<Oid, CaptureTarget>;  // never destroyed: nothing of ours runs at exit
    return known;
}

std::uint64_t news = 0;  // how often the server has told of a changed table

// Only mark: a statement may be at work with the target.
void forget_table(Datum, Oid table) {
    ++news;
    for (auto& [relation, target] : known_targets())
        if (!OidIsValid(table) || std::ranges::count(target.watched, table) > 0) target.ready = false;
}

// Append the tables of which this one is a partition or child. Only for use inside of pg::call.
void append_parents(List** tables, Oid child) {
    const Relation catalog = table_open(InheritsRelationId, AccessShareLock);
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(child));
    const SysScanDesc scan = systable_beginscan(catalog, InheritsRelidSeqnoIndexId, true, nullptr, 1, &key);
    HeapTuple row = nullptr;
    while (HeapTupleIsValid(row = systable_getnext(scan))) {
        const auto* const tie = reinterpret_cast<const FormData_pg_inherits*>(GETSTRUCT(row));
        if (!tie->inhdetachpending) *tables = list_append_unique_oid(*tables, tie->inhparent);
    }
    systable_endscan(scan);
    table_close(catalog, AccessShareLock);
}

// The table, its parents, their parents and so on.
std::vector<Oid> find_ancestry(Oid table) {
    const List* const found = pg::call([&] {
        List* tables = list_make1_oid(table);
        for (int i = 0; i < list_length(tables); ++i) append_parents(&tables, list_nth_oid(tables, i));
        return tables;
    });
    std::vector<Oid> tables;
    for (int i = 0; i < list_length(found); ++i) tables.push_back(list_nth_oid(found, i));
    return tables;
}

// Whether this is the buffer of the source. A name alone may come out of a dump, in which another table had
// the number; the dependency does not. Only for use inside of pg::call.
bool is_tied(Oid buffer, Oid source) {
    const Relation catalog = table_open(DependRelationId, AccessShareLock);
    std::array<ScanKeyData, 2> keys;
    ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(RelationRelationId));
    ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(buffer));
    const SysScanDesc scan =
        systable_beginscan(catalog, DependDependerIndexId, true, nullptr, keys.size(), keys.data());
    bool found = false;
    HeapTuple row = nullptr;
    while (!found && HeapTupleIsValid(row = systable_getnext(scan))) {
        const auto* const tie = reinterpret_cast<const FormData_pg_depend*>(GETSTRUCT(row));
        found = tie->refclassid == RelationRelationId && tie->refobjid == source &&
                tie->deptype == DEPENDENCY_AUTO;
    }
    systable_endscan(scan);
    table_close(catalog, AccessShareLock);
    return found;
}

// The buffer of a source, or InvalidOid. Only for use inside of pg::call.
Oid find_buffer(Oid source, Oid schema) {
    const Oid buffer = get_relname_relid(psprintf("changes_%u", source), schema);
    return OidIsValid(buffer) && is_tied(buffer, source) ? buffer : InvalidOid;
}

bool is_stored(Form_pg_attribute column) {
    return column->attgenerated == '\0' || column->attgenerated == ATTRIBUTE_GENERATED_STORED;
}

// The column of a table that a buffer's column is for, null when nobody has it any more. The buffer's columns
// bear the numbers of the source's; a partition has the same names. Only for use inside of pg::call.
Form_pg_attribute find_column(Relation table, Oid source, Form_pg_attribute in_buffer) {
    const auto number = static_cast<AttrNumber>(std::atoi(NameStr(in_buffer->attname) + 1));
    AttrNumber here = number;
    if (source != RelationGetRelid(table)) {
        const char* const name = get_attname(source, number, true);
        here = name == nullptr ? InvalidAttrNumber : get_attnum(RelationGetRelid(table), name);
    }
    if (here <= 0 || here > RelationGetNumberOfAttributes(table)) return nullptr;
    const Form_pg_attribute column = TupleDescAttr(RelationGetDescr(table), here - 1);
    return column->attisdropped ? nullptr : column;
}

void map_columns(CaptureTarget& target, Relation table, Oid source, Relation buffer) {
    const TupleDesc shape = RelationGetDescr(buffer);
    for (int i = buffer_first_value; i < shape->natts; ++i) {
        const Form_pg_attribute in_buffer = TupleDescAttr(shape, i);
        const Form_pg_attribute column =
            in_buffer->attisdropped ? nullptr
                                    : pg::call([&] { return find_column(table, source, in_buffer); });
        if (column == nullptr) {
            target.columns.push_back({InvalidAttrNumber, 0, true});
            continue;
        }
        if (column->atttypid != in_buffer->atttypid || column->atttypmod != in_buffer->atttypmod ||
            column->attcollation != in_buffer->attcollation || !is_stored(column))
            target.fits = false;
        target.columns.push_back({column->attnum, column->attlen, column->attbyval});
        target.last_column = std::max(target.last_column, column->attnum);
    }
}

// Find the buffer and open it; the target is filled on the way.
Relation open_buffer(CaptureTarget& target, Relation table, Oid schema) {
    target.watched = find_ancestry(RelationGetRelid(table));
    for (const Oid source : std::vector(target.watched)) {
        target.buffer = pg::call([&] { return find_buffer(source, schema); });
        if (!OidIsValid(target.buffer)) continue;
        target.source = source;
        target.watched.push_back(target.buffer);
        const Relation buffer = pg::call([&] { return try_table_open(target.buffer, RowExclusiveLock); });
        if (buffer == nullptr) return nullptr;
        map_columns(target, table, source, buffer);
        return buffer;
    }
    return nullptr;
}

void watch_tables() {
    static const bool watching = [] {
        CacheRegisterRelcacheCallback(forget_table, Datum{0});
        return true;
    }();
    static_cast<void>(watching);
}

}  // namespace

OpenTarget open_target(Relation table, Oid schema) {
    watch_tables();
    auto& known = known_targets();
    CaptureTarget& target = known[RelationGetRelid(table)];
    if (target.ready) {
        const Relation buffer = pg::call([&] { return try_table_open(target.buffer, RowExclusiveLock); });
        // Taking the lock has brought the news of whoever held the lock before.
        if (buffer != nullptr && target.ready) return {&target, buffer};
        if (buffer != nullptr) pg::call([&] { table_close(buffer, NoLock); });
    }
    for (;;) {
        const std::uint64_t news_before = news;
        target = CaptureTarget{};
        const Relation buffer = open_buffer(target, table, schema);
        if (news == news_before) {
            target.ready = buffer != nullptr;  // without one, look again: nothing tells when a buffer is made
            return {&target, buffer};
        }
        if (buffer != nullptr) pg::call([&] { table_close(buffer, NoLock); });
    }
}

}  // namespace baton::stream

// Let a buffer go with its source, and prove thereby whose buffer it is.
extern "C" Datum baton_tie_buffer(PG_FUNCTION_ARGS) {
    using namespace baton;
    return pg::enter([&]() -> Datum {
        pg::call([&] {
            ObjectAddress buffer;
            ObjectAddress source;
            ObjectAddressSet(buffer, RelationRelationId, PG_GETARG_OID(0));
            ObjectAddressSet(source, RelationRelationId, PG_GETARG_OID(1));
            recordDependencyOn(&buffer, &source, DEPENDENCY_AUTO);
        });
        PG_RETURN_VOID();
    });
}
