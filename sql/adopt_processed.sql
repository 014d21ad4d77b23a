-- Idempotent consumers: a table of processed event ids (event_id, consumer_group, processed_at, expires_at).
--
-- Where event_id alone is the primary key, the table has room for one group per event. A second group is
-- then kept under an id derived from event and group, so that it is never told an event was already
-- processed only because another group did so.

-- Return the id under which a group's mark is kept when another group has taken the event's own.
create function baton_internal.group_event_id(event_id uuid, consumer_group text)
returns uuid
language sql immutable strict
as $$ select md5(event_id::text || '/' || consumer_group)::uuid $$;
comment on function baton_internal.group_event_id(uuid, text) is 'id derived from an event and a group';

-- Find a table of processed events by the caller's search path.
create function baton_internal.processed_table(table_name text)
returns regclass
language plpgsql stable
as $$
declare
    relation regclass;
begin
    perform baton_internal.parse_table_name(table_name);
    relation := to_regclass(table_name);
    if relation is null then
        raise exception 'table "%" does not exist', left(table_name, 130) using errcode = 'undefined_table',
            hint = 'a table of processed events has the columns event_id uuid, consumer_group, processed_at and expires_at';
    end if;
    return relation;
end
$$;
comment on function baton_internal.processed_table(text) is 'table of processed events that a name means';

-- Mark an event as processed by a group, in the consumer's own transaction; true the first time within the window.
create function baton.mark_processed(event_id uuid, consumer_group text, table_name text default 'processed_events',
                                     keep interval default '24 hours')
returns boolean
language plpgsql volatile
as $$
declare
    relation regclass := baton_internal.processed_table(table_name);
    own uuid := baton_internal.group_event_id(event_id, consumer_group);
    candidate uuid;
    touched int;
begin
    if event_id is null or coalesce(consumer_group, '') = '' or keep is null then
        raise exception 'an event''s id and a consumer group are needed' using errcode = 'null_value_not_allowed';
    elsif keep > interval '100 years' then
        raise exception 'keep cannot be longer than 100 years, it is %', keep using errcode = 'invalid_parameter_value';
    end if;
    -- members of one group that get the same event wait here for each other
    perform pg_advisory_xact_lock(hashtextextended(relation::oid || '/' || event_id || '/' || consumer_group, 0));
    execute pg_catalog.format('select 1 from %s p where p.event_id in ($1, $2) and p.consumer_group = $3 and p.expires_at > now() limit 1', relation)
      into touched using event_id, own, consumer_group;
    if touched is not null then
        return false;
    end if;
    foreach candidate in array array[event_id, own] loop
        execute pg_catalog.format('insert into %s (event_id, consumer_group, processed_at, expires_at) values ($1, $2, now(), now() + $3) '
                       'on conflict do nothing', relation) using candidate, consumer_group, keep;
        get diagnostics touched = row_count;
        if touched = 0 then  -- its window is over: the event counts as new
            execute pg_catalog.format('update %s p set processed_at = now(), expires_at = now() + $3 '
                           'where p.event_id = $1 and p.consumer_group = $2', relation) using candidate, consumer_group, keep;
            get diagnostics touched = row_count;
        end if;
        if touched > 0 then
            return true;
        end if;
    end loop;
    raise exception 'event % could not be marked for group "%"', event_id, consumer_group using errcode = 'unique_violation',
        hint = 'make (event_id, consumer_group) the primary key of the table';
end
$$;
comment on function baton.mark_processed(uuid, text, text, interval) is 'true when a group sees an event for the first time within the window';

-- Write the deletion of a batch of marks whose window is over; $3 holds the batch.
create function baton_internal.expired_marks_sql(relation regclass)
returns text
language sql stable
as $$
    select format('delete from %1$s where ctid = any (array(select p.ctid from %1$s p where p.expires_at <= now() '
                  'limit ($3 ->> ''batch'')::int for update skip locked))', relation)
$$;
comment on function baton_internal.expired_marks_sql(regclass) is 'statement that deletes expired marks of processed events';

-- Delete the marks whose window is over, with the caller's own rights; returns how many.
create function baton.cleanup_processed_events(table_name text default 'processed_events')
returns bigint
language plpgsql volatile
as $$
declare
    relation regclass := baton_internal.processed_table(table_name);
    step int := baton.setting('outbox_drain_batch_size');
    changed bigint;
    total bigint := 0;
begin
    loop
        execute baton_internal.expired_marks_sql(relation) using null::timestamptz, null::text[], pg_catalog.jsonb_build_object('batch', step);
        get diagnostics changed = row_count;
        total := total + changed;
        exit when changed < step;
    end loop;
    return total;
end
$$;
comment on function baton.cleanup_processed_events(text) is 'deletes expired marks of processed events';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_consumer}',
                                '{mark_processed,group_event_id,processed_table,cleanup_processed_events,expired_marks_sql}');
