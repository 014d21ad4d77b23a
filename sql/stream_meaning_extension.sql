-- What the query of a stream table means beyond its own text: the views, functions, operators and types that it uses. None of them fires a trigger when it is altered.

-- The views that a query reads, through others as well.
create function baton_internal.views_below(query_view regclass)
returns oid[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        with recursive views (relation) as (
            select query_view::oid
            union
            select d.refobjid from views v join pg_rewrite r on r.ev_class = v.relation
              join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
              join pg_class c on c.oid = d.refobjid and c.relkind = 'v')
        select v.relation from views v order by v.relation);
end
$$;
comment on function baton_internal.views_below(regclass) is 'a view and the views that it reads';

-- Whether a function came with an extension. Such functions call each other, and change with the extension.
create function baton_internal.is_of_extension(function oid)
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select function < 16384 or exists (select from pg_depend e where e.classid = 'pg_proc'::regclass and e.objid = function and e.deptype = 'e') $$;
comment on function baton_internal.is_of_extension(oid) is 'whether a function belongs to an extension or to the server';

-- The functions that the body of a function names, where the body is a text.
create function baton_internal.functions_named_by(function oid)
returns oid[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    body constant text := (select f.prosrc from pg_proc f join pg_language l on l.oid = f.prolang and l.lanname not in ('internal', 'c')
                            where f.oid = function and not baton_internal.is_of_extension(function));
    words constant text[] := regexp_split_to_array(lower(body), '[^[:alnum:]_$]+');
begin
    return array(select p.oid from pg_proc p
                  where p.oid >= 16384 and (lower(p.proname) = any (words) or p.proname ~ '[^[:alnum:]_$]' and strpos(body, p.proname) > 0)
                    and not baton_internal.is_of_extension(p.oid));
end
$$;
comment on function baton_internal.functions_named_by(oid) is 'functions that a function may call';

-- What a query uses, through what that uses. A function whose body is a text is taken to use the functions that the text names; one that puts names together escapes this.
-- `class` is the catalog of the object. What the server came with is not listed.
create function baton_internal.objects_below(query_view regclass)
returns table (class oid, object oid)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with recursive used (class, object, part) as (
            select d.refclassid, d.refobjid, d.refobjsubid
              from pg_rewrite r join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
             where r.ev_class = any (baton_internal.views_below(query_view)) and not (d.refclassid = 'pg_class'::regclass and d.refobjid = r.ev_class)
            union
            select 'pg_proc'::regclass, c.castfunc, 0 from pg_cast c where c.oid >= 16384 and c.castfunc <> 0 and c.castsource < 16384 and c.casttarget < 16384
            union
            select n.class, n.object, n.part
              from used u
             cross join lateral (
                   select d.refclassid, d.refobjid, d.refobjsubid from pg_depend d
                    where d.classid = u.class and d.objid = u.object and (u.part = 0 or d.objsubid = u.part) and d.deptype in ('n', 'a', 'i')
                      and d.refclassid in ('pg_type'::regclass, 'pg_proc'::regclass, 'pg_operator'::regclass, 'pg_collation'::regclass)
                   union all
                   select 'pg_class'::regclass, t.typrelid, 0 from pg_type t where u.class = 'pg_type'::regclass and t.oid = u.object and t.typrelid <> 0
                   union all
                   select 'pg_proc'::regclass, c.castfunc, 0 from pg_cast c where u.class = 'pg_type'::regclass and u.object in (c.castsource, c.casttarget) and c.castfunc <> 0
                   union all
                   select 'pg_proc'::regclass, called, 0 from unnest(case when u.class = 'pg_proc'::regclass then baton_internal.functions_named_by(u.object) end) called) n (class, object, part))
        select distinct u.class, u.object from used u;
end
$$;
comment on function baton_internal.objects_below(regclass) is 'views, functions, operators, types and collations that a query uses';

-- Fingerprint what a query means beyond its own text. Functions by since when they are as they are; values of enums and attributes of rows by what they are,
-- since a query may turn them into text; collations by their versions.
create function baton_internal.query_state(query_view regclass)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp set quote_all_identifiers = off
as $$
declare
    views constant text := (select string_agg(pg_get_viewdef(v), ';' order by v) from unnest(baton_internal.views_below(query_view)) v where v <> query_view::oid);
    used constant oid[] := array(select o.object from baton_internal.objects_below(query_view) o);
begin
    return md5(concat_ws('|', views,
        (select string_agg(concat_ws(' ', p.oid, p.xmin, p.ctid), ';' order by p.oid) from pg_proc p where p.oid = any (used)),
        (select string_agg(format('%s %s %L', e.oid, e.enumsortorder, e.enumlabel), ';' order by e.oid) from pg_enum e where e.enumtypid = any (used)),
        (select string_agg(format('%s %s %L %s %s', a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod), ';' order by a.attrelid, a.attnum)
           from pg_type t join pg_attribute a on a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped where t.oid = any (used)),
        (select string_agg(concat_ws(' ', l.oid, l.collversion, pg_collation_actual_version(l.oid)), ';' order by l.oid)
           from pg_collation l where l.oid = any (used || 'pg_catalog.default'::regcollation::oid)),
        (select string_agg(concat_ws(' ', c.castsource, c.casttarget, c.castfunc, c.castcontext, c.castmethod), ';' order by c.oid) from pg_cast c
          where c.oid >= 16384 and (c.castsource < 16384 and c.casttarget < 16384 or c.castsource = any (used) or c.casttarget = any (used))),
        baton_internal.text_search_state(concat_ws(' ', views, pg_get_viewdef(query_view), (select string_agg(p.prosrc, ' ' order by p.oid) from pg_proc p where p.oid = any (used))))));
end
$$;
comment on function baton_internal.query_state(regclass) is 'fingerprint of the views, functions and types of a query';

-- Fingerprint the text search configurations and dictionaries for a text that may name one; null for any other.
create function baton_internal.text_search_state(query text)
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case when query ~* 'regconfig|regdictionary|to_ts|tsquery|ts_' then
        md5(concat_ws('|', (select string_agg(concat_ws(' ', m.mapcfg, m.maptokentype, m.mapseqno, m.mapdict), ';' order by m.mapcfg, m.maptokentype, m.mapseqno) from pg_ts_config_map m),
                           (select string_agg(concat_ws(' ', d.oid, d.dicttemplate, d.dictinitoption), ';' order by d.oid) from pg_ts_dict d))) end
$$;
comment on function baton_internal.text_search_state(text) is 'fingerprint of what text search functions go by';
