-- Order by arrival: per aggregate the message that came first and still has attempts is offered, to one worker at a time.
--
-- A message that failed holds its aggregate while it waits for its next attempt, and so does one that was sent for later. A message
-- that is done or dead, and so one that an operator skips, lets the next one through; replayed, it takes its old place. Messages
-- without an aggregate have no order.
--
-- The order of arrival: what was committed before a receiver began comes before what the receiver brings, and a batch keeps its
-- order. Two receivers that bring the same stretch at the same time, as after a take-over, leave it in order too.

-- Write the columns by which the messages of an aggregate come in order of arrival.
create function baton_internal.inbox_arrival_columns(box baton.inboxes, prefix text default '')
returns text
language sql immutable
as $$
    select case when box.layout = 'managed' then prefix || 'arrival'
                else format('%s%I, %1$s%3$I', prefix, box.received_at_column, box.id_column) end
$$;
comment on function baton_internal.inbox_arrival_columns(baton.inboxes, text) is 'columns that tell the order in which messages came';

-- Write the query for the id of the message whose turn it is in the aggregate that `aggregate` and `hash` name.
create function baton_internal.inbox_first_arrival_sql(box baton.inboxes, terms baton_internal.inbox_terms, hash text, aggregate text)
returns text
language plpgsql stable
as $$
begin
    return baton_internal.fill('select {key} from {relation} t where {ordered} and {pending} and hashtextextended({aggregate}, 0) = {wanted_hash}'
                               ' and {aggregate} = {wanted} order by {arrival} limit 1',
        baton_internal.inbox_parts(box, terms) || jsonb_build_object(
            'ordered', baton_internal.inbox_ordered_condition(box, 't.'),
            'wanted_hash', hash,
            'wanted', aggregate,
            'arrival', baton_internal.inbox_arrival_columns(box, 't.')));
end
$$;
comment on function baton_internal.inbox_first_arrival_sql(baton.inboxes, baton_internal.inbox_terms, text, text) is
    'query for the first message of an aggregate';

-- Write how an inbox in order of arrival picks: messages without an aggregate (up to half of the batch) and the first one of each
-- aggregate, if that one may be worked now. The row in inbox_sequences decides who works on an aggregate; what is locked is passed over.
create function baton_internal.inbox_pick_arrival_sql(box baton.inboxes, terms baton_internal.inbox_terms)
returns text
language plpgsql volatile
as $$
begin
    return baton_internal.fill($query${heads}, free as materialized (
            select {id} as id, {due} as due from {relation} t where {ready} and {aggregate_column} is null
             order by {due} limit ($5 + 1) / 2 for no key update of t skip locked
        ), next as materialized (
            select m.id, m.due, h.aggregate
              from heads h
              left join lateral (select s.leased_until from baton_internal.inbox_sequences s
                                  where s.inbox = {inbox} and s.aggregate = h.aggregate limit 1) s on true
              cross join lateral (
                select {id} as id, {due} as due from {relation} t where {key} = ({first_arrival}) and {ready} for no key update of t skip locked) m
             where s.leased_until is null or s.leased_until <= $1
             limit $5
        ), offered as (
            select f.id, f.due, null::text as aggregate from free f union all select * from next
        ), chosen as materialized (
            {one_per_id} limit $5
        ), idle as materialized (
            select s.aggregate from chosen c join baton_internal.inbox_sequences s on s.inbox = {inbox} and s.aggregate = c.aggregate
               for no key update of s skip locked
        ), secured as (
            insert into baton_internal.inbox_sequences as s (inbox, aggregate, last_sequence, event_id, leased_until)
            select {inbox}, c.aggregate, 0, c.id, $4 from chosen c
             where c.aggregate in (select i.aggregate from idle i)
                or not exists (select 1 from baton_internal.inbox_sequences s where s.inbox = {inbox} and s.aggregate = c.aggregate) and c.aggregate is not null
             order by c.aggregate
            on conflict (inbox, aggregate) do update set event_id = excluded.event_id, leased_until = $4
             where s.leased_until is null or s.leased_until <= $1
            returning s.event_id
        ), picked as materialized (
            select c.id, c.due from chosen c where c.aggregate is null or c.id in (select s.event_id from secured s)
        )$query$, baton_internal.inbox_parts(box, terms) || jsonb_build_object(
            'heads', baton_internal.inbox_random_heads_sql(box),
            'first_arrival', baton_internal.inbox_first_arrival_sql(box, terms, 'h.h', 'h.aggregate'),
            'ready', baton_internal.inbox_ready_condition(box, terms),
            'one_per_id', baton_internal.inbox_one_per_id_sql(box, 'offered')));
