-- Consumers with their own offsets: a table (consumer_name, partition_key, last_processed_id, last_processed_at)
-- beside an adopted outbox with bigint ids. A consumer reads the done events after its position and moves
-- the position in the transaction of its own state change.
--
-- Which rows a partition key selects: '' selects all. Any other key selects the rows whose partition column
-- (offsets.partition of the mapping: partition_key, tenant_id, ...) equals it; with offsets.partition = "hash" it
-- is 'i/n', the i-th of n parts by hash of the aggregate. Positions of different keys are independent.
--
-- What is guaranteed. "id > last and done, by id" alone (in_order => false) skips an event that is done or
-- committed after one with a higher id: ids are drawn before commit, and a retried event is done late. With
-- in_order (the default) a batch ends before the first event of the partition that is not yet done, and before any
-- id that a running transaction may still commit; then nothing is skipped, and a long writer delays the
-- reading. That holds for ids drawn by the insert itself from a sequence without cache. A dead letter that is
-- replayed keeps its id: consumers beyond it see it only when they are set back.

create table baton_internal.adopted_horizons (
    outbox_id    int    primary key references baton.adopted_outboxes on delete cascade,
    settled_id   bigint not null default 0,   -- every id up to here is committed or will never be
    candidate_id bigint not null default 0,   -- becomes settled when the writers below have ended
    waiting_for  text[] not null default '{}',
    archived_id  bigint not null default 0    -- highest id that maintenance has moved to the archive
);
comment on table baton_internal.adopted_horizons is 'the id of each adopted outbox up to which no running transaction can add a row, for consumers with offsets';

-- Write the read of done events after a position: in $3 after, upto, partition, in_order and limit.
create function baton_internal.read_statement(relation regclass, layout jsonb, with_archive boolean)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    f jsonb := baton_internal.adopted_fragments(relation, layout);
    names text := baton_internal.column_list(baton_internal.movable_columns(relation), 't');
    id_column text := baton_internal.role_column(layout, 'id');
    by_role text := coalesce(layout #>> '{offsets,partition}', case when layout -> 'columns' ? 'partition_key' then 'partition_key' end,
                             case when layout -> 'columns' ? 'tenant_id' then 'tenant_id' end);
    part text := case by_role
        when 'hash' then format('(hashtextextended(%s || ''/'' || %s, 0) & 9223372036854775807) %% split_part($3 ->> ''partition'', ''/'', 2)::bigint '
                                '= split_part($3 ->> ''partition'', ''/'', 1)::bigint',
                                baton_internal.role_text(layout, 'aggregate_type'), baton_internal.role_text(layout, 'aggregate_id'))
        else coalesce(baton_internal.role_text(layout, by_role), 'null::text') || ' = $3 ->> ''partition''' end;
    source text;
