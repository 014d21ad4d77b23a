-- Messages of adopted tables. What is in the table is read and written as the table's owner (baton_internal.run_as_owner);
-- leases, remembered ids and sequences are baton's. So each step is a statement of its own, and what baton knows goes into
-- the owner's statements as values: $1 is the moment, $2 ids, $3 the rest.

-- Store a batch and report for each message whether it is new or a duplicate.
create function baton_internal.receive_adopted(box baton.inboxes, messages jsonb, out event_ids text[], out outcomes text[])
language plpgsql
as $$
declare
    unknown text[];  -- ids that the inbox has not had
    fresh text[];
begin
    if box.layout = 'processed_events' then
        unknown := array(select distinct m.body ->> 'event_id' from jsonb_array_elements(messages) m (body));
    else
        with keyed as (
            insert into baton_internal.inbox_keys (inbox, event_id)
            select box.id, g.id from (select distinct m.body ->> 'event_id' as id from jsonb_array_elements(messages) m (body)) g order by g.id
            on conflict do nothing returning event_id
        )
        select array_agg(k.event_id) into unknown from keyed k;
    end if;
    if unknown is not null then
        fresh := array(select r.event_id from baton_internal.run_as_owner(box.relation, baton_internal.inbox_receive_adopted_sql(box),
                                                                          clock_timestamp(), unknown, messages) as r (event_id text));
    end if;
    select array_agg(g.event_id order by g.position), array_agg(case when f.id is not null and g.first then 'new' else 'duplicate' end order by g.position)
      into event_ids, outcomes
      from (select m.body ->> 'event_id' as event_id, m.position,
                   row_number() over (partition by m.body ->> 'event_id' order by m.position) = 1 as first
              from jsonb_array_elements(messages) with ordinality as m (body, position)) g
      left join unnest(fresh) f (id) on f.id = g.event_id;
end
$$;
comment on function baton_internal.receive_adopted(baton.inboxes, jsonb) is 'stores a batch in an adopted table';

-- Write the conditions under which the owner's statement offers a message: pending, due, in nobody's hands. $2 holds
-- the ids that baton has leased out or keeps for later; `is not true` lets the server look them up in a hash.
create function baton_internal.inbox_ready_adopted_sql(box baton.inboxes, terms baton_internal.inbox_terms)
returns text
language sql stable
as $$
    select format('%s and (%s = any ($2)) is not true', terms.pending, terms.id)
        || case when terms.id_type !~ 'text|char' then ''  -- baton could not keep the lease of an id that no index takes
                else format(' and octet_length(%s) <= %s', terms.id, baton_internal.longest_kept_id()) end
        || case when box.layout = 'omni_box' then
               format(' and (t.scheduled_at is null or t.scheduled_at <= $1) and (t.locked_at is null or t.locked_at <= $1 - interval %L'
                      ' or t.locked_at > $1 + interval ''1 hour'''  -- taken while the clock was ahead
                      ' or %s = any (array(select jsonb_array_elements_text($3 -> ''leased_before''))))', box.foreign_lock_timeout, terms.id)
           else '' end
$$;
comment on function baton_internal.inbox_ready_adopted_sql(baton.inboxes, baton_internal.inbox_terms) is 'condition of messages of an adopted table that may be leased now';

-- Name the messages that are leased out or not due again yet, and those whose lease ran out.
create function baton_internal.inbox_busy(inbox int, moment timestamptz, out busy text[], out leased_before jsonb)
language sql stable
as $$
    select coalesce(array_agg(w.event_id) filter (where w.leased_until > moment or w.available_at > moment), '{}'),
           coalesce(jsonb_agg(w.event_id) filter (where w.leased_until <= moment), '[]')
      from baton_internal.inbox_work w where w.inbox = inbox_busy.inbox
$$;
comment on function baton_internal.inbox_busy(int, timestamptz) is 'messages of an adopted table that cannot be leased now, and those that were leased before';

-- Pick and lock messages in due order.
create function baton_internal.pick_adopted(box baton.inboxes, terms baton_internal.inbox_terms, condition text, moment timestamptz, batch int)
returns text[]
language plpgsql
as $$
declare
    known record := baton_internal.inbox_busy(box.id, moment);
begin
    return array(select p.id from baton_internal.run_as_owner(box.relation,
        format('select %s from %s t where %s %s order by %s limit ($3 ->> ''batch'')::int for no key update of t skip locked',
               terms.id, box.relation, baton_internal.inbox_ready_adopted_sql(box, terms), condition, terms.due),
        moment, known.busy, jsonb_build_object('batch', batch, 'leased_before', known.leased_before)) as p (id text));
