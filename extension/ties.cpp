// baton_internal.depend_on_extension(relation): what baton made for a user goes with the extension, as what
// CREATE EXTENSION made does. The grammar has no such dependency for tables and views; unlike a member of the
// extension, a table that depends on the extension is in every dump.

#include "pg/guard.hpp"

BATON_FUNCTION(baton_depend_on_extension);

using namespace baton;

extern "C" Datum baton_depend_on_extension(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const Oid relation = PG_GETARG_OID(0);
        pg::call([&] {
            ObjectAddress table;
            ObjectAddress extension;
            ObjectAddressSet(table, RelationRelationId, relation);
            ObjectAddressSet(extension, ExtensionRelationId, get_extension_oid("baton", false));
            recordDependencyOn(&table, &extension, DEPENDENCY_NORMAL);
        });
        PG_RETURN_VOID();
    });
}
