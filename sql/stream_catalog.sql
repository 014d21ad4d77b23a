-- What baton knows about stream tables: tables that hold the result of a query and are kept up to date.
--
-- The query lives in a view of baton_internal. Nobody reads the view. It makes the server watch what the query reads: a table or column in use is
-- not dropped or retyped without CASCADE, and a rename changes the query along.

create table baton.stream_tables (
    stream_id         int         generated always as identity primary key,
    relation          regclass    not null unique,
    query             text        not null,            -- as given
    qualified         text        not null,            -- as the server understood it then
    query_view        regclass    not null,            -- as the server understands it now
    parameters        jsonb       not null,            -- parameters of the maker's session on which results depend
    schedule          text,                            -- null: by hand
    refresh_mode      text        not null check (refresh_mode in ('AUTO', 'FULL', 'DIFFERENTIAL', 'IMMEDIATE')),
    effective_mode    text        not null default 'FULL' check (effective_mode in ('FULL', 'DIFFERENTIAL', 'IMMEDIATE')),
    reason            text,                            -- why it is not differential
    delta             text,                            -- the statement that computes the changes, where it is
    tree              text,                            -- its operators
    level             int         not null default 1,  -- above the stream tables that it reads
    frontier          pg_snapshot,                     -- what the last refresh saw, null before the first
    frontier_xid      xid8,                            -- the transaction of that refresh ...
    frontier_step     int,                             -- ... and how many of its own statements it saw
    frontier_time     timestamptz,                     -- what now() was then
    system_identifier bigint,                          -- the cluster in whose history that means something
    relation_id       oid,                             -- the table as a number, which a dump carries along
    source_state      jsonb,                           -- what was noted about the sources, by their number
    begins_anew       text,                            -- why the next refresh computes everything, where somebody should know
    paused            boolean     not null default false,
    stopped_at        timestamptz,                     -- since when it is left alone after too many failures
    stop_untold       boolean     not null default false,  -- a writer stopped it, and nobody has raised the alert
    failed_in_a_row   int         not null default 0,
    last_error        text,
    held_up_since     timestamptz,                     -- since when it waits for somebody who has locked a table
    created_at        timestamptz not null default clock_timestamp(),
    begun_at          timestamptz,                     -- when the last refresh that ended well began
    refreshed_at      timestamptz,                     -- and ended
    last_mode         text,
    last_inserted     bigint,
    last_deleted      bigint,
    refreshes         bigint      not null default 0,
    next_due          timestamptz,
    costs             jsonb,                           -- what refreshes took, see learned_costs()
    writer            xid8,                            -- the transaction that may write to the table now ...
    writer_depth      int                              -- ... from within so many triggers
) with (fillfactor = 50);  -- refreshes change no column of an index: a page takes the next version of a row and drops the one before
comment on table baton.stream_tables is 'one row per stream table made by create_stream_table()';
create index stream_tables_untold on baton.stream_tables (stopped_at) where stop_untold;

create table baton_internal.stream_sources (
    stream_id int    not null references baton.stream_tables on delete cascade,
    source    regclass not null,
    columns   int2[] not null,  -- those that the query reads
    captured  int2[],           -- those whose changes are followed, null for a source that is not
    primary key (stream_id, source)
);
comment on table baton_internal.stream_sources is 'tables that the query of a stream table reads, through views as well';
create index stream_sources_source on baton_internal.stream_sources (source);

create table baton_internal.stream_refreshes (
    entry_id     bigint      generated always as identity primary key,
    stream_id    int         not null references baton.stream_tables on delete cascade,
    begun_at     timestamptz not null,
    milliseconds numeric     not null,
    mode         text        not null,
    inserted     bigint,
    deleted      bigint,
    event_id     bigint,     -- what it wrote to the outbox
    error        text        -- null: it went well
);
comment on table baton_internal.stream_refreshes is 'refreshes that changed something or failed';
create index stream_refreshes_stream on baton_internal.stream_refreshes (stream_id, begun_at);

create table baton_internal.stream_outboxes (
    outbox_id    int         primary key references baton.outboxes on delete cascade,
    stream_id    int         unique references baton.stream_tables on delete set null,
    format       text        not null check (format in ('delta', 'rows')),
    delta_rows   regclass,   -- rows of deltas that are too large for an event
    latest_view  regclass,
    enabled_at   timestamptz not null default clock_timestamp()
);
comment on table baton_internal.stream_outboxes is 'outboxes that carry the changes of a stream table';

-- Find a stream table by its table.
create function baton_internal.find_stream(relation regclass)
returns baton.stream_tables
language plpgsql stable
as $$
declare
    found_stream baton.stream_tables;