end
$$;
comment on function baton_internal.inbox_pick_arrival_sql(baton.inboxes, baton_internal.inbox_terms) is 'query that picks the first message of each aggregate';

-- Draw new places for messages that were just stored, in the order given. A batch that met duplicates may have waited for another
-- receiver of the same messages, whose places are younger than those that the batch drew before it waited.
create function baton_internal.renumber_inbox_arrivals(box baton.inboxes, event_ids text[])
returns void
language plpgsql
as $$
begin
    execute format('update %1$s t set arrival = n.arrival from (select g.id, nextval(%2$L) as arrival'
                   ' from (select u.id from unnest($1) with ordinality u (id, position) order by u.position) g) n where t.%3$I = n.id',
                   box.relation, baton_internal.inbox_arrival_sequence(box), box.id_column) using event_ids;
end
$$;
comment on function baton_internal.renumber_inbox_arrivals(baton.inboxes, text[]) is 'gives messages that were just stored the latest places';

-- Name the sequence that numbers the arrivals of a managed inbox.
create function baton_internal.inbox_arrival_sequence(box baton.inboxes)
returns text
language sql stable
as $$ select pg_get_serial_sequence(box.relation::text, 'arrival') $$;
comment on function baton_internal.inbox_arrival_sequence(baton.inboxes) is 'sequence behind the column arrival';

-- Refuse to settle messages whose aggregate has been given to another worker, and hold the aggregates until the end of the transaction.
-- Messages are locked before aggregates, as in a claim, so that the two never wait for each other in a circle.
create function baton_internal.check_inbox_aggregates_held(box baton.inboxes, terms baton_internal.inbox_terms, event_ids text[])
returns void
language plpgsql
as $$
declare
    ids text[];
    aggregates text[];
    lost text;
begin
    select array_agg(r.id), array_agg(r.aggregate) into ids, aggregates
      from baton_internal.run_as_owner(box.relation, baton_internal.fill($query$
               select {id}, {aggregate} from {relation} t
                where {key} = any ($2::{id_type}[]) and {aggregate_column} is not null and {unfinished}
                order by 1 for no key update of t$query$, baton_internal.inbox_parts(box, terms)), ids => event_ids) as r (id text, aggregate text);
    with held as materialized (
        select s.event_id from baton_internal.inbox_sequences s
         where s.inbox = box.id and s.aggregate = any (aggregates) order by s.aggregate for no key update of s)
    select k.id into lost from unnest(ids) k (id) where not exists (select 1 from held h where h.event_id = k.id) limit 1;
    if lost is not null then
        raise exception 'lease lost on message "%" of inbox "%"', baton_internal.tenant_name(box, lost), format('%I.%I', box.schema_name, box.name)
            using errcode = 'BT001', detail = 'the lease ran out and its aggregate was given to another worker',
                  hint = 'roll back this transaction so that the message has its effect once, then claim again';
    end if;
end
$$;
comment on function baton_internal.check_inbox_aggregates_held(baton.inboxes, baton_internal.inbox_terms, text[]) is
    'raises BT001 when another worker has the aggregate of a message';

-- Make the trigger that lets go of an aggregate whose message is finished by a plain update. Adopted tables get none: there the
-- aggregate is free when complete() finished its message, or when the lease ends.
create function baton_internal.make_inbox_arrival_trigger(box baton.inboxes)
returns void
language plpgsql
as $$
declare
    advance name := format('inbox_%s_advance', box.id);
    trigger_name name := format('baton_advance_%s', box.id);
    parts jsonb := baton_internal.inbox_parts(box, baton_internal.inbox_terms(box, 'new.'), 'new.') || jsonb_build_object(
        'trigger', quote_ident(trigger_name),
        'advance', quote_ident(advance));
begin
    if box.layout <> 'managed' then
        return;
    end if;
    perform baton_internal.make_inbox_function(box, 'ordering', advance, 'lets go of aggregates of inbox ' || box.name, baton_internal.fill($body$
        begin
            update baton_internal.inbox_sequences s set event_id = null, leased_until = null
             where s.inbox = {inbox} and s.aggregate = {aggregate} and s.event_id = {key};
            return null;
        end
        $body$, parts));
    execute baton_internal.fill($query$
        create trigger {trigger} after update of processed_at on {relation} for each row
          when (old.processed_at is null and new.processed_at is not null and {aggregate_column} is not null)
          execute function baton_internal.{advance}()$query$, parts);
    perform baton_internal.note_inbox_object(box.id, 'ordering', 'trigger', box.schema_name, trigger_name);
