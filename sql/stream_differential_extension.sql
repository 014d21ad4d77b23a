-- Differential refreshes: the compiler's statement turns changes of the sources since the frontier into changes of the result.
--
-- The frontier is the snapshot of the last refresh. What a transaction changed that the snapshot does not see is new. Whenever something is in doubt the
-- refresh is full: after a restore, a change of partitions, columns, triggers, owners or rights, or when a capture says that something was missed.

-- Say why the owner of a stream table cannot follow the changes of a source; null when that is possible. A change buffer knows neither policies nor
-- the rights of a view's owner.
create function baton_internal.source_obstacle(source regclass, columns int2[], owner oid)
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        baton_internal.capture_refusal(source, columns),
        (select format('row-level security of %s applies to %s', source, owner::regrole)
           from pg_class c join pg_roles r on r.oid = owner
          where c.oid = source and c.relrowsecurity and not (r.rolsuper or r.rolbypassrls or pg_has_role(owner, c.relowner, 'usage') and not c.relforcerowsecurity)),
        (select format('%s may not read %s itself', owner::regrole, source)
           from unnest(case when columns = '{}' then '{0}'::int2[] else columns end) n
          where not case n when 0 then has_any_column_privilege(owner, source, 'select') else has_column_privilege(owner, source, n, 'select') end limit 1),
        (select format('%1$s may not make triggers on %2$s: grant trigger on %2$s to %1$s', owner::regrole, source) where not has_table_privilege(owner, source, 'trigger')))
$$;
comment on function baton_internal.source_obstacle(regclass, int2[], oid) is 'why the changes of a source cannot be followed for an owner, null when they can';

-- Say why a source cannot be followed through the views that read it: a view shows what its own owner sees, unless it is one of its caller's rights. Null when it can.
create function baton_internal.view_obstacle(query_view regclass, source regclass)
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select min(case when not has_any_column_privilege(v.relowner, source, 'select') then format('%s, who owns the view %s, may not read %s', v.relowner::regrole, v.oid::regclass, source)
                    else format('row-level security of %s applies to %s, who owns the view %s', source, v.relowner::regrole, v.oid::regclass) end)
      from unnest(baton_internal.views_below(query_view)) b (view)
      join pg_class v on v.oid = b.view and v.oid <> query_view
      join pg_roles r on r.oid = v.relowner
      join pg_class c on c.oid = source
     where exists (select from pg_rewrite w join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid and d.refclassid = 'pg_class'::regclass and d.refobjid = source
                    where w.ev_class = v.oid)
       and not exists (select from pg_options_to_table(v.reloptions) o where o.option_name = 'security_invoker' and o.option_value::boolean)
       and (not has_any_column_privilege(v.relowner, source, 'select')
            or c.relrowsecurity and not (r.rolsuper or r.rolbypassrls or pg_has_role(v.relowner, c.relowner, 'usage') and not c.relforcerowsecurity))
$$;
comment on function baton_internal.view_obstacle(regclass, regclass) is 'why the changes of a source cannot be followed through the views of a query, null when they can';

-- Compile the query of a stream table, have its sources captured and make what a differential refresh needs. Gives the statement, or the obstacle.
create function baton_internal.prepare_differential(stream baton.stream_tables, out delta text, out tree text, out obstacle text)
language plpgsql
as $$
declare
    owner constant oid := (select c.relowner from pg_catalog.pg_class c where c.oid = stream.relation);
    compiled record;
