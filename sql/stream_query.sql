-- The query of a stream table: checked and understood with the rights and the search path of whoever gives it. What is kept is what the server
-- understood, so nobody's text is ever run with more rights than its writer's.

-- Refuse a text that is not one SELECT that the caller may run.
create function baton_internal.check_query_text(query text)
returns void
language plpgsql
as $$
declare
    tried refcursor;
begin
    if coalesce(btrim(query, E' \t\n\r;'), '') = '' then
        raise exception 'a query is needed' using errcode = 'invalid_parameter_value', hint = 'such as ''select customer, sum(amount) as total from orders group by customer''';
    end if;
    open tried no scroll for execute query;  -- opened and not read: a cursor takes one statement, and looks at privileges
    close tried;
exception when invalid_cursor_definition then
    raise exception 'the query must be one SELECT'
        using errcode = 'invalid_parameter_value', detail = sqlerrm, hint = 'without INTO, and without a second statement behind it';
end
$$;
comment on function baton_internal.check_query_text(text) is 'raises unless a text is one statement that gives rows and that the present user may run';

-- Have the server understand a query, as a view in a schema in which the caller may create; refuse what a stream table cannot hold.
create function baton_internal.make_query_view(schema_name text, query text)
returns regclass
language plpgsql
as $$
declare
    view_name constant text := pg_catalog.format('%I.%I', schema_name, baton_internal.unused_name(schema_name, 'baton_query_' || pg_catalog.pg_backend_pid()::text, ''));
begin
    perform baton_internal.check_query_text(query);
    begin
        execute pg_catalog.format('create view %s as %s', view_name, btrim(query, E' \t\n\r;'));
    exception
        when invalid_table_definition then
            raise exception 'the query cannot be kept: %', sqlerrm
                using errcode = 'wrong_object_type', hint = 'a temporary table goes with its session: read from a permanent one; columns need a type that a table can have';
        when duplicate_column then
            raise exception 'the query has two columns of one name: %', sqlerrm
                using errcode = 'duplicate_column', hint = 'give each column a name of its own: select a.id as a_id, b.id as b_id';
        when feature_not_supported or syntax_error then
            raise exception 'the query must be one SELECT: %', sqlerrm
                using errcode = 'invalid_parameter_value', hint = 'without INTO, and without INSERT, UPDATE, DELETE or MERGE in WITH';
    end;
    perform baton_internal.check_query_view(view_name::regclass), baton_internal.tell_volatile(view_name::regclass);
    return view_name::regclass;
end
$$;
comment on function baton_internal.make_query_view(text, text) is 'view with the query of a stream table';