begin
    select s.* into found_stream from baton.stream_tables s where s.relation = find_stream.relation;
    if not found then
        raise exception '"%" is not a stream table', relation
            using errcode = 'undefined_object', hint = 'make one with baton.create_stream_table(), or see baton.stream_table_status()';
    end if;
    return found_stream;
end
$$;
comment on function baton_internal.find_stream(regclass) is 'catalog row of a stream table, or undefined_object';

-- When a stream table is due that is refreshed now, by the clock of its maker's time zone.
create function baton_internal.next_refresh(stream baton.stream_tables)
returns timestamptz
language plpgsql stable
as $$
begin
    return baton_internal.next_refresh(stream.schedule, baton_internal.clock(), stream.effective_mode <> 'FULL', stream.parameters ->> 'TimeZone');
end
$$;
comment on function baton_internal.next_refresh(baton.stream_tables) is 'when a stream table is due next, counted from now';

-- Resolve a user's name for a stream table by the caller's search path.
create function baton_internal.resolve_stream(name text)
returns regclass
language plpgsql stable
as $$
begin
    return baton_internal.resolve_table(name);
exception when undefined_table then
    raise exception 'there is no table "%"', left(name, 100)
        using errcode = 'undefined_table', hint = 'make a stream table with baton.create_stream_table(), or qualify the name with its schema';
end
$$;
comment on function baton_internal.resolve_stream(text) is 'the stream table that a name means to the caller, or undefined_table';

-- Write the query of a view so that it means the same under any search path.
create function baton_internal.view_query(query_view regclass)
returns text
language sql stable
set search_path = pg_catalog, pg_temp set quote_all_identifiers = off
as $$ select rtrim(pg_get_viewdef(query_view), '; ') $$;
comment on function baton_internal.view_query(regclass) is 'query of a view with every name qualified, null when the view is gone';

-- The tables that a view reads, through other views as well, and the columns of each.
create function baton_internal.view_sources(query_view regclass)
returns table (source regclass, columns int2[])
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    with recursive reads (relation, column_number) as (
        select d.refobjid, d.refobjsubid
          from pg_rewrite r join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
         where r.ev_class = query_view and d.refobjid <> r.ev_class
        union
        select d.refobjid, d.refobjsubid
          from reads v
          join pg_class c on c.oid = v.relation and c.relkind = 'v'
          join pg_rewrite r on r.ev_class = c.oid
          join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
         where d.refobjid <> r.ev_class)
    select s.relation::regclass, coalesce(array_agg(s.column_number::int2 order by s.column_number) filter (where s.column_number > 0), '{}')
      from reads s join pg_class c on c.oid = s.relation and c.relkind in ('r', 'p', 'f', 'm')
     group by s.relation
$$;
comment on function baton_internal.view_sources(regclass) is 'tables and columns that a view reads';

-- The present columns of a table in their order.
create function baton_internal.table_columns(relation regclass)
returns table (number int, name text, type oid, modifier int, collation_id oid)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select row_number() over (order by a.attnum)::int, a.attname::text, a.atttypid, a.atttypmod, a.attcollation
      from pg_attribute a where a.attrelid = relation and a.attnum > 0 and not a.attisdropped
$$;
comment on function baton_internal.table_columns(regclass) is 'columns of a table in their order';

-- Keep in mind what a stream table reads, and how far it is from tables that are none.
create function baton_internal.note_stream_sources(id int, query_view regclass)
returns void
language plpgsql
as $$
declare
    changed int;
begin
    delete from baton_internal.stream_sources s where s.stream_id = id;
    insert into baton_internal.stream_sources (stream_id, source, columns)
    select id, v.source, v.columns from baton_internal.view_sources(query_view) v;
    loop  -- levels of those above follow; there are no cycles
        update baton.stream_tables s set level = n.level
          from (select t.stream_id, 1 + coalesce(max(u.level), 0) as level
                  from baton.stream_tables t
                  left join baton_internal.stream_sources r on r.stream_id = t.stream_id
                  left join baton.stream_tables u on u.relation = r.source
                 group by t.stream_id) n
         where n.stream_id = s.stream_id and n.level <> s.level;
        get diagnostics changed = row_count;
        exit when changed = 0;
    end loop;
end
$$;
comment on function baton_internal.note_stream_sources(int, regclass) is 'notes what a stream table reads';

select baton_internal.declare_privileges('select', '{baton_relay,baton_operator,baton_viewer}', '{stream_tables}');
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_viewer}', '{resolve_stream}');
select baton_internal.declare_privileges('execute', '{baton_operator}', '{view_query,view_sources,table_columns}');