begin
    if stream.qualified ~ ':table' then
        obstacle := 'the query has a text with :table in it, which is a word of the compiler';
        return;
    end if;
    select c.* into compiled
      from baton_internal.run_as_owner(stream.relation, format('select sources, delta, reason, tree from baton_internal.compile_stream_query(%L)', stream.qualified))
           as c (sources jsonb, delta text, reason text, tree text);
    obstacle := coalesce(compiled.reason, (select min(coalesce(baton_internal.source_obstacle(s.source, s.columns, owner), baton_internal.view_obstacle(stream.query_view, s.source)))
                                             from baton_internal.compiled_sources(compiled.sources) s));
    if obstacle is not null then
        return;
    end if;
    update baton_internal.stream_sources s set captured = null where s.stream_id = stream.stream_id;
    insert into baton_internal.stream_sources as s (stream_id, source, columns, captured)
    select stream.stream_id, c.source, c.columns, c.columns from baton_internal.compiled_sources(compiled.sources) c
    on conflict (stream_id, source) do update set captured = excluded.captured;
    perform baton_internal.capture_for_stream(stream, owner);
    perform baton_internal.index_rows(stream.relation);
    delta := compiled.delta;
    tree := compiled.tree;
end
$$;
comment on function baton_internal.prepare_differential(baton.stream_tables) is 'compiles the query of a stream table and has its sources captured, or says why not';

-- Read the sources that the compiler found.
create function baton_internal.compiled_sources(sources jsonb)
returns table (source regclass, columns int2[])
language sql immutable
as $$
    select (s ->> 'relation')::oid::regclass, array(select c::int2 from jsonb_array_elements_text(s -> 'columns') c order by c::int2)
      from jsonb_array_elements(sources) s
$$;
comment on function baton_internal.compiled_sources(jsonb) is 'sources of a compiled query';

-- Have the sources of a stream table captured, and let its owner read of the buffers what the query reads. The buffers are locked until the transaction ends: nobody
-- deletes changes before the stream table is there to be seen, and two grants on one buffer at once are an error. Nobody writes to a source while an
-- IMMEDIATE one is made, since a writer would not know of it.
create function baton_internal.capture_for_stream(stream baton.stream_tables, owner oid)
returns void
language plpgsql
as $$
declare
    patience constant interval := baton_internal.lock_patience('5 seconds');
    it record;
    buffer regclass;
begin
    for it in select s.source, s.captured as columns from baton_internal.stream_sources s where s.stream_id = stream.stream_id and s.captured is not null order by s.source loop
        if stream.refresh_mode = 'IMMEDIATE' and not baton_internal.is_immediate_refresh() then
            perform baton_internal.need_lock(it.source, baton_internal.lock_source(it.source, it.columns, patience));
        end if;
        for attempt in 1 .. 3 loop  -- maintenance may drop a buffer that nobody used
            begin
                buffer := baton_internal.capture_source(it.source, it.columns, pg_catalog.pg_get_userbyid(owner));
                perform baton_internal.need_lock(buffer, baton_internal.lock_without_queue(array[buffer], '{share update exclusive}', patience));
                exit;
            exception when undefined_table then
                if attempt = 3 then
                    raise;
                end if;
            end;
        end loop;
        execute format('grant select (%s) on %s to %s',
                       (select string_agg(n, ', ') from unnest('{xid,step,weight}'::text[] || array(select 'c' || c from unnest(it.columns) c)) n), buffer, owner::regrole);
        perform baton_internal.close_buffer(it.source, buffer);
    end loop;
end
$$;
comment on function baton_internal.capture_for_stream(baton.stream_tables, oid) is 'captures the sources of a stream table';

-- The columns whose hash finds a row of a stream table. Not all of many: a longer expression does not fit into the server's catalog. Rows that differ in
-- other columns only are told apart when they are found.
create function baton_internal.hashed_columns(relation regclass)
returns table (number int, name text)
language sql stable
as $$ select c.number, c.name from baton_internal.table_columns(relation) c where c.number <= 100 $$;
comment on function baton_internal.hashed_columns(regclass) is 'columns by which a refresh finds rows of a stream table';

