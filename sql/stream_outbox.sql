-- The outbox of a stream table: what a refresh changed, written in the refresh's own transaction. It is an outbox like any other, so groups,
-- pipelines, retention and dead letters work on it. Nobody but a refresh writes to it.
--
--   format delta  one event per refresh: {"v": 1, "inserted": [...], "deleted": [...]}; a large delta leaves its rows in a table and says so,
--                 {"v": 1, "claim_check": true, ...}, see sql/stream_claim_check.sql
--   format rows   one event per changed row, keyed: an upsert with the row before and after, or a delete without a payload

-- Name the outbox of a stream table: outbox_<name>, with a digest where that is too long or taken. Partitions and archive add a suffix.
create function baton_internal.stream_outbox_name(schema_name text, table_name text)
returns name
language plpgsql stable
as $$
declare
    plain constant text := 'outbox_' || table_name;
begin
    if octet_length(plain) <= 51 and to_regclass(format('%I.%I', schema_name, plain)) is null then
        return plain::name;
    end if;
    return ('outbox_' || left(table_name, 36 - (octet_length(table_name) - length(table_name))) || '_' || left(md5(schema_name || '.' || table_name), 7))::name;
end
$$;
comment on function baton_internal.stream_outbox_name(text, text) is 'name of the outbox of a stream table';

-- The columns that tell rows of a stream table apart: those of its primary key, else of the shortest unique index. '{}' when there is none.
create function baton_internal.stream_key(relation regclass)
returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce((
        select array(select a.attname::text from unnest(i.indkey) with ordinality k (number, place)
                       join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
                      where k.place <= i.indnkeyatts order by k.place)
          from pg_index i
         where i.indrelid = relation and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
         order by i.indisprimary desc, i.indnkeyatts, i.indexrelid limit 1), '{}')
$$;
comment on function baton_internal.stream_key(regclass) is 'key columns of a stream table';

-- Give a stream table an outbox; returns the outbox's name. Calling it again with the same options changes nothing.
create function baton.enable_outbox(stream_table text, retention_hours int default null, format text default 'delta')
returns text
language sql
as $$ select baton_internal.attach_outbox(baton_internal.resolve_stream(stream_table), retention_hours, lower(format)) $$;
comment on function baton.enable_outbox(text, int, text) is 'makes an outbox that carries what each refresh of a stream table changed';

-- Make the outbox of a stream table.
create function baton_internal.attach_outbox(relation regclass, retention_hours int, format text)
returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stream baton.stream_tables := baton_internal.find_stream(relation);
    keep constant interval := make_interval(hours => retention_hours);
    place record;
    link record;
    outbox regclass;
begin
    perform baton_internal.check_table_owner(relation, 'give it an outbox');
    if stream.refresh_mode = 'IMMEDIATE' then
        raise exception 'stream table % is refreshed in mode IMMEDIATE, which has no outbox', relation
            using errcode = 'feature_not_supported', detail = 'every statement of a writer would be an event',
                  hint = format('call baton.alter_stream_table(%L, refresh_mode => ''DIFFERENTIAL'', schedule => ''live'') first', relation::text);
    end if;
    if format is null or format not in ('delta', 'rows') then
        raise exception 'format is delta or rows, not %', coalesce('"' || left(format, 100) || '"', 'null') using errcode = 'invalid_parameter_value';
    elsif retention_hours not between 0 and 876000 then
        raise exception 'retention_hours is from 0 to 876000, not %', retention_hours using errcode = 'invalid_parameter_value';
    end if;
    select l.format, o.retention, o.relation into link
      from baton_internal.stream_outboxes l join baton.outboxes o using (outbox_id) where l.stream_id = stream.stream_id;
    if found then
        perform baton_internal.check_outbox_is_there(stream);
        if link.format = attach_outbox.format and link.retention is not distinct from keep then
            return link.relation::text;
        end if;
        raise exception 'stream table % has an outbox already: %', relation, link.relation
            using errcode = 'duplicate_object', hint = 'change its retention with baton.alter_outbox(), or end it with baton.disable_outbox()';
    end if;
    stream := baton_internal.open_stream(relation);
    select n.nspname as schema_name, c.relname as table_name into place from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
    outbox := baton_internal.make_outbox(place.schema_name, baton_internal.stream_outbox_name(place.schema_name, place.table_name),
        jsonb_build_object('payload_type', 'jsonb', 'ordered', true, 'tenancy', false, 'partition_interval', '1 day', 'idempotency_window', '24 hours',
                           'retention', keep), false);
    execute format('comment on table %s is %L', outbox, format('baton outbox: what refreshes of stream table %s changed', relation));
    perform baton_internal.close_to_producers(outbox);
    insert into baton_internal.stream_outboxes (outbox_id, stream_id, format)
    values ((baton_internal.find_outbox(outbox)).outbox_id, stream.stream_id, attach_outbox.format);
    perform baton_internal.make_outbox_companions(outbox, place.schema_name, place.table_name, attach_outbox.format);
    update baton.stream_tables s set writer = null where s.stream_id = stream.stream_id;
    perform baton_internal.record_action('enable_outbox', relation::text, jsonb_build_object('outbox', outbox::text, 'format', format));
    return outbox::text;
end
$$;
comment on function baton_internal.attach_outbox(regclass, int, text) is 'gives a stream table an outbox; called by enable_outbox()';

-- Let nobody publish into an outbox that baton itself fills.
create function baton_internal.close_to_producers(outbox regclass)
returns void
language plpgsql
as $$
begin
    if to_regrole('baton_producer') is not null then
        execute format('revoke all on %s from baton_producer', outbox);
        execute (select 'revoke ' || string_agg(format('insert (%1$I), select (%1$I)', c.name), ', ') || format(' on %s from baton_producer', outbox)
                   from baton_internal.table_columns(outbox) c);
    end if;
