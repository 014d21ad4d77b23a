#include "support/catalog.hpp"

namespace baton::test {

namespace {

// Each query gives a property's key and its value.
const char* const property_queries[] = {
    // functions and procedures
    R"(select 'routine ' || p.oid::regprocedure, case when p.prokind = 'a' then p.proname else pg_get_functiondef(p.oid) end
         from pg_proc p where p.pronamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace))",
    R"(select 'grants on routine ' || p.oid::regprocedure, coalesce((select string_agg(a::text, ' ' order by a::text) from unnest(p.proacl) a), 'default')
         from pg_proc p where p.pronamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace))",
    // relations
    R"(select 'relation ' || c.oid::regclass, concat_ws(' ', c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, c.relreplident, c.reloptions, pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid))
         from pg_class c where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace))",
    R"(select 'grants on relation ' || c.oid::regclass, coalesce((select string_agg(a::text, ' ' order by a::text) from unnest(c.relacl) a), 'default')
         from pg_class c where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and c.relkind <> 'i')",
    R"(select 'column ' || c.oid::regclass || '.' || a.attname,
              concat_ws(' ', 'number ' || row_number() over (partition by c.oid order by a.attnum), format_type(a.atttypid, a.atttypmod),
                        case when a.attnotnull then 'not null' end, 'default ' || pg_get_expr(d.adbin, d.adrelid), 'identity ' || nullif(a.attidentity::text, ''),
                        'generated ' || nullif(a.attgenerated::text, ''), 'storage ' || a.attstorage::text, a.attacl::text)
         from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
         left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and c.relkind <> 'i')",
    R"(select 'view ' || c.oid::regclass, pg_get_viewdef(c.oid) from pg_class c where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and c.relkind in ('v', 'm'))",
    R"(select 'index ' || i.indexrelid::regclass, pg_get_indexdef(i.indexrelid) from pg_index i join pg_class c on c.oid = i.indexrelid where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace))",
    R"(select 'sequence ' || s.seqrelid::regclass, concat_ws(' ', s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle)
         from pg_sequence s join pg_class c on c.oid = s.seqrelid where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace))",
    R"(select 'constraint ' || coalesce(nullif(k.conrelid, 0)::regclass::text, k.contypid::regtype::text) || ' ' || k.conname, pg_get_constraintdef(k.oid)
         from pg_constraint k where k.connamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace))",
    R"(select 'trigger ' || t.tgrelid::regclass || ' ' || t.tgname, pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text
         from pg_trigger t join pg_class c on c.oid = t.tgrelid where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and not t.tgisinternal)",
    R"(select 'rule ' || r.ev_class::regclass || ' ' || r.rulename, pg_get_ruledef(r.oid)
         from pg_rewrite r join pg_class c on c.oid = r.ev_class where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace))",
    R"(select 'policy ' || p.polrelid::regclass || ' ' || p.polname, concat_ws(' ', p.polcmd, p.polpermissive, p.polroles::regrole[], pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
         from pg_policy p join pg_class c on c.oid = p.polrelid where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace))",
    R"(select 'statistics ' || s.stxname, pg_get_statisticsobjdef(s.oid) from pg_statistic_ext s where s.stxnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace))",
    // types
    R"(select 'type ' || t.oid::regtype, concat_ws(' ', t.typtype, nullif(t.typbasetype, 0)::regtype, t.typnotnull, t.typdefault, (select string_agg(e.enumlabel, ',' order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid), t.typacl::text)
         from pg_type t where t.typnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace))",
    // the schema, comments on everything, membership in the extension
    R"(select 'schema ' || nspname, concat_ws(' ', obj_description(oid, 'pg_namespace'), (select string_agg(a::text, ' ' order by a::text) from unnest(nspacl) a)) from pg_namespace where nspname in ('baton', 'baton_internal'))",
    R"(select 'comment on ' || pg_describe_object(d.classoid, d.objoid, d.objsubid), d.description
         from pg_description d
        where (d.classoid = 'pg_class'::regclass and exists (select from pg_class c where c.oid = d.objoid and c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace)))
           or (d.classoid = 'pg_proc'::regclass and exists (select from pg_proc p where p.oid = d.objoid and p.pronamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace)))
           or (d.classoid = 'pg_type'::regclass and exists (select from pg_type t where t.oid = d.objoid and t.typnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace)))
           or (d.classoid = 'pg_constraint'::regclass and exists (select from pg_constraint k where k.oid = d.objoid and k.connamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace))))",
    R"(select 'member of the extension: ' || pg_describe_object(d.classid, d.objid, d.objsubid), '' from pg_depend d
        where d.deptype = 'e' and d.refclassid = 'pg_extension'::regclass and d.refobjid = (select oid from pg_extension where extname = 'baton'))",
    R"(select 'dumped by the extension: ' || r.relation::regclass, r.condition
         from pg_extension e, unnest(e.extconfig, e.extcondition) as r(relation, condition) where e.extname = 'baton')",
    R"(select 'event trigger ' || evtname, concat_ws(' ', evtevent, evtfoid::regproc, evtenabled, evttags) from pg_event_trigger where evtname like 'baton%')",
    // what the scripts write
    "select 'installed', version || ' ' || form from baton.installation",
};

}  // namespace

CatalogDescription describe_catalog(postgres::Connection& db) {
    CatalogDescription description;
    const auto collect = [&](const std::string& query) {
        const auto rows = db.query(query);
        for (int row = 0; row < rows.rows(); ++row) description[rows.text(row, 0)] = rows.text(row, 1);
    };
    db.exec("set search_path = pg_catalog");  // so that every name is written in full
    for (const char* query : property_queries) collect(query);
    // Rows that the install scripts write, apart from the time at which they did.
    const auto tables = db.query(
        "select c.oid::regclass, "
        "       coalesce((select string_agg(' - ' || quote_literal(a.attname), '') from pg_attribute a "
        "                  where a.attrelid = c.oid and a.attnum > 0 and a.atttypid = "
        "'timestamptz'::regtype), '') "
        "  from pg_class c where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) "
        "and c.relkind = 'r' and c.relname <> "
        "'installation'");
    for (int row = 0; row < tables.rows(); ++row) {
        const std::string table = tables.text(row, 0);
        collect("select 'row of " + table + " ' || (to_jsonb(t)" + tables.text(row, 1) + ")::text, '' from " +
                table + " t");
    }
    return description;
}

std::vector<std::string> differences(const CatalogDescription& expected, const CatalogDescription& found) {
    std::vector<std::string> lines;
    for (const auto& [key, value] : expected) {
        const auto other = found.find(key);
        if (other == found.end())
            lines.push_back("missing: " + key);
        else if (other->second != value)
            lines.push_back("different: " + key + "\n  expected: " + value +
                            "\n  found:    " + other->second);
    }
    for (const auto& [key, value] : found)
        if (!expected.contains(key)) lines.push_back("too much: " + key);
    return lines;
}

}  // namespace baton::test
