// What this session knows about stream tables and need not find out again: the catalogs say the same as long
// as the server tells of no change to a table that matters.
//
//   keep_in_mind, recall   a text per stream table, forgotten when one of its tables or types or any role,
//                          schema, function, operator, enum, collation, cast, text search configuration or
//                          replication origin was altered
//   note_quiet, is_quiet   that there was nothing to do, until somebody commits a change of a source
//   note_tidied, is_tidied what was so when captured changes were tidied up last
//
// Somebody's COMMIT PREPARED may ring no bell (doorbell.hpp), so nobody is quiet for long without another
// look.

#include <unordered_map>

#include "doorbell.hpp"
#include "pg/guard.hpp"

BATON_FUNCTION(baton_alterations);
BATON_FUNCTION(baton_keep_in_mind);
BATON_FUNCTION(baton_recall);
BATON_FUNCTION(baton_source_rings);
BATON_FUNCTION(baton_note_quiet);
BATON_FUNCTION(baton_is_quiet);
BATON_FUNCTION(baton_note_tidied);
BATON_FUNCTION(baton_is_tidied);

using namespace baton;

namespace {

struct Known {
    std::vector<char> text;  // a jsonb value
    std::vector<Oid> tables;
    std::vector<std::uint32_t> types;  // hashed as the server does when it tells of one
    bool altered = false;
    std::vector<Oid> sources;
    std::uint64_t rings = 0;      // when it was quiet
    TimestampTz quiet_since = 0;  // 0: it was not
    std::int64_t longest_us = 0;  // how long it may be
};

auto& known_streams() {
    static auto& known =
        *new std::unordered_map<std::int32_t, Known>;  // never destroyed: nothing of ours runs at exit
    return known;
}

std::uint64_t alterations = 0;  // of which the server has told

// Only mark: somebody may be reading the text.
void forget(Oid table) noexcept {
    ++alterations;
    for (auto& [id, known] : known_streams())
        if (!OidIsValid(table) || std::ranges::count(known.tables, table) > 0) known.altered = true;
}

void table_altered(Datum, Oid table) {
    forget(table);
}

void other_altered(Datum, int, uint32) {
    forget(InvalidOid);
}

// Types come and go with every temporary table. Only those that somebody uses matter.
void type_altered(Datum, int, uint32 hash) {
    ++alterations;
    for (auto& [id, known] : known_streams())
        if (hash == 0 || std::ranges::count(known.types, hash) > 0) known.altered = true;
}

void watch() {
    static const bool watching = [] {
        CacheRegisterRelcacheCallback(table_altered, Datum{0});
        CacheRegisterSyscacheCallback(TYPEOID, type_altered, Datum{0});
        for (const int cache : {AUTHOID, AUTHMEMROLEMEM, NAMESPACEOID, PROCOID, OPEROID, ENUMOID, COLLOID,
                                CASTSOURCETARGET, TSCONFIGMAP, TSDICTOID, REPLORIGIDENT})
            CacheRegisterSyscacheCallback(cache, other_altered, Datum{0});
        return true;
    }();
    static_cast<void>(watching);
}

// What is known of a stream table and still true; null when nothing is.
Known* find(std::int32_t stream) {
    pg::call([] { AcceptInvalidationMessages(); });
    const auto found = known_streams().find(stream);
    return found == known_streams().end() || found->second.altered ? nullptr : &found->second;
}

std::vector<Oid> oids(ArrayType* array) {
    int count = 0;
    const Datum* const values = pg::call([&] {
        Datum* all = nullptr;
        bool* nulls = nullptr;
        deconstruct_array(array, OIDOID, sizeof(Oid), true, TYPALIGN_INT, &all, &nulls, &count);
        return all;
    });
    std::vector<Oid> list;
    for (int i = 0; i < count; ++i) list.push_back(DatumGetObjectId(values[i]));
    return list;
}

// Sources and stream tables, as numbers that a change of them changes.
std::pair<std::int64_t, std::int64_t> tidied{-1, -1};

std::uint64_t rings_of(const std::vector<Oid>& sources) {
    std::uint64_t sum = 0;
    for (const Oid source : sources) sum += doorbell::value(source);
    return sum;
}

}  // namespace

extern "C" Datum baton_alterations(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        watch();
        pg::call([] { AcceptInvalidationMessages(); });
        PG_RETURN_INT64(static_cast<std::int64_t>(alterations));
    });
}

// baton_internal.keep_in_mind(stream_id, known, tables, since): not when something was altered since then.
extern "C" Datum baton_keep_in_mind(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const Jsonb* const value = pg::call([&] { return PG_GETARG_JSONB_P(1); });
        ArrayType* const tables = pg::call([&] { return PG_GETARG_ARRAYTYPE_P(2); });
        if (static_cast<std::uint64_t>(PG_GETARG_INT64(3)) == alterations) {
            const auto* const bytes = reinterpret_cast<const char*>(value);
            Known& known = known_streams()[PG_GETARG_INT32(0)] = Known{};
            known.text.assign(bytes, bytes + VARSIZE(value));
            known.tables = oids(tables);
            for (const Oid object : known.tables)
                known.types.push_back(
                    pg::call([&] { return GetSysCacheHashValue1(TYPEOID, ObjectIdGetDatum(object)); }));
        }
        PG_RETURN_VOID();
    });
}

extern "C" Datum baton_recall(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const Known* const known = find(PG_GETARG_INT32(0));
        if (known == nullptr) PG_RETURN_NULL();
        return pg::call([&] {
            void* const copy = palloc(known->text.size());
            std::memcpy(copy, known->text.data(), known->text.size());
            return PointerGetDatum(copy);
        });
    });
}

// baton_internal.source_rings(sources): a number that another commit of a change to one of them changes.
extern "C" Datum baton_source_rings(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        ArrayType* const sources = pg::call([&] { return PG_GETARG_ARRAYTYPE_P(0); });
        PG_RETURN_INT64(static_cast<std::int64_t>(rings_of(oids(sources))));
    });
}

// baton_internal.note_quiet(stream_id, sources, rings, longest): there was nothing to do after so many rings.
extern "C" Datum baton_note_quiet(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        Known* const known = find(PG_GETARG_INT32(0));
        ArrayType* const sources = pg::call([&] { return PG_GETARG_ARRAYTYPE_P(1); });
        if (known == nullptr || !doorbell::exists()) PG_RETURN_VOID();
        known->sources = oids(sources);
        known->rings = static_cast<std::uint64_t>(PG_GETARG_INT64(2));
        known->quiet_since = GetCurrentTimestamp();
        known->longest_us = std::int64_t{PG_GETARG_INT32(3)} * 1000;
        PG_RETURN_VOID();
    });
}

extern "C" Datum baton_is_quiet(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const Known* const known = find(PG_GETARG_INT32(0));
        if (known == nullptr || known->quiet_since == 0) PG_RETURN_BOOL(false);
        const TimestampTz now = GetCurrentTimestamp();
        PG_RETURN_BOOL(now >= known->quiet_since && now < known->quiet_since + known->longest_us &&
                       rings_of(known->sources) == known->rings);
    });
}

// baton_internal.note_tidied(rings, refreshes), baton_internal.is_tidied(rings, refreshes)
extern "C" Datum baton_note_tidied(PG_FUNCTION_ARGS) {
    tidied = {PG_GETARG_INT64(0), PG_GETARG_INT64(1)};
    PG_RETURN_VOID();
}

extern "C" Datum baton_is_tidied(PG_FUNCTION_ARGS) {
    PG_RETURN_BOOL(tidied == std::pair(PG_GETARG_INT64(0), PG_GETARG_INT64(1)));
}
