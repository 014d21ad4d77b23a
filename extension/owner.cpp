// baton_internal.run_as_owner(...): a statement on a user's table runs with the rights of the table's owner.
//
// A table carries code of its owner: triggers, defaults, expressions of indexes, policies. Whoever runs a
// statement on the table runs that code. So baton, which runs statements on other people's tables, does so as
// the owner, in a context that the owner's code cannot get out of.

#include "owner.hpp"

#include "pg/role.hpp"
#include "pg/spi.hpp"

BATON_FUNCTION(baton_run_as_owner);
BATON_FUNCTION(baton_change_as_owner);
BATON_FUNCTION(baton_acting_role);
BATON_FUNCTION(baton_is_restricted);

namespace baton::owner {

namespace {

// The owner as whom this process acts now; invalid outside of such statements.
Oid acting_owner = InvalidOid;

// Find a table's owner, or nobody when the table is gone. Only for use inside of pg::call.
Oid find(Oid table) {
    HeapTuple const row = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
    if (!HeapTupleIsValid(row)) return InvalidOid;
    const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(row))->relowner;
    ReleaseSysCache(row);
    return owner;
}

}  // namespace

Acting::Acting(Oid owner) noexcept : before_(std::exchange(acting_owner, owner)) {}

Acting::~Acting() {
    acting_owner = before_;
}

Oid lock(Oid table) {
    return pg::call([&] {
        LockRelationOid(table, AccessShareLock);
        const Oid owner = find(table);
        if (!OidIsValid(owner))
            ereport(ERROR,
                    (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("table with OID %u does not exist", table)));
        return owner;
    });
}

Oid of_function(Oid function) {
    return pg::call([&] {
        const HeapTuple row = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
        if (!HeapTupleIsValid(row)) elog(ERROR, "cache lookup failed for function %u", function);
        const Oid owner = reinterpret_cast<Form_pg_proc>(GETSTRUCT(row))->proowner;
        ReleaseSysCache(row);
        return owner;
    });
}

}  // namespace baton::owner

using namespace baton;

namespace {

// Arguments, in the order of the SQL functions.
enum Argument { relation, statement, moment, ids, arguments, companions };

// Refuse a table of which a part belongs to somebody who may not act as the owner: that part's triggers would
// run with rights which its owner does not have.
void check_parts(Oid table, Oid owner) {
    pg::call([&] {
        List* const parts = find_all_inheritors(table, NoLock, nullptr);
        ListCell* cell = nullptr;
        foreach (cell, parts) {
            const Oid part_owner = owner::find(lfirst_oid(cell));
            if (!OidIsValid(part_owner) || has_privs_of_role(part_owner, owner)) continue;
            ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                            errmsg("table \"%s\" belongs to \"%s\", who may not act as \"%s\"",
                                   get_rel_name(lfirst_oid(cell)), GetUserNameFromId(part_owner, true),
                                   GetUserNameFromId(owner, true)),
                            errdetail("Its triggers would run with the rights of \"%s\".",
                                      GetUserNameFromId(owner, true)),
                            errhint("give the table and all that belongs to it to one owner")));
        }
        list_free(parts);
    });
}

// Check every table that the statement may change besides its own.
void check_companions(FunctionCallInfo fcinfo, Oid owner) {
    if (PG_ARGISNULL(companions)) return;
    int count = 0;
    Datum* const tables = pg::call([&] {
        Datum* values = nullptr;
        bool* nulls = nullptr;
        deconstruct_array(PG_GETARG_ARRAYTYPE_P(companions), REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT,
                          &values, &nulls, &count);
        return values;
    });
    for (int i = 0; i < count; ++i) check_parts(DatumGetObjectId(tables[i]), owner);
}

pg::SqlParam parameter(FunctionCallInfo fcinfo, int argument, Oid type) {
    return {type, PG_GETARG_DATUM(argument), static_cast<bool>(PG_ARGISNULL(argument))};
}

// Run the statement as the table's owner; `finish` looks at its rows when that is over.
template <class Finish>
Datum run(FunctionCallInfo fcinfo, Finish&& finish) {
    if (PG_ARGISNULL(relation) || PG_ARGISNULL(statement))
        throw SqlError("a table and a statement are needed", "22004");
    const Oid table = PG_GETARG_OID(relation);
    const Oid owner = owner::lock(table);
    check_parts(table, owner);
    check_companions(fcinfo, owner);
    const char* const sql = pg::call([&] { return text_to_cstring(PG_GETARG_TEXT_PP(statement)); });
    const std::array params{parameter(fcinfo, moment, TIMESTAMPTZOID), parameter(fcinfo, ids, TEXTARRAYOID),
                            parameter(fcinfo, arguments, JSONBOID)};
    pg::Spi spi;
    std::uint64_t rows = 0;
    {
        const owner::Acting acting(owner);
        const pg::RestrictedRole role(owner);
        rows = spi.execute(sql, params);
    }
    return finish(spi, rows);
}

}  // namespace

extern "C" Datum baton_run_as_owner(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        return run(fcinfo, [&](pg::Spi& spi, std::uint64_t) {
            spi.give_rows(fcinfo);
            return Datum{0};
        });
    });
}

extern "C" Datum baton_change_as_owner(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        return run(fcinfo,
                   [](pg::Spi&, std::uint64_t rows) { return Int64GetDatum(static_cast<int64>(rows)); });
    });
}

extern "C" Datum baton_acting_role(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        if (!OidIsValid(owner::acting_owner)) PG_RETURN_NULL();
        return pg::call([] {
            auto* const name = static_cast<NameData*>(palloc0(sizeof(NameData)));
            namestrcpy(name, GetUserNameFromId(owner::acting_owner, false));
            return NameGetDatum(name);
        });
    });
}

extern "C" Datum baton_is_restricted(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum { PG_RETURN_BOOL(InSecurityRestrictedOperation()); });
}