-- The volatile functions that a view calls, also in views below.
create function baton_internal.volatile_functions(query_view regclass)
returns regproc[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    with recursive views (view) as (
        select query_view::oid
        union
        select d.refobjid from views v join pg_rewrite r on r.ev_class = v.view
          join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
          join pg_class c on c.oid = d.refobjid and c.relkind = 'v')
    select array_agg(distinct p.oid::regproc order by p.oid::regproc)
      from views v join pg_rewrite r on r.ev_class = v.view cross join lateral regexp_matches(r.ev_action::text, ':(?:funcid|opfuncid|winfnoid|aggfnoid) ([0-9]+)', 'g') m
      join pg_proc p on p.oid = m[1]::oid and p.provolatile = 'v'
$$;
comment on function baton_internal.volatile_functions(regclass) is 'volatile functions that a query calls';

-- Notice functions of a query that may do something at each call: a refresh calls them, whenever there is one.
create function baton_internal.tell_volatile(query_view regclass)
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    called constant text := (select string_agg(f || '()', ', ') from unnest(baton_internal.volatile_functions(query_view)) f
                              where f::oid >= 16384 or f::text not in ('random', 'clock_timestamp', 'timeofday', 'gen_random_uuid', 'statement_timestamp'));
begin
    if called is not null then
        raise notice 'the query calls %, which may write: every refresh calls it again', called
            using hint = 'a stream table is for what a query shows; a function that only reads may be declared stable';
    end if;
end
$$;
comment on function baton_internal.tell_volatile(regclass) is 'notices functions of a query that may write';

-- Refuse a query that a stream table cannot hold.
create function baton_internal.check_query_view(query_view regclass)
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from baton_internal.table_columns(query_view)) then
        raise exception 'the query has no columns' using errcode = 'invalid_parameter_value';
    elsif exists (select from baton_internal.table_columns(query_view) c where c.name = '?column?') then
        raise exception 'column % of the query has no name', (select min(c.number) from baton_internal.table_columns(query_view) c where c.name = '?column?')
            using errcode = 'invalid_parameter_value', hint = 'name it: select a + b as total';
    elsif exists (select from baton_internal.table_columns(query_view) c where c.name like E'baton\\_%') then
        raise exception 'column names that begin with baton_ are baton''s own' using errcode = 'reserved_name';
    elsif exists (select from pg_rewrite r where r.ev_class = query_view and r.ev_action::text like '%{ROWMARKCLAUSE%') then
        raise exception 'the query locks rows' using errcode = 'invalid_parameter_value', hint = 'leave FOR UPDATE and FOR SHARE out';
    elsif baton_internal.volatile_functions(query_view)::oid[] && '{nextval(regclass),"setval(regclass,bigint)","setval(regclass,bigint,boolean)"}'::regprocedure[]::oid[] then
        raise exception 'the query moves a sequence' using errcode = 'invalid_parameter_value', detail = 'every refresh would call nextval() or setval() again';
    end if;
end
$$;
comment on function baton_internal.check_query_view(regclass) is 'raises for a query that a stream table cannot hold';

-- Whether two values of a type that are equal cannot be told apart: then rows are compared by `=`, else by images.
create function baton_internal.is_plain_type(type oid, collation_id oid)
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    with recursive base (oid, typtype, typbasetype) as (
        select t.oid, t.typtype, t.typbasetype from pg_type t where t.oid = type
        union all
        select t.oid, t.typtype, t.typbasetype from base b join pg_type t on t.oid = b.typbasetype where b.typtype = 'd')
    select exists (select from base b where b.typtype = 'e'
                      or b.oid in ('bool'::regtype, 'int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'oid'::regtype, 'date'::regtype, 'time'::regtype,
                                   'timestamp'::regtype, 'timestamptz'::regtype, 'uuid'::regtype, 'bytea'::regtype)
                      or b.oid in ('text'::regtype, 'varchar'::regtype)
                         and exists (select from pg_collation c where c.oid = collation_id and c.collisdeterministic))
$$;
comment on function baton_internal.is_plain_type(oid, oid) is 'whether equal values of a type have equal images';

-- Refuse a change of the query that would have a stream table read itself.
create function baton_internal.check_stream_cycle(stream baton.stream_tables, query_view regclass)
returns void
language plpgsql stable
as $$
declare
    through text;
begin
    with recursive reads (relation, path) as (
        select v.source, v.source::text from baton_internal.view_sources(query_view) v
        union all
        select r.source, x.path || ' -> ' || r.source::text
          from reads x
          join baton.stream_tables s on s.relation = x.relation
          join baton_internal.stream_sources r on r.stream_id = s.stream_id
         where x.relation <> stream.relation)
    select x.path into through from reads x where x.relation = stream.relation limit 1;
    if found then
        raise exception 'stream table % would read itself', stream.relation
            using errcode = 'invalid_object_definition', detail = stream.relation::text || ' -> ' || through;
    end if;
end
$$;
comment on function baton_internal.check_stream_cycle(baton.stream_tables, regclass) is 'raises invalid_object_definition for a circle of stream tables';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{check_query_text,make_query_view,check_query_view,volatile_functions,tell_volatile,unused_name,derived_name}');