end
$$;
comment on function baton_internal.pick_adopted(baton.inboxes, baton_internal.inbox_terms, text, timestamptz, int) is 'locks due messages of an adopted table';

-- Lease the picked messages that nobody else has leased meanwhile: the row lock alone would let in a claimer with an
-- older snapshot. Gives them in the order in which they were picked, with whether an earlier lease ran out.
create function baton_internal.lease_adopted(box baton.inboxes, picked text[], moment timestamptz, lease_token uuid, worker text, leased_until timestamptz)
returns jsonb
language sql
as $$
    with leased as (
        insert into baton_internal.inbox_work as w (inbox, event_id, lease_token, leased_by, leased_until)
        select box.id, p.id, lease_adopted.lease_token, worker, lease_adopted.leased_until from unnest(picked) p (id) order by p.id
        on conflict (inbox, event_id) do update
           set lease_token = excluded.lease_token, leased_by = excluded.leased_by, leased_until = excluded.leased_until,
               lapsed = w.leased_until is not null
         where (w.leased_until is null or w.leased_until <= moment) and (w.available_at is null or w.available_at <= moment)
        returning w.event_id, w.lapsed
    )
    select jsonb_agg(jsonb_build_object('id', l.event_id, 'lapsed', l.lapsed) order by p.position)
      from leased l join unnest(picked) with ordinality p (id, position) on p.id = l.event_id
$$;
comment on function baton_internal.lease_adopted(baton.inboxes, text[], timestamptz, uuid, text, timestamptz) is 'leases picked messages of an adopted table';

-- Write the statement that marks leased messages in their table and gives them.
create function baton_internal.inbox_take_adopted_sql(box baton.inboxes, terms baton_internal.inbox_terms)
returns text
language sql stable
as $$
    select format($query$
        with leased as materialized (
            select l.id, l.lapsed, l.position
              from rows from (jsonb_to_recordset($3 -> 'leased') as (id text, lapsed boolean)) with ordinality as l (id, lapsed, position)
        ), taken as (
            update %1$s t set %2$s from leased l where t.%3$I = l.id::%4$s and %5$s
            returning %6$s, %7$s::int, l.position, %7$s < %8$s
        )
        select c.event_id, c.event_type, c.source, c.aggregate_id, c.payload, c.headers, c.trace_id, c.received_at, c.sequence_num, c.retry_count, c.alive
          from taken c (event_id, event_type, source, aggregate_id, payload, headers, trace_id, received_at, sequence_num, retry_count, position, alive)
         order by c.position$query$,
        box.relation, terms.lease, box.id_column, terms.id_type, terms.pending, baton_internal.inbox_claim_columns(box), terms.retries, terms.limit_of)
$$;
comment on function baton_internal.inbox_take_adopted_sql(baton.inboxes, baton_internal.inbox_terms) is 'statement that gives leased messages of an adopted table';

-- Lease messages of an adopted table to a worker and give them.
create function baton_internal.claim_adopted_inbox(box baton.inboxes, condition text, moment timestamptz, batch int, lease_token uuid, worker text,
                                                   leased_until timestamptz)
returns table (event_id text, event_type text, source text, aggregate_id text, payload jsonb, headers jsonb, trace_id text,
               received_at timestamptz, sequence_num bigint, retry_count int)
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box);
    picked text[];
    leased jsonb;
    alive boolean;
    text_payload constant boolean := not baton_internal.inbox_column_is_jsonb(box, box.payload_column);
    text_headers constant boolean := not baton_internal.inbox_column_is_jsonb(box, box.headers_column);
    died text[] := '{}';  -- a lease that ran out was their last attempt
