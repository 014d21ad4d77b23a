-- Dead letters: events whose attempts are used up, or that can never succeed.

create view baton.dead_letters as
select p.parked_id as id, g.group_name, o.relation::text as outbox, p.id as event_offset, (p.event ->> 'event_id')::uuid as event_id,
       p.event ->> 'tenant_id' as tenant_id, p.event ->> 'event_type' as event_type, p.event ->> 'aggregate_type' as aggregate_type,
       p.event ->> 'aggregate_id' as aggregate_id, p.key, p.event -> 'payload' as payload, nullif(p.event -> 'headers', 'null') as headers,
       p.attempt as attempts, p.error, p.parked_at as died_at, p.failures
  from baton_internal.parked p
  join baton.consumer_groups g using (group_id)
  join baton.outboxes o using (outbox_id)
 where p.state = 'dead' and (not o.tenancy or g.tenant_id = nullif(current_setting('baton.tenant_id', true), '')
                             or nullif(current_setting('baton.tenant_id', true), '') is null and baton_internal.sees_all_tenants());
comment on view baton.dead_letters is 'events that were given up, by group';

-- Lock the dead letters named, and their groups before them: a poll that is under way may be parking events behind a letter, and they
-- would wait for one that has gone. Refuses ids that are none, unless those may be missing.
create function baton_internal.take_dead_letters(ids bigint[], missing_ok boolean default false)
returns setof baton_internal.parked
language plpgsql
as $$
declare
    stray bigint;
begin
    if ids is null or cardinality(ids) = 0 or array_position(ids, null) is not null then
        raise exception 'ids of dead letters are needed'
            using errcode = 'invalid_parameter_value', hint = 'see the column id of the view baton.dead_letters';
    end if;
    perform baton_internal.lock_position(g.group_id)
       from (select distinct d.group_id from baton_internal.parked d where d.parked_id = any (ids) order by 1) g;
    select i into stray from unnest(ids) i where not exists (select from baton.dead_letters d where d.id = i) limit 1;
    if stray is not null and missing_ok is not true then
        raise exception 'there is no dead letter %', stray
            using errcode = 'undefined_object', hint = 'see the column id of the view baton.dead_letters; it may have been replayed already';
    end if;
    return query select * from baton_internal.parked p
                  where p.parked_id = any (ids) and p.state = 'dead' and exists (select from baton.dead_letters d where d.id = p.parked_id) order by p.parked_id for update;
end
$$;
comment on function baton_internal.take_dead_letters(bigint[], boolean) is 'locks dead letters for an action';

-- Let dead letters go again, with all their attempts; returns how many. With missing_ok, those that are none any more are passed over.
create function baton.replay_dead_letters(ids bigint[], missing_ok boolean default false)
returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    letter baton_internal.parked;
    g baton.consumer_groups;
    replayed int := 0;
begin
    for letter in select * from baton_internal.take_dead_letters(ids, missing_ok) loop
        select * into g from baton.consumer_groups c where c.group_id = letter.group_id;
        update baton_internal.parked p
           set state = case when g.ordered and exists (select from baton_internal.parked q where q.group_id = p.group_id and q.key = p.key
                                                          and q.id < p.id and baton_internal.blocks_key(g, q.state)) then 'blocked' else 'retry' end,
               attempt = 0, lost = 0, due_at = clock_timestamp(), parked_at = clock_timestamp()
         where p.parked_id = letter.parked_id;
        perform baton_internal.record_action('replay_dead_letter', g.group_name, jsonb_build_object('id', letter.parked_id, 'offset', letter.id));
        replayed := replayed + 1;
    end loop;
    return replayed;
end
$$;
comment on function baton.replay_dead_letters(bigint[], boolean) is 'delivers dead letters again';

-- Let all dead letters go again that the caller sees; returns how many.
create function baton.replay_dead_letters()
returns int
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    select coalesce((select baton.replay_dead_letters(array_agg(d.id order by d.id), missing_ok => true) from baton.dead_letters d having count(*) > 0), 0)
$$;
comment on function baton.replay_dead_letters() is 'delivers all dead letters again';

-- Give up dead letters for good; returns how many. Their content stays in the audit trail.
create function baton.discard_dead_letters(ids bigint[], reason text, missing_ok boolean default false)
returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    letter baton_internal.parked;
    g baton.consumer_groups;
    discarded int := 0;
begin
    if coalesce(btrim(reason), '') = '' then
        raise exception 'a reason is needed to discard dead letters' using errcode = 'invalid_parameter_value';
    end if;
    for letter in select * from baton_internal.take_dead_letters(ids, missing_ok) loop
        select * into g from baton.consumer_groups c where c.group_id = letter.group_id;
        delete from baton_internal.parked p where p.parked_id = letter.parked_id;
        perform baton_internal.unblock_keys(g, array[letter.key]);
        perform baton_internal.record_action('discard_dead_letter', g.group_name, jsonb_build_object('id', letter.parked_id,
            'offset', letter.id, 'reason', reason, 'error', letter.error, 'event', letter.event));
        discarded := discarded + 1;
    end loop;
    return discarded;
end
$$;
comment on function baton.discard_dead_letters(bigint[], text, boolean) is 'deletes dead letters, with a reason';

-- Correct a dead letter before it is replayed; what is null stays. The log keeps the original.
create function baton.edit_dead_letter(id bigint, payload jsonb default null, headers jsonb default null)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    letter baton_internal.parked;
begin
    select * into letter from baton_internal.take_dead_letters(array[edit_dead_letter.id]);
    if payload is null and headers is null then
        raise exception 'there is nothing to correct in dead letter %', letter.parked_id
            using errcode = 'null_value_not_allowed', hint = 'give a payload, headers, or both; to send it as it is, call baton.replay_dead_letters()';
    end if;
    if headers is not null and jsonb_typeof(headers) <> 'object' then
        raise exception 'headers must be a JSON object' using errcode = 'invalid_parameter_value';
    elsif letter.event is null and payload is null then
        raise exception 'dead letter % needs another payload', edit_dead_letter.id using errcode = 'invalid_parameter_value', hint = 'its own cannot be read';
    end if;
    update baton_internal.parked p
       set event = coalesce(p.event, baton_internal.copy_without_payload(o, p.id)) || case when edit_dead_letter.payload is null then '{}' else jsonb_build_object('payload', edit_dead_letter.payload) end
                           || case when edit_dead_letter.headers is null then '{}' else jsonb_build_object('headers', edit_dead_letter.headers) end
      from baton.consumer_groups g join baton.outboxes o using (outbox_id)
     where p.parked_id = letter.parked_id and g.group_id = p.group_id;
    perform baton_internal.record_action('edit_dead_letter', (select g.group_name from baton.consumer_groups g where g.group_id = letter.group_id),
        jsonb_build_object('id', letter.parked_id, 'offset', letter.id, 'before',
            jsonb_build_object('payload', letter.event -> 'payload', 'headers', letter.event -> 'headers')));
end
$$;
comment on function baton.edit_dead_letter(bigint, jsonb, jsonb) is 'corrects payload or headers of a dead letter';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{replay_dead_letters,discard_dead_letters,edit_dead_letter}');
select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer,baton_relay}', '{sees_all_tenants,caller}');
select baton_internal.declare_privileges('select', '{baton_operator,baton_viewer,baton_relay}', '{dead_letters}');