end
$$;
comment on function baton_internal.make_inbox_arrival_trigger(baton.inboxes) is 'makes the trigger that frees aggregates';

-- Take over the leases of messages that are in work while order is switched on: nobody else may get their aggregates.
create function baton_internal.learn_inbox_leases(box baton.inboxes)
returns void
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box);
    leased jsonb;  -- of an adopted table, whose leases baton keeps
    statement text := case when box.layout = 'managed'
        then 'select {id}, {aggregate}, t.leased_until from {relation} t where {pending} and {aggregate_column} is not null'
        else 'select {id}, {aggregate}, ($3 ->> ({id}))::timestamptz from {relation} t where {pending} and {aggregate_column} is not null' end;
begin
    select jsonb_object_agg(w.event_id, w.leased_until) into leased
      from baton_internal.inbox_work w where w.inbox = box.id and w.leased_until > clock_timestamp();
    insert into baton_internal.inbox_sequences as s (inbox, aggregate, last_sequence, event_id, leased_until)
    select distinct on (r.aggregate) box.id, r.aggregate, 0, r.id, r.leased_until
      from baton_internal.run_as_owner(box.relation, baton_internal.fill(statement, baton_internal.inbox_parts(box, terms)), arguments => leased)
           as r (id text, aggregate text, leased_until timestamptz)
     where r.leased_until > clock_timestamp() order by r.aggregate, r.leased_until desc
    on conflict (inbox, aggregate) do update set event_id = excluded.event_id, leased_until = excluded.leased_until;
end
$$;
comment on function baton_internal.learn_inbox_leases(baton.inboxes) is 'fills inbox_sequences from leases';

-- Skip the message whose turn it is: it stays as a dead letter and the next one is offered. Returns how many were skipped.
create function baton_internal.skip_inbox_arrival(box baton.inboxes, aggregate text, reason text)
returns bigint
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box);
    named text := case when box.layout = 'managed' then '$2' else $json$($3 ->> 'aggregate')$json$ end;
    first_arrival text := baton_internal.inbox_first_arrival_sql(box, terms, 'hashtextextended(' || named || ', 0)', named);
    statement text := baton_internal.fill('update {relation} t set {fail} where {key} = ({first_arrival}) and {pending}',
                                          baton_internal.inbox_parts(box, terms) || jsonb_build_object('first_arrival', first_arrival));
    skipped bigint;
begin
    if box.layout = 'managed' then
        execute statement using clock_timestamp(), aggregate, null::bigint, reason, true;
        get diagnostics skipped = row_count;
    else
        skipped := baton_internal.change_as_owner(box.relation, statement, clock_timestamp(),
                       arguments => jsonb_build_object('aggregate', aggregate, 'error', reason, 'permanent', true));
    end if;
    update baton_internal.inbox_sequences s set event_id = null, leased_until = null
     where s.inbox = box.id and s.aggregate = skip_inbox_arrival.aggregate;
    return skipped;
end
$$;
comment on function baton_internal.skip_inbox_arrival(baton.inboxes, text, text) is 'makes a dead letter of an aggregate''s first message';

-- Forget aggregates that nobody works on and that have no message waiting, unless they hold a sequence from another time.
create function baton_internal.sweep_inbox_aggregates(box baton.inboxes, batch int)
returns bigint
language plpgsql
as $$
declare
    waiting text := baton_internal.fill($query$
        select a.aggregate from unnest($2) a (aggregate)
         where exists (select 1 from {relation} t
                        where {ordered} and hashtextextended({aggregate}, 0) = hashtextextended(a.aggregate, 0) and {aggregate} = a.aggregate)$query$,
        baton_internal.inbox_parts(box, baton_internal.inbox_terms(box)) || jsonb_build_object('ordered', baton_internal.inbox_ordered_condition(box, 't.')));
    idle text[];
    swept bigint;
begin
    idle := array(select s.aggregate from baton_internal.inbox_sequences s
                   where s.inbox = box.id and s.last_sequence = 0 and (s.leased_until is null or s.leased_until <= clock_timestamp())
                   limit batch for update of s skip locked);
    idle := array(select i.aggregate from unnest(idle) i (aggregate) except
                  select r.aggregate from baton_internal.run_as_owner(box.relation, waiting, ids => idle) as r (aggregate text));
    delete from baton_internal.inbox_sequences s where s.inbox = box.id and s.aggregate = any (idle);
    get diagnostics swept = row_count;
    return swept;
end
$$;
comment on function baton_internal.sweep_inbox_aggregates(baton.inboxes, int) is 'deletes rows of aggregates that are idle';