-- Give a stream table the index by which rows that go are found, made for its present columns.
create function baton_internal.index_rows(relation regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp set quote_all_identifiers = off
as $$
declare
    place record;
    hash constant text := format('baton_internal.row_hash(ROW(%s))',
                                 (select string_agg(quote_ident(c.name), ', ' order by c.number) from baton_internal.hashed_columns(relation) c));
    old regclass;
    fits boolean := false;
begin
    for old in select distinct d.objid::regclass from pg_depend d join pg_index i on i.indexrelid = d.objid and i.indrelid = relation
                where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_proc'::regclass and d.refobjid = 'baton_internal.row_hash(record)'::regprocedure loop
        if pg_get_indexdef(old, 1, false) = hash and not fits then
            fits := true;
        else
            execute format('drop index %s', old);
        end if;
    end loop;
    if not fits then
        select n.nspname as schema_name, c.relname as table_name into place from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
        execute format('create index %I on %s ((%s))', baton_internal.unused_name(place.schema_name, place.table_name, '_baton_rows'), relation, hash);
    end if;
end
$$;
comment on function baton_internal.index_rows(regclass) is 'index by which a refresh finds rows of a stream table';

-- Fingerprint all that must not change between two refreshes of which the second is differential. Null where a source is gone. The table's file is another
-- one after it was made unlogged and logged again, and a crash in between emptied it. The compiler relies on primary keys (ties.cpp).
create function baton_internal.stream_state(stream baton.stream_tables)
returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case when bool_and(x.state is not null) then jsonb_object_agg(x.source::oid, md5(x.state || x.obstacle)) || jsonb_build_object(
               'owner', min(x.owner), 'file', min(x.file), 'guard', baton_internal.guard_state(stream.relation), 'query', baton_internal.query_state(stream.query_view), 'catalogs', baton_internal.catalog_files(),
               'keys', (select string_agg(format('%s %s', k.conindid, k.condeferrable), ';' order by k.conindid) from pg_constraint k where k.contype = 'p' and k.conrelid = any (array_agg(x.source::oid)))) end
      from (select s.source, baton_internal.source_state(s.source, s.captured) as state,
                   coalesce(baton_internal.source_obstacle(s.source, s.captured, c.relowner), baton_internal.view_obstacle(stream.query_view, s.source), '') as obstacle, c.relowner::text as owner, c.relfilenode as file
              from baton_internal.stream_sources s join pg_class c on c.oid = stream.relation
             where s.stream_id = stream.stream_id and s.captured is not null) x
$$;
comment on function baton_internal.stream_state(baton.stream_tables) is 'fingerprint of the sources of a stream table and its rights on them';

-- Write the statement of a differential refresh. Rows to be deleted are looked up by their hash.
create function baton_internal.differential_statement(stream baton.stream_tables, changes boolean)
returns text
language sql stable
as $$
    select format($sql$
        with delta (%1$s, baton_weight) as (%2$s),
        net as materialized (
            select %3$s, sum(baton_weight)::bigint as weight, row_number() over () as number from delta group by %4$s having sum(baton_weight) <> 0),
        places as (
            select t.ctid as place, n.weight, row_number() over (partition by n.number) as copy
              from net n join only %5$s t on baton_internal.row_hash(row(%8$s)) = baton_internal.row_hash(row(%11$s)) and %9$s
             where n.weight < 0),
        gone as (
            delete from only %5$s t using places p where t.ctid = p.place and p.copy <= -p.weight returning 1),
        come as (
            insert into %5$s (%6$s)
            select %7$s from net n cross join lateral generate_series(1, n.weight) where n.weight > 0 and (select count(*) from gone) >= 0
            returning 1)
        %10$s$sql$, p.numbers, replace(stream.delta, ':table', stream.relation::text), p.kept, p.grouped, stream.relation, p.names, c.found, h.present, c.same,
        baton_internal.outcome_rows(p.row_of, changes), h.hashed)
      from baton_internal.stream_parts(stream.relation) p
     cross join lateral (select string_agg(format('t.%I', k.name), ', ' order by k.number) as present, string_agg('n.c' || k.number, ', ' order by k.number) as hashed
                           from baton_internal.hashed_columns(stream.relation) k) h
     cross join lateral (
           select string_agg('n.c' || k.number, ', ' order by k.number) as found,
                  string_agg(case when baton_internal.is_plain_type(k.type, k.collation_id) then format('t.%I is not distinct from n.c%s', k.name, k.number)
                                  else format('baton_internal.image(t.%I) is not distinct from baton_internal.image(n.c%s)', k.name, k.number) end, ' and ' order by k.number) as same
             from baton_internal.table_columns(stream.relation) k) c
$$;
comment on function baton_internal.differential_statement(baton.stream_tables, boolean) is 'statement that applies changes of the sources to a stream table';

-- Write the statement that asks whether a differential refresh would change anything.
create function baton_internal.passing_statement(stream baton.stream_tables)
returns text
language sql stable
as $$
    select format('with delta (%s, baton_weight) as (%s) select exists (select from delta group by %s having sum(baton_weight) <> 0) as passed',
                  p.numbers, replace(stream.delta, ':table', stream.relation::text), p.grouped)
      from baton_internal.stream_parts(stream.relation) p
$$;
comment on function baton_internal.passing_statement(baton.stream_tables) is 'statement that says whether changes of the sources change a stream table';

-- Whether the time has taken rows in or out since the last refresh. After a minute it is not asked: a refresh moves the frontier on, so that there is little to look at.
create function baton_internal.has_time_passed(stream baton.stream_tables, known jsonb)
returns boolean
language plpgsql
as $$
begin
    if stream.frontier_time < now() - interval '1 minute' then
        return true;
    end if;
    perform baton_internal.use_maker_parameters(stream);
    return (select r.passed from baton_internal.run_refresh(stream.relation, known ->> 'passing', 0, stream.frontier, stream.frontier_xid, stream.frontier_step, stream.frontier_time)
                                 as r (passed boolean));
exception when others then
    return true;  -- the refresh fails as well, and tells
end
$$;
comment on function baton_internal.has_time_passed(baton.stream_tables, jsonb) is 'whether rows enter or leave a stream table by the time alone';

-- What a differential refresh needs to know, found out once per session as long as nothing is altered:
--   delta     which delta it is for
--   state     fingerprint of sources and rights
--   timed     whether the time is a source, which has always changed; `passing` asks whether it has taken rows in or out
--   sources, buffers, tables   to read, with all parts
--   statement, publishing      without and with the changes for an outbox
create function baton_internal.study_stream(stream baton.stream_tables)
returns jsonb
language plpgsql
as $$
declare
    since constant bigint := baton_internal.alterations();
    known jsonb;
begin
    stream := baton_internal.follow_renames(stream);
    perform baton_internal.check_stream_columns(stream), baton_internal.check_stream_guard(stream);
    if stream.delta is null then  -- with the new names it is not differential any more
        return null;
    end if;
    select jsonb_build_object('delta', md5(stream.delta), 'timed', strpos(stream.delta, 'baton_internal.frontier_time()') > 0, 'state', baton_internal.stream_state(stream), 'sources', array_agg(s.source::oid),
                              'buffers', array_agg(baton_internal.change_buffer(s.source)::oid), 'tables', baton_internal.tables_of_stream(stream.stream_id),
                              'passing', baton_internal.passing_statement(stream), 'statement', baton_internal.differential_statement(stream, false), 'publishing', baton_internal.differential_statement(stream, true)) into known
      from baton_internal.stream_sources s where s.stream_id = stream.stream_id and s.captured is not null;
    if known -> 'state' <> 'null' and not known -> 'buffers' @> '[null]' then
        perform baton_internal.keep_in_mind(stream.stream_id, known, baton_internal.oids(known, 'tables') || baton_internal.oids(known, 'buffers')
                                            || baton_internal.views_below(stream.query_view) || stream.relation::oid
                                            || array(select o.object from baton_internal.objects_below(stream.query_view) o
                                                      where o.class in ('pg_catalog.pg_class'::regclass, 'pg_catalog.pg_type'::regclass)), since);
    end if;
    return known;
end
$$;
comment on function baton_internal.study_stream(baton.stream_tables) is 'what a differential refresh needs to know of a stream table';

-- A list of numbers out of what is known.
create function baton_internal.oids(known jsonb, member text)
returns oid[]
language plpgsql immutable
as $$
begin
    return array(select e::oid from jsonb_array_elements_text(known -> member) e where e is not null);
end
$$;
comment on function baton_internal.oids(jsonb, text) is 'a member of what is known about a stream table, as numbers';

-- Whether what was noted by the last refresh can be relied on: the same history, the same table, the same sources.
create function baton_internal.continues(stream baton.stream_tables, state jsonb)
returns boolean
language plpgsql stable
as $$
begin
    return stream.frontier is not null and state <> 'null' and state = stream.source_state
       and stream.system_identifier = baton_internal.system_identifier() and stream.relation_id = stream.relation::oid
       and pg_snapshot_xmax(stream.frontier) <= pg_snapshot_xmax(pg_current_snapshot());
end
$$;
comment on function baton_internal.continues(baton.stream_tables, jsonb) is 'whether a refresh may go on from where the last one ended';

-- Whether a stream table is known to need nothing. Looks without a lock, and writes nothing. What was noted is looked at again when changes were counted: whoever deletes
-- changes that the stream table has not seen takes back the note in the same transaction.
create function baton_internal.is_current(stream baton.stream_tables)
returns boolean
language plpgsql
as $$
declare
    known constant jsonb := baton_internal.recall(stream.stream_id);
    rings bigint;
begin
    if known ->> 'delta' is distinct from md5(stream.delta) or baton_internal.continues(stream, known -> 'state') is not true
       or not baton.setting('outbox_skip_empty_delta')::boolean then
        return false;
    end if;
    rings := baton_internal.source_rings(baton_internal.oids(known, 'sources'));
    if (baton_internal.unseen_changes(baton_internal.oids(known, 'buffers'), stream.frontier, stream.frontier_xid, stream.frontier_step)).changes > 0 then
        return false;
    elsif not exists (select from baton.stream_tables s where s.stream_id = stream.stream_id and s.source_state is not null) then
        return false;
    elsif not (known ->> 'timed')::boolean then
        perform baton_internal.note_quiet(stream.stream_id, baton_internal.oids(known, 'sources'), rings, 60000);
    elsif baton_internal.has_time_passed(stream, known) then
        return false;
    elsif stream.schedule = 'live' then  -- others are due again by their schedules
        perform baton_internal.note_quiet(stream.stream_id, baton_internal.oids(known, 'sources'), rings, baton.setting('stream_live_interval_ms')::int);
    end if;
    return true;
end
$$;
comment on function baton_internal.is_current(baton.stream_tables) is 'whether there is nothing to do for a stream table';

-- Refresh from the changes of the sources. Gives no counts where the refresh must be full, and then what to note about the sources.
create function baton_internal.refresh_differentially(stream baton.stream_tables, recompute boolean, held jsonb, changes boolean, out inserted bigint, out deleted bigint,
                                                      out sight pg_snapshot, out step int, out source_state jsonb, out event_id bigint, out costs jsonb)
language plpgsql
as $$
declare
    known jsonb := baton_internal.recall(stream.stream_id);
    wanted bigint;
    unseen record;
    begun timestamptz;
begin
    if baton_internal.is_immediate_refresh() and not baton_internal.is_unaltered(stream, known)
       and (baton_internal.stream_query(stream) <> stream.qualified or baton_internal.stream_state(stream) is distinct from stream.source_state) then
        source_state := baton_internal.note_alteration(stream);
        perform baton_internal.hold_state(baton_internal.tables_of_stream(stream.stream_id));
        step := baton_internal.current_step();
        return;
    end if;
    if known ->> 'delta' is distinct from md5(stream.delta) then
        known := baton_internal.study_stream(stream);
        select s.* into stream from baton.stream_tables s where s.stream_id = stream.stream_id;  -- with other names, maybe
    end if;
    source_state := nullif(known -> 'state', 'null');
    if source_state is null or source_state is distinct from stream.source_state then
        if held is null then  -- what is captured from now on is what a state of now does not have
            source_state := baton_internal.try_renew_capture(stream);
        else
            source_state := nullif(held -> stream.stream_id::text, 'null');
        end if;
        stream.source_state := null;  -- so the refresh is full
    end if;
    if held is null or not baton_internal.holds_state() then
        perform baton_internal.hold_state(baton_internal.tables_of_stream(stream.stream_id));
    end if;
    step := baton_internal.current_step();
    if recompute or baton_internal.continues(stream, source_state) is not true then
        return;
    end if;
    unseen := baton_internal.unseen_changes(baton_internal.oids(known, 'buffers'), stream.frontier, stream.frontier_xid, stream.frontier_step);
    if unseen.changes = 0 and not (known ->> 'timed')::boolean and not (changes and not baton.setting('outbox_skip_empty_delta')::boolean) then
        select 0, 0, unseen.sight, stream.costs into inserted, deleted, sight, costs;
        return;
    elsif unseen.missed or baton_internal.is_full_cheaper(stream, unseen.changes) then
        return;
    end if;
    perform baton_internal.trim_for_writer(stream.stream_id) where unseen.seen > 1000 and baton_internal.is_immediate_refresh();
    begun := clock_timestamp();
    begin
        select a.* into inserted, deleted, wanted, sight, event_id
          from baton_internal.apply_refresh(stream, known ->> case when changes then 'publishing' else 'statement' end, 'DIFFERENTIAL', ceil(log(2, 1 + unseen.changes) / 3)::int) a;
        if deleted is distinct from wanted then
            raise exception using errcode = 'BT000';  -- undoes the attempt
        end if;
        costs := baton_internal.learned_costs(stream.costs, unseen.changes, extract(epoch from clock_timestamp() - begun) * 1000);
    exception when sqlstate 'BT000' then
        perform baton_internal.alert('stream_table_repaired', stream.relation::text, jsonb_build_object('wanted', wanted, 'found', deleted));
        inserted := null;
    end;
end
$$;
comment on function baton_internal.refresh_differentially(baton.stream_tables, boolean, jsonb, boolean) is
    'refreshes a stream table from captured changes; no counts when that cannot be relied on';

-- Have what changed about the sources captured again, before a full refresh takes its snapshot. Null when the refresh is full for good.
create function baton_internal.renew_capture(stream baton.stream_tables)
returns jsonb
language plpgsql
as $$
declare
    mode text;
begin
    perform baton_internal.keep_in_mind(stream.stream_id, '{}', '{}', baton_internal.alterations());
    perform baton_internal.equip_stream_owner(stream), baton_internal.choose_stream_mode(stream);
    select s.effective_mode into mode from baton.stream_tables s where s.stream_id = stream.stream_id;
    return case when mode <> 'FULL' then baton_internal.stream_state(stream) end;
end
$$;
comment on function baton_internal.renew_capture(baton.stream_tables) is 'captures the sources of a stream table anew after they were altered';

-- The same; null also when somebody writes to a source for long, whose lock a full refresh does not need. Then the next one tries again.
create function baton_internal.try_renew_capture(stream baton.stream_tables)
returns jsonb
language plpgsql
as $$
begin
    return baton_internal.renew_capture(stream);
exception when lock_not_available or deadlock_detected then
    return null;
end
$$;
comment on function baton_internal.try_renew_capture(baton.stream_tables) is 'captures the sources of a stream table anew, unless somebody writes to them for long';

-- Do what a differential refresh needs before the state is taken that it computes from. Gives what is to be noted about the sources by the stream table's number,
-- where they had to be captured anew. Raises when somebody writes to a source for long.
create function baton_internal.prepare_stream(stream baton.stream_tables)
returns jsonb
language plpgsql
as $$
declare
    known jsonb := baton_internal.recall(stream.stream_id);
begin
    if known ->> 'delta' is distinct from md5(stream.delta) then
        known := baton_internal.study_stream(stream);
        select s.* into stream from baton.stream_tables s where s.stream_id = stream.stream_id;  -- with other names, maybe
    end if;
    if nullif(known -> 'state', 'null') = stream.source_state then
        return '{}';
    end if;
    return jsonb_build_object(stream.stream_id, baton_internal.renew_capture(stream));
end
$$;
comment on function baton_internal.prepare_stream(baton.stream_tables) is 'captures the sources of a stream table anew where that is needed, before a state is held';

-- List who may read which column of a change buffer without need or right: everybody who owns no stream table any more that follows this column of the source
-- and may do so.
create function baton_internal.surplus_readers(source regclass, buffer regclass)
returns table (reader oid, column_name name)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with followed (reader, columns) as materialized (
            select c.relowner, s.captured from baton_internal.stream_sources s join baton.stream_tables t using (stream_id) join pg_class c on c.oid = t.relation
             where s.source = surplus_readers.source and s.captured is not null and baton_internal.source_obstacle(s.source, s.captured, c.relowner) is null)
        select g.grantee, a.attname from pg_attribute a cross join lateral aclexplode(a.attacl) g
         where a.attrelid = buffer and a.attnum > 0 and not a.attisdropped and g.grantee <> (select c.relowner from pg_class c where c.oid = buffer)
           and not exists (select from followed f where f.reader = g.grantee and (a.attname !~ '^c[0-9]+$' or substr(a.attname, 2)::int2 = any (f.columns)));
end
$$;
comment on function baton_internal.surplus_readers(regclass, regclass) is 'who may read columns of a change buffer and should not';

-- Take the right to read from them. Nobody tells when a right on the source is revoked. The caller has the lock of the buffer, until the transaction ends.
create function baton_internal.close_buffer(source regclass, buffer regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    it record;
begin
    for it in select r.reader, string_agg(format('select (%I)', r.column_name), ', ') as rights from baton_internal.surplus_readers(source, buffer) r group by r.reader loop
        execute format('revoke %s on %s from %s cascade', it.rights, buffer, case it.reader when 0 then 'public' else it.reader::regrole::text end);
    end loop;
end
$$;
comment on function baton_internal.close_buffer(regclass, regclass) is 'revokes the right to read a change buffer from who may not read the source';

-- Whether nobody knows when a stream table will be refreshed.
create function baton_internal.is_put_off(stream baton.stream_tables)
returns boolean
language sql immutable
as $$ select stream.paused or stream.stopped_at is not null or stream.failed_in_a_row > 0 or stream.schedule is null and stream.effective_mode <> 'IMMEDIATE' $$;
comment on function baton_internal.is_put_off(baton.stream_tables) is 'whether a stream table is by hand, paused, failing or stopped';

-- Let those stream tables begin anew that nobody refreshes and for which too many changes are kept: every other reader reads the whole buffer. The caller has the lock of
-- the buffer, until the transaction ends; a refresh that goes on from what was noted has the row of the catalog locked, and is left alone.
create function baton_internal.give_up_followers(source regclass, buffer regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    most constant bigint := baton.setting('stream_buffer_rows')::bigint;
    least_bytes constant int := 40;  -- of a change
    stream baton.stream_tables;
    unseen bigint;
begin
    if most = 0 or pg_relation_size(buffer) / least_bytes < most then
        return;
    end if;
    for stream in select t.* from baton_internal.stream_sources s join baton.stream_tables t using (stream_id)
                   where s.source = give_up_followers.source and s.captured is not null and t.effective_mode <> 'FULL' and t.source_state is not null and baton_internal.is_put_off(t)
                     for no key update of t skip locked loop
        execute format('select count(*) from (select from %s where baton_internal.is_unseen(xid, step, %L, %L, %L) limit %s) c',
                       buffer, stream.frontier, stream.frontier_xid, stream.frontier_step, most + 1) into unseen;
        continue when unseen <= most;
        update baton.stream_tables t
           set source_state = null, begins_anew = format('more changes of %s were waiting than stream_buffer_rows (%s) lets be kept', source, most)
         where t.stream_id = stream.stream_id;
        perform baton_internal.alert('stream_changes_dropped', stream.relation::text, jsonb_build_object('source', source::text, 'limit', most));
    end loop;
end
$$;
comment on function baton_internal.give_up_followers(regclass, regclass) is 'lets stream tables that nobody refreshes begin anew when too many changes wait for them';

-- Delete the changes in a buffer that every stream table has seen. The caller has the lock of the buffer, until the transaction ends.
create function baton_internal.delete_seen(source regclass, buffer regclass)
returns void
language plpgsql
as $$
declare
    unseen constant text := string_agg(format('baton_internal.is_unseen(xid, step, %L, %L, %L)', t.frontier, t.frontier_xid, t.frontier_step), ' or ')
      from baton_internal.stream_sources s join baton.stream_tables t using (stream_id)
     where s.source = delete_seen.source and s.captured is not null and t.effective_mode <> 'FULL' and t.source_state is not null;
begin
    execute format('delete from %s where (%s) is not true', buffer, coalesce(unseen, 'false'));
end
$$;
comment on function baton_internal.delete_seen(regclass, regclass) is 'deletes changes in a buffer that nobody needs any more';

-- Delete captured changes that every stream table has seen, also those that are being made: what they are is looked at behind the lock of the buffer. A buffer that was
-- never written to, or was emptied by the server, has nothing to show either, unless `all_buffers` are to be looked at for what they will have.
create function baton_internal.trim_changes(all_buffers boolean default false)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    it record;
begin
    for it in select s.source, b.buffer from (select distinct n.source from baton_internal.stream_sources n) s
               cross join lateral baton_internal.change_buffer(s.source) b (buffer)
               where pg_relation_size(b.buffer) > 0 or all_buffers and exists (select from baton_internal.surplus_readers(s.source, b.buffer)) loop
        begin
            execute format('lock table %s in share update exclusive mode nowait', it.buffer);
        exception when lock_not_available then
            continue;  -- somebody makes a stream table that nobody else can see yet, or the server cleans up
        end;
        perform baton_internal.close_buffer(it.source, it.buffer), baton_internal.give_up_followers(it.source, it.buffer);
        perform baton_internal.delete_seen(it.source, it.buffer);
    end loop;
end
$$;
comment on function baton_internal.trim_changes(boolean) is 'deletes captured changes that nobody needs any more, and closes buffers to who may not read them';

-- End the capture of sources that no stream table follows any more. One that is busy is left for the next time.
create function baton_internal.release_sources()
returns void
language plpgsql
as $$
declare
    source regclass;
begin
    for source in select substr(c.relname, 9)::oid::regclass from pg_catalog.pg_class c
                   where c.relnamespace = 'baton_internal'::regnamespace and c.relkind = 'r' and c.relname ~ '^changes_[0-9]+$'
                     and not exists (select from baton_internal.stream_sources s join baton.stream_tables t using (stream_id)
                                      where s.source::oid = substr(c.relname, 9)::oid and s.captured is not null and t.effective_mode <> 'FULL') loop
        begin
            perform baton_internal.release_source(source);
        exception when lock_not_available or deadlock_detected then
            null;
        end;
    end loop;
end
$$;
comment on function baton_internal.release_sources() is 'ends captures that no stream table needs';