begin
    if not layout ? 'offsets' or baton_internal.role_type(relation, layout, 'id') <> 'bigint' or (with_archive and not layout ? 'archive') then
        return null;
    end if;
    source := format('select %s from %s t where %s > ($3 ->> ''after'')::bigint and (not ($3 ->> ''in_order'')::boolean or %s <= ($3 ->> ''upto'')::bigint) '
                     'and (%s or (($3 ->> ''in_order'')::boolean and %s and not %s)) and ($3 ->> ''partition'' = '''' or %s) '
                     'order by %s limit ($3 ->> ''limit'')::int', names, relation, id_column, id_column, f ->> 'done', f ->> 'open', f ->> 'dead', part, id_column);
    if with_archive then
        source := format('select * from ((%s) union all (select %s from %s t where %s > ($3 ->> ''after'')::bigint '
                         'and (not ($3 ->> ''in_order'')::boolean or %s <= ($3 ->> ''upto'')::bigint) '
                         'and ($3 ->> ''partition'' = '''' or %s) order by %s limit ($3 ->> ''limit'')::int)) t '
                         'order by %s limit ($3 ->> ''limit'')::int', source, names, layout #>> '{archive,table}', id_column, id_column, part, id_column, id_column);
    end if;
    return format('select %s from (select t.*, bool_or(%s) over (order by %s) as baton_waits from (%s) t) t where not t.baton_waits order by %s',
                  baton_internal.event_sql(relation, layout, f ->> 'attempts'), f ->> 'open', id_column, source, id_column);
end
$$;
comment on function baton_internal.read_statement(regclass, jsonb, boolean) is 'statement that reads done events after a position';

-- Return the transactions that are writing to a table or one of its partitions, other than this one.
create function baton_internal.running_writers(relation regclass)
returns text[]
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(array_agg(distinct l.virtualtransaction), '{}')
      from pg_locks l
     where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted and l.pid is distinct from pg_backend_pid()
       and l.database = (select d.oid from pg_database d where d.datname = current_database())
       and (l.relation = running_writers.relation or l.relation in (select t.relid from pg_partition_tree(running_writers.relation) t))
$$;
comment on function baton_internal.running_writers(regclass) is 'transactions that may still commit rows of a table';

-- Return the id up to which every row is committed or never will be.
-- A writer locks the table before it draws an id. So whoever may still commit an id below one that is visible
-- now, holds its lock when the locks are read afterwards; once those writers have ended, all lower ids are decided.
create function baton_internal.adopted_horizon(outbox baton.adopted_outboxes)
returns bigint
language plpgsql volatile
as $$
declare
    relation regclass := baton_internal.adopted_table(outbox);
    id_column text := baton_internal.mapped_column(outbox.layout, 'id');
    state baton_internal.adopted_horizons;
    highest bigint;
    writers text[];
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'reading in order needs isolation level read committed' using errcode = 'invalid_transaction_state',
            hint = 'an older snapshot cannot tell which ids are decided';
    end if;
    if coalesce((select s.seqcache from pg_catalog.pg_sequence s
                  where s.seqrelid = pg_get_serial_sequence(relation::text, id_column)::regclass), 0) <> 1 then
        raise exception 'ids of % are not drawn one by one from a sequence of its own', relation using errcode = 'object_not_in_prerequisite_state',
            hint = 'make the id an identity column with cache 1, or read with in_order => false and accept that late events are skipped';
    end if;
    select h.* into state from baton_internal.adopted_horizons h where h.outbox_id = outbox.outbox_id;
    select r.highest into highest
      from baton_internal.run_as_owner(relation, format('select coalesce(max(t.%I), 0)::bigint from %s t', id_column, relation)) as r (highest bigint);
    writers := baton_internal.running_writers(relation);
    if not coalesce(state.waiting_for, '{}') && writers then
        state.settled_id := greatest(state.settled_id, state.candidate_id);
        state.candidate_id := highest;
        state.waiting_for := writers;
    end if;
    if writers = '{}' then
        state.settled_id := greatest(state.settled_id, highest);
    end if;
    perform baton_internal.save_horizon(outbox.outbox_id, state.settled_id, state.candidate_id, state.waiting_for);
    return coalesce(state.settled_id, 0);
end
$$;
comment on function baton_internal.adopted_horizon(baton.adopted_outboxes) is 'the id of an adopted outbox up to which no running transaction can add a row';

-- Keep a horizon for the next reader, unless another one is keeping his.
create function baton_internal.save_horizon(outbox_id int, settled_id bigint, candidate_id bigint, waiting_for text[])
returns void
language plpgsql volatile
as $$
begin
    update baton_internal.adopted_horizons h
       set settled_id = greatest(h.settled_id, save_horizon.settled_id), candidate_id = save_horizon.candidate_id,
           waiting_for = save_horizon.waiting_for
      from (select k.outbox_id from baton_internal.adopted_horizons k where k.outbox_id = save_horizon.outbox_id for update skip locked) k
     where h.outbox_id = k.outbox_id
       and (h.settled_id, h.candidate_id, h.waiting_for)
           is distinct from (greatest(h.settled_id, save_horizon.settled_id), save_horizon.candidate_id, save_horizon.waiting_for);
end
$$;
comment on function baton_internal.save_horizon(int, bigint, bigint, text[]) is 'keeps a horizon; used by baton_internal.adopted_horizon()';

-- Keep the highest id that was archived, so that readers know when to look there.
create function baton_internal.note_archived(outbox_id int, archived_id bigint)
returns void
language sql volatile
as $$
    update baton_internal.adopted_horizons h set archived_id = $2 where h.outbox_id = $1 and h.archived_id < $2
$$;
comment on function baton_internal.note_archived(int, bigint) is 'keeps the highest archived id; used by maintenance';

-- Return an adopted outbox that has a table of offsets.
create function baton_internal.find_with_offsets(name text)
returns baton.adopted_outboxes
language plpgsql stable
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.open_adopted(name);
begin
    if outbox.read_sql is null then
        raise exception 'adopted outbox "%" has no consumer offsets', left(name, 100) using errcode = 'BT004',
            hint = 'offsets need an id of type bigint and a table: create table consumer_offsets (consumer_name text, '
                   'partition_key text default '''', '
                   'last_processed_id bigint not null, last_processed_at timestamptz default now(), primary key (consumer_name, partition_key)), '
                   'then adopt again with {"offsets": {"table": "consumer_offsets"}}';
    end if;
    return outbox;
end
$$;
comment on function baton_internal.find_with_offsets(text) is 'catalog row of an adopted outbox with consumer offsets';

-- Read the next done events of a consumer's partition. The position stays locked until the transaction ends, so
-- two members of one consumer never work on the same events; a consumer without a position starts at the beginning.
create function baton.read_consumer_batch(name text, consumer_name text, partition_key text default '', batch_size int default 100,
                                          in_order boolean default true)
returns setof baton.adopted_event
language plpgsql volatile
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.find_with_offsets(name);
begin
    perform baton_internal.check_offset_call(outbox, consumer_name, partition_key);
    if batch_size is null or batch_size < 1 or in_order is null then
        raise exception 'a batch has at least one event' using errcode = 'invalid_parameter_value';
    end if;
    return query select e.* from baton_internal.read_rows(outbox.outbox_id, consumer_name, partition_key, batch_size, in_order) e;
end
$$;
comment on function baton.read_consumer_batch(text, text, text, int, boolean) is
    'next done events after a consumer''s own offset, also from the archive; with in_order no late event is skipped';

-- Read the next done events; called by read_consumer_batch().
create function baton_internal.read_rows(outbox_id int, consumer_name text, partition_key text, batch_size int, in_order boolean)
returns setof baton.adopted_event
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
    relation regclass := baton_internal.adopted_table(outbox);
    archive regclass := to_regclass(outbox.layout #>> '{archive,table}');
    offsets regclass := (outbox.layout #>> '{offsets,table}')::regclass;
    consumer jsonb := jsonb_build_object('consumer', consumer_name, 'partition', partition_key);
    position_id bigint;
    lowest bigint;
    archived bigint;
    statement text;
begin
    perform baton_internal.check_table_grants(relation, '{select}'), baton_internal.check_table_grants(offsets, '{select,insert,update}');
    perform baton_internal.change_as_owner(offsets, format('insert into %1$s (consumer_name, partition_key, last_processed_id) '
        'select $3 ->> ''consumer'', $3 ->> ''partition'', 0 where not exists (select from %1$s o where o.consumer_name = $3 ->> ''consumer'' '
        'and o.partition_key = $3 ->> ''partition'') on conflict do nothing', offsets), arguments => consumer);
    select r.at into position_id from baton_internal.run_as_owner(offsets, format('select o.last_processed_id::bigint from %s o '
        'where o.consumer_name = $3 ->> ''consumer'' and o.partition_key = $3 ->> ''partition'' for update', offsets), arguments => consumer) as r (at bigint);
    consumer := consumer || jsonb_build_object('after', position_id, 'limit', batch_size, 'in_order', in_order,
                                               'upto', case when in_order then baton_internal.adopted_horizon(outbox) end);
    select h.archived_id into archived from baton_internal.adopted_horizons h where h.outbox_id = outbox.outbox_id;
    select r.lowest into lowest from baton_internal.run_as_owner(relation,
        format('select min(t.%I)::bigint from %s t', baton_internal.mapped_column(outbox.layout, 'id'), relation)) as r (lowest bigint);
    statement := outbox.read_sql;
    if outbox.read_all_sql is not null and archive is not null and (position_id < archived or lowest is null or position_id < lowest) then
        perform baton_internal.check_table_grants(archive, '{select}');
        statement := outbox.read_all_sql;
    end if;
    return query select e.* from baton_internal.adopted_events(outbox, statement, null, consumer) e;
end
$$;
comment on function baton_internal.read_rows(int, text, text, int, boolean) is 'reads done events of an adopted outbox after a consumer''s offset';

-- Refuse a call that names no consumer, or a partition that the outbox does not have.
create function baton_internal.check_offset_call(outbox baton.adopted_outboxes, consumer_name text, partition_key text)
returns void
language plpgsql immutable
as $$
begin
    if coalesce(consumer_name, '') = '' or partition_key is null then
        raise exception 'a consumer''s name and a partition key are needed' using errcode = 'null_value_not_allowed',
            hint = 'the partition key '''' stands for all rows';
    end if;
    if outbox.layout #>> '{offsets,partition}' = 'hash' and partition_key <> ''
       and (partition_key !~ '^[0-9]{1,4}/[0-9]{1,4}$' or split_part(partition_key, '/', 1)::int >= split_part(partition_key, '/', 2)::int) then
        raise exception 'invalid partition key "%"', left(partition_key, 60) using errcode = 'invalid_parameter_value',
            hint = 'this outbox is partitioned by hash: the first of four parts is 0/4, the last 3/4';
    end if;
end
$$;
comment on function baton_internal.check_offset_call(baton.adopted_outboxes, text, text) is 'raises for a bad consumer name or partition key';

-- Move a consumer's position forward, in the transaction of its own state change; never back.
create function baton.advance_consumer_offset(name text, consumer_name text, last_id bigint, partition_key text default '')
returns bigint
language plpgsql volatile
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.find_with_offsets(name);
    reached bigint;
begin
    perform baton_internal.check_offset_call(outbox, consumer_name, partition_key);
    if last_id is null then
        raise exception 'the id of the last processed event is needed' using errcode = 'null_value_not_allowed';
    end if;
    reached := baton_internal.move_offset(outbox.outbox_id, consumer_name, partition_key, last_id, false);
    if reached > last_id then
        raise warning 'consumer "%" is already at %, not moved back to %', consumer_name, reached, last_id
            using hint = 'replay with baton.set_consumer_offset()';
    end if;
    return reached;
end
$$;
comment on function baton.advance_consumer_offset(text, text, bigint, text) is 'moves a consumer''s own offset forward';

-- Move a consumer's position and return where it is then; back only when asked.
create function baton_internal.move_offset(outbox_id int, consumer_name text, partition_key text, last_id bigint, back boolean)
returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
    offsets regclass := (outbox.layout #>> '{offsets,table}')::regclass;
    reached bigint;
begin
    perform baton_internal.check_table_grants(offsets, '{insert,update}');
    select r.at into reached from baton_internal.run_as_owner(offsets, format('insert into %s as o (consumer_name, partition_key, last_processed_id, '
        'last_processed_at) values ($3 ->> ''consumer'', $3 ->> ''partition'', ($3 ->> ''at'')::bigint, now()) '
        'on conflict (consumer_name, partition_key) do update set last_processed_at = now(), last_processed_id = '
        'case when ($3 ->> ''back'')::boolean then excluded.last_processed_id else greatest(o.last_processed_id, excluded.last_processed_id) end '
        'returning o.last_processed_id::bigint', offsets),
        arguments => jsonb_build_object('consumer', consumer_name, 'partition', partition_key, 'at', last_id, 'back', back)) as r (at bigint);
    if back then
        perform baton_internal.alert('consumer_seeked', format('%I.%I', outbox.schema_name, outbox.table_name),
                            jsonb_build_object('consumer', consumer_name, 'partition_key', partition_key, 'position', last_id));
    end if;
    return reached;
end
$$;
comment on function baton_internal.move_offset(int, text, text, bigint, boolean) is 'moves the offset of a consumer of an adopted outbox';

-- Set a consumer's position, back to replay or forward to skip; it next reads the events after that id.
create function baton.set_consumer_offset(name text, consumer_name text, last_id bigint, partition_key text default '')
returns void
language plpgsql volatile
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.find_with_offsets(name);
begin
    perform baton_internal.check_offset_call(outbox, consumer_name, partition_key);
    if last_id is null or last_id < 0 then
        raise exception 'a position is an id of 0 or more' using errcode = 'invalid_parameter_value', hint = '0 replays from the beginning';
    end if;
    perform baton_internal.move_offset(outbox.outbox_id, consumer_name, partition_key, last_id, true);
end
$$;
comment on function baton.set_consumer_offset(text, text, bigint, text) is 'sets a consumer''s own offset: events after the id are read again, or events before it are skipped';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_consumer}', '{read_consumer_batch,advance_consumer_offset,
    find_with_offsets,check_offset_call,read_rows,move_offset}');
select baton_internal.declare_privileges('execute', '{baton_operator,baton_consumer}', '{set_consumer_offset}');
select baton_internal.declare_privileges('select', '{baton_relay,baton_operator,baton_viewer}', '{adopted_horizons}');