begin
    perform baton_internal.check_inbox_grants(box, '{select,update}');
    if box.order_mode is not null then
        picked := baton_internal.pick_ordered_adopted(box, terms, moment, batch, leased_until);
    else
        picked := baton_internal.pick_adopted(box, terms, condition, moment, batch);
    end if;
    leased := case when cardinality(picked) > 0 then baton_internal.lease_adopted(box, picked, moment, lease_token, worker, leased_until) end;
    if leased is null then
        return;
    end if;
    for event_id, event_type, source, aggregate_id, payload, headers, trace_id, received_at, sequence_num, retry_count, alive in
        select c.* from baton_internal.run_as_owner(box.relation, baton_internal.inbox_take_adopted_sql(box, terms), moment,
                                                    arguments => jsonb_build_object('leased', leased, 'worker', worker))
            as c (event_id text, event_type text, source text, aggregate_id text, payload jsonb, headers jsonb, trace_id text,
                  received_at timestamptz, sequence_num bigint, retry_count int, alive boolean)
    loop
        if alive then
            if text_payload then
                payload := baton_internal.text_to_jsonb(payload #>> '{}');
            end if;
            if text_headers then
                headers := baton_internal.text_to_jsonb(headers #>> '{}');
            end if;
            return next;
        else
            died := died || event_id;
        end if;
    end loop;
    if box.order_mode is not null and died <> '{}' then
        perform baton_internal.settle_inbox_sequences(box, terms, died, null);
    end if;
end
$$;
comment on function baton_internal.claim_adopted_inbox(baton.inboxes, text, timestamptz, int, uuid, text, timestamptz) is 'leases messages of an adopted table to a worker';

-- Settle messages: complete, fail, release or extend them. The message is locked before its lease, as in a claim, so that
-- the two never wait for each other in a circle. Returns how many were settled.
create function baton_internal.settle_adopted(box baton.inboxes, action text, event_ids text[], lease_token uuid, moment timestamptz,
                                              error text, permanent boolean, leased_until timestamptz)
returns bigint
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box);
    change text := case action when 'complete' then terms.complete when 'fail' then terms.fail when 'release' then terms.release else '' end;
    held text[];
    retries int[];
begin
    held := array(select r.id from baton_internal.run_as_owner(box.relation,
        format('select %s from %s t where t.%I = any ($2::%s[]) and %s order by 1 for no key update',
               terms.id, box.relation, box.id_column, terms.id_type, terms.unfinished), ids => event_ids) as r (id text));
    if lease_token is not null then
        held := array(select w.event_id from baton_internal.inbox_work w
                       where w.inbox = box.id and w.event_id = any (held) and w.lease_token = settle_adopted.lease_token order by 1 for update);
    else
        held := array(select h.id from unnest(held) h (id) where not exists (
            select 1 from baton_internal.inbox_work w where w.inbox = box.id and w.event_id = h.id and w.leased_until > moment));
    end if;
    if held = '{}' then
        return 0;
    end if;
    if change <> '' then
        select coalesce(array_agg(r.id order by r.id), '{}'), array_agg(r.retries order by r.id) into held, retries
          from baton_internal.run_as_owner(box.relation,
            format('update %s t set %s where t.%I = any ($2::%s[]) and %s returning %s, %s::int', box.relation, change, box.id_column, terms.id_type,
                   terms.unfinished, terms.id, terms.retries),
            moment, held, jsonb_build_object('error', error, 'permanent', permanent)) as r (id text, retries int);
    end if;
    if action = 'fail' then
        perform baton_internal.note_adopted_failed(box, held, retries, moment);
    else
        perform baton_internal.note_adopted_settled(box, action, held, leased_until);
    end if;
    return cardinality(held);
end
$$;
comment on function baton_internal.settle_adopted(baton.inboxes, text, text[], uuid, timestamptz, text, boolean, timestamptz) is 'settles messages of an adopted table';

-- Write down what became of the leases of settled messages.
create function baton_internal.note_adopted_settled(box baton.inboxes, action text, event_ids text[], leased_until timestamptz)
returns void
language plpgsql
as $$
begin
    if action = 'complete' then
        delete from baton_internal.inbox_work w where w.inbox = box.id and w.event_id = any (event_ids);
    elsif action = 'extend' then
        update baton_internal.inbox_work w set leased_until = note_adopted_settled.leased_until where w.inbox = box.id and w.event_id = any (event_ids);
    else
        update baton_internal.inbox_work w set lease_token = null, leased_by = null, leased_until = null, lapsed = false
         where w.inbox = box.id and w.event_id = any (event_ids);
    end if;
end
$$;
comment on function baton_internal.note_adopted_settled(baton.inboxes, text, text[], timestamptz) is 'moves or ends the leases of settled messages';

-- Write down when failed messages are due again, and that nobody holds them.
create function baton_internal.note_adopted_failed(box baton.inboxes, event_ids text[], retries int[], moment timestamptz)
returns void
language sql
as $$
    insert into baton_internal.inbox_work as w (inbox, event_id, available_at)
    select box.id, f.id, moment + baton_internal.backoff_delay(box.backoff_base, box.backoff_cap, box.backoff_jitter, f.retries)
      from unnest(event_ids, note_adopted_failed.retries) f (id, retries)
     where octet_length(f.id) <= baton_internal.longest_kept_id()  -- another one is not claimed
    on conflict (inbox, event_id) do update set available_at = excluded.available_at, lease_token = null, leased_by = null,
                                                leased_until = null, lapsed = false
$$;
comment on function baton_internal.note_adopted_failed(baton.inboxes, text[], int[], timestamptz) is 'notes when failed messages of an adopted table are due again';