end
$$;
comment on function baton_internal.close_to_producers(regclass) is 'takes the right to publish into an outbox from producers';

-- Make what stands beside the outbox: a view of its latest event, and the table for rows of large deltas.
create function baton_internal.make_outbox_companions(outbox regclass, schema_name text, table_name text, format text)
returns void
language plpgsql
as $$
declare
    latest constant text := format('%I.%I', schema_name, baton_internal.unused_name(schema_name, 'outbox_latest_' || table_name, ''));
    row_table constant text := case format when 'delta' then format('%I.%I', schema_name, baton_internal.unused_name(schema_name, 'outbox_delta_rows_' || table_name, '')) end;
    reader text;
begin
    execute format($sql$create view %s as
        select id, occurred_at as created_at, headers ->> 'refresh_id' as refresh_id, (headers ->> 'inserted_count')::bigint as inserted_count,
               (headers ->> 'deleted_count')::bigint as deleted_count, coalesce((payload ->> 'claim_check')::boolean, false) as is_claim_check, payload
          from %s order by id desc limit 1$sql$, latest, outbox);
    execute format('comment on view %s is %L', latest, format('latest event of outbox %s', outbox));
    if row_table is not null then
        execute format('create table %s (outbox_id bigint not null, row_num int not null, op text not null check (op in (''I'', ''D'')), payload jsonb not null,'
                       ' primary key (outbox_id, row_num))', row_table);
        execute format('comment on table %s is %L', row_table, format('rows of deltas in outbox %s that are too large for an event', outbox));
        perform baton_internal.close_to_others(row_table::regclass);
    end if;
    perform baton_internal.close_to_others(latest::regclass);
    foreach reader in array '{baton_relay,baton_operator}'::text[] loop
        if to_regrole(reader) is not null then
            execute format('grant select on %s to %I', concat_ws(', ', latest, row_table), reader);
        end if;
    end loop;
    update baton_internal.stream_outboxes l set latest_view = latest::regclass, delta_rows = row_table::regclass
      from baton.outboxes o where o.outbox_id = l.outbox_id and o.relation = outbox;
end
$$;
comment on function baton_internal.make_outbox_companions(regclass, text, text, text) is 'view and table beside the outbox of a stream table';

-- End the outbox of a stream table: the outbox goes with its events. With groups on it only when asked to cascade.
create function baton.disable_outbox(name text, if_exists boolean default false, cascade boolean default false)
returns boolean
language plpgsql
as $$
begin
    if if_exists and to_regclass(name) is null then
        return false;
    end if;
    return baton_internal.end_outbox(baton_internal.resolve_stream(name), if_exists, cascade);
end
$$;
comment on function baton.disable_outbox(text, boolean, boolean) is 'drops the outbox of a stream table';

-- Drop the outbox of a stream table.
create function baton_internal.end_outbox(relation regclass, if_exists boolean, cascade boolean)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stream baton.stream_tables := baton_internal.find_stream(relation);
    ended boolean;
begin
    perform baton_internal.check_table_owner(relation, 'end its outbox');
    stream := baton_internal.open_stream(relation);
    ended := baton_internal.detach_outbox(stream, cascade);
    if not ended and not if_exists then
        raise exception 'stream table % has no outbox', relation using errcode = 'undefined_object', hint = 'make one with baton.enable_outbox()';
    end if;
    update baton.stream_tables s set writer = null where s.stream_id = stream.stream_id;
    return ended;
end
$$;
comment on function baton_internal.end_outbox(regclass, boolean, boolean) is 'drops the outbox of a stream table; called by disable_outbox()';

-- Take the outbox off a stream table and drop it; false when there is none.
create function baton_internal.detach_outbox(stream baton.stream_tables, cascade boolean)
returns boolean
language plpgsql
as $$
declare
    outbox regclass;
begin
    update baton_internal.stream_outboxes l set stream_id = null from baton.outboxes o
     where l.stream_id = stream.stream_id and o.outbox_id = l.outbox_id returning o.relation into outbox;
    if outbox is null then
        return false;
    end if;
    return baton_internal.remove_outbox(outbox, cascade);
end
$$;
comment on function baton_internal.detach_outbox(baton.stream_tables, boolean) is 'drops the outbox of a stream table, if it has one';

-- Drop what stands beside an outbox. An outbox that still belongs to a stream table is not dropped alone.
create function baton_internal.drop_outbox_companions(outbox_id int)
returns void
language plpgsql
as $$
declare
    link baton_internal.stream_outboxes;
    stream_table regclass;
begin
    perform baton_internal.check_not_captured(outbox_id), baton_internal.drop_capture_function(outbox_id);
    select l.* into link from baton_internal.stream_outboxes l where l.outbox_id = drop_outbox_companions.outbox_id;
    if not found then
        return;
    end if;
    select s.relation into stream_table from baton.stream_tables s join pg_catalog.pg_class c on c.oid = s.relation where s.stream_id = link.stream_id;
    if found then
        raise exception 'the outbox belongs to stream table %', stream_table
            using errcode = 'dependent_objects_still_exist', hint = format('end it with baton.disable_outbox(%L)', stream_table);
    end if;
    if exists (select from pg_catalog.pg_class c where c.oid = link.latest_view) then
        execute format('drop view %s', link.latest_view);
    end if;
    if exists (select from pg_catalog.pg_class c where c.oid = link.delta_rows) then
        execute format('drop table %s', link.delta_rows);
    end if;
end
$$;
comment on function baton_internal.drop_outbox_companions(int) is 'drops view and table beside the outbox of a stream table that is gone';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{enable_outbox,attach_outbox,disable_outbox,end_outbox}');
