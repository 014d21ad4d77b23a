-- Order by sequence: per aggregate only the message after the last processed one is offered, to one worker at a time.
-- What was processed last is a row per aggregate, moved in the transaction that finishes a message, so that
-- neither offering nor looking for gaps reads processed messages.

create table baton_internal.inbox_sequences (
    inbox         int    not null references baton.inboxes on delete cascade,
    aggregate     text   not null,
    last_sequence bigint not null,
    event_id      text,  -- the message of this aggregate that is being worked
    leased_until  timestamptz,
    primary key (inbox, aggregate)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
comment on table baton_internal.inbox_sequences is 'aggregates of ordered inboxes: the last processed sequence, and which message is in work';

-- Messages at or below the last sequence that an operator wants handled all the same.
create table baton_internal.inbox_replays (
    inbox    int  not null references baton.inboxes on delete cascade,
    event_id text not null,
    primary key (inbox, event_id)
);
comment on table baton_internal.inbox_replays is 'messages of ordered inboxes that are offered out of turn';

-- Write the condition for messages that have a place in the order of their aggregate. In a sequence a dead letter blocks the messages
-- behind it, so every unfinished message has a place. In order of arrival a dead letter blocks nothing, so only waiting messages have one.
create function baton_internal.inbox_ordered_condition(box baton.inboxes, prefix text, for_view boolean default false)
returns text
language plpgsql stable
as $$
begin
    return baton_internal.fill(
        case box.order_mode when 'arrival' then '{waiting} and {aggregate_column} is not null'
                           else '{unfinished} and {aggregate_column} is not null and {sequence} is not null' end,
        baton_internal.inbox_parts(box, baton_internal.inbox_terms(box, prefix, for_view), prefix));
end
$$;
comment on function baton_internal.inbox_ordered_condition(baton.inboxes, text, boolean) is 'SQL for messages that have a place in the order of their aggregate';

-- Write a walk over the aggregates that have unfinished messages: one index probe for each aggregate, however many messages the aggregate
-- has. Aggregates come in the order of their hash, from `first` on, and below `until`.
create function baton_internal.inbox_heads_sql(box baton.inboxes, name text, first text default null, until text default null)
returns text
language plpgsql stable
as $$
declare
    parts jsonb := baton_internal.inbox_parts(box, baton_internal.inbox_terms(box));
    hash text := baton_internal.fill('hashtextextended({aggregate}, 0)', parts);
begin
    return baton_internal.fill($query${walk} (h, aggregate) as (
            (select {hash}, {aggregate} from {relation} t where {ordered} {from_first} {below_until} order by 1, 2 limit 1)
            union all
            select n.h, n.aggregate from {walk} a cross join lateral (
                select {hash} as h, {aggregate} as aggregate from {relation} t
                 where {ordered} and ({hash}, {aggregate}) > (a.h, a.aggregate) {below_until} order by 1, 2 limit 1) n
        )$query$, parts || jsonb_build_object(
            'walk', name,
            'hash', hash,
            'ordered', baton_internal.inbox_ordered_condition(box, 't.'),
            'from_first', coalesce('and ' || hash || ' >= ' || first, ''),
            'below_until', coalesce('and ' || hash || ' < ' || until, '')));
end
$$;
comment on function baton_internal.inbox_heads_sql(baton.inboxes, text, text, text) is 'recursive query over aggregates with unfinished messages';

-- Write the two walks that visit every aggregate once, from a random one on. So no aggregate is served before the others for ever, and
-- workers seldom meet.
create function baton_internal.inbox_random_heads_sql(box baton.inboxes)
returns text
language plpgsql volatile
as $$
declare
    start text := quote_literal(hashtextextended(random()::text, 0)) || '::bigint';
begin
    return baton_internal.inbox_heads_sql(box, 'heads_after', start) || ', ' || baton_internal.inbox_heads_sql(box, 'heads_before', until => start)
        || ', heads as (select * from heads_after union all select * from heads_before)';
end
$$;
comment on function baton_internal.inbox_random_heads_sql(baton.inboxes) is 'queries over aggregates with unfinished messages, beginning with a random aggregate';

-- Write how an ordered inbox picks: messages without a place in a sequence (up to half of the batch), replayed ones,
-- and the next one of each aggregate. The row in inbox_sequences decides who works on an aggregate.
-- Rows that another transaction holds are passed over; only the first claim of a new aggregate can be waited for.
create function baton_internal.inbox_pick_ordered_sql(box baton.inboxes, terms baton_internal.inbox_terms)
returns text
language plpgsql volatile
as $$
begin
    return baton_internal.fill($query${heads}, free as materialized (
            select {id} as id, {due} as due from {relation} t where {ready} and ({aggregate_column} is null or {sequence} is null)
             order by {due} limit ($5 + 1) / 2 for no key update of t skip locked
        ), again as materialized (
            select {id} as id, {due} as due, {aggregate} as aggregate, {sequence} as sequence from baton_internal.inbox_replays r
              cross join {relation} t where r.inbox = {inbox} and {key} = r.event_id::{id_type} and {ready}
             order by {due} limit $5 for no key update of t skip locked
        ), next as materialized (
            select m.id, m.due, m.aggregate, m.sequence
              from heads h
              left join lateral (select s.last_sequence, s.leased_until from baton_internal.inbox_sequences s
                                  where s.inbox = {inbox} and s.aggregate = h.aggregate limit 1) s on true
              cross join lateral (
                select {id} as id, {due} as due, {aggregate} as aggregate, {sequence} as sequence from {relation} t
                 where hashtextextended({aggregate}, 0) = h.h and {aggregate} = h.aggregate and {sequence} = coalesce(s.last_sequence, 0) + 1
                   and {ready} order by {id} limit 1 for no key update of t skip locked) m
             where s.leased_until is null or s.leased_until <= $1
             limit $5
        ), offered as (
            select f.id, f.due, null::text as aggregate, null::bigint as sequence from free f union all select * from again union all select * from next
        ), chosen as materialized (
            {one_per_id} limit $5
        ), idle as materialized (
            select s.aggregate from chosen c join baton_internal.inbox_sequences s on s.inbox = {inbox} and s.aggregate = c.aggregate
               for no key update of s skip locked
        ), secured as (
            insert into baton_internal.inbox_sequences as s (inbox, aggregate, last_sequence, event_id, leased_until)
            select distinct on (c.aggregate) {inbox}, c.aggregate, c.sequence - 1, c.id, $4 from chosen c
             where c.aggregate in (select i.aggregate from idle i)
                or not exists (select 1 from baton_internal.inbox_sequences s where s.inbox = {inbox} and s.aggregate = c.aggregate) and c.aggregate is not null
             order by c.aggregate, c.sequence
            on conflict (inbox, aggregate) do update set event_id = excluded.event_id, leased_until = $4
             where (s.leased_until is null or s.leased_until <= $1)
               and (s.last_sequence = excluded.last_sequence
                    or exists (select 1 from baton_internal.inbox_replays r where r.inbox = s.inbox and r.event_id = excluded.event_id))
            returning s.event_id
        ), picked as materialized (
            select c.id, c.due from chosen c where c.aggregate is null or c.id in (select s.event_id from secured s)
        )$query$, baton_internal.inbox_parts(box, terms) || jsonb_build_object(
            'heads', baton_internal.inbox_random_heads_sql(box),
            'ready', baton_internal.inbox_ready_condition(box, terms),
            'one_per_id', baton_internal.inbox_one_per_id_sql(box, 'offered')));
end
$$;
comment on function baton_internal.inbox_pick_ordered_sql(baton.inboxes, baton_internal.inbox_terms) is 'query that picks the next message of each aggregate';

-- Let go of aggregates whose message was settled, or hold them for longer.
create function baton_internal.settle_inbox_sequences(box baton.inboxes, terms baton_internal.inbox_terms, event_ids text[], leased_until timestamptz)
returns void
language plpgsql
as $$
declare
    settled text := baton_internal.fill($query$
        select {id}, {aggregate} from {relation} t where {key} = any ($2::{id_type}[]) and {aggregate_column} is not null$query$,
        baton_internal.inbox_parts(box, terms));
begin
    update baton_internal.inbox_sequences s
       set leased_until = settle_inbox_sequences.leased_until, event_id = case when settle_inbox_sequences.leased_until is not null then s.event_id end
      from baton_internal.run_as_owner(box.relation, settled, ids => event_ids) as r (id text, aggregate text)
     where s.inbox = box.id and s.aggregate = r.aggregate and s.event_id = r.id;
end
$$;
comment on function baton_internal.settle_inbox_sequences(baton.inboxes, baton_internal.inbox_terms, text[], timestamptz) is
    'moves or ends the lease on the messages'' aggregates';

-- Make the trigger that moves an aggregate on when its message is finished, by complete() or by a plain update. The trigger refuses to
-- finish a message before its turn. The function runs as baton's owner. The trigger's condition keeps the columns that it names as they
-- were at adoption; the id is not among them. The table's owner could give the id another type, and a cast would be the owner's code: so
-- format() writes the id by the type's own output.
create function baton_internal.make_inbox_ordering_trigger(box baton.inboxes)
returns void
language plpgsql
as $$
declare
    advance name := format('inbox_%s_advance', box.id);
    trigger_name name := format('baton_advance_%s', box.id);
    parts jsonb := baton_internal.inbox_parts(box, baton_internal.inbox_terms(box, 'new.'), 'new.') || jsonb_build_object(
        'trigger', quote_ident(trigger_name),
        'advance', quote_ident(advance),
        'finished', quote_ident(box.processed_at_column),
        'group_condition', baton_internal.inbox_group_condition(box, 'new.'));
begin
    perform baton_internal.make_inbox_function(box, 'ordering', advance, 'moves aggregates of inbox ' || box.name || ' on', baton_internal.fill($body$
        declare
            last bigint;
        begin
            insert into baton_internal.inbox_sequences as s (inbox, aggregate, last_sequence) select {inbox}, {aggregate}, 1 where {sequence} = 1
            on conflict do nothing;
            if found then
                return null;
            end if;
            update baton_internal.inbox_sequences s set last_sequence = {sequence}, event_id = null, leased_until = null
             where s.inbox = {inbox} and s.aggregate = {aggregate} and s.last_sequence = {sequence} - 1;
            if found then
                return null;
            end if;
            select s.last_sequence into last from baton_internal.inbox_sequences s where s.inbox = {inbox} and s.aggregate = {aggregate};
            if {sequence} > coalesce(last, 0) then
                raise exception 'message % of aggregate "%" cannot be finished before %', {sequence}, {aggregate_column}, coalesce(last, 0) + 1
                    using errcode = 'object_not_in_prerequisite_state', table = tg_table_name,
                          hint = 'finish messages in sequence, or skip with baton.advance_inbox_sequence()';
            end if;
            delete from baton_internal.inbox_replays r where r.inbox = {inbox} and r.event_id = format('%s', {key});
            update baton_internal.inbox_sequences s set event_id = null, leased_until = null
             where s.inbox = {inbox} and s.aggregate = {aggregate} and s.event_id = format('%s', {key});
            return null;
        end
        $body$, parts));
    execute baton_internal.fill($query$
        create trigger {trigger} after update of {finished} on {relation} for each row
          when (old.{finished} is null and new.{finished} is not null
                and {aggregate_column} is not null and {sequence} is not null{group_condition})
          execute function baton_internal.{advance}()$query$, parts);
    perform baton_internal.note_inbox_object(box.id, 'ordering', 'trigger', box.schema_name, trigger_name);
end
$$;
comment on function baton_internal.make_inbox_ordering_trigger(baton.inboxes) is 'makes the trigger that keeps inbox_sequences';

-- Make next_<inbox>, stalled_<inbox> and, where there are numbers, gaps_<inbox>.
create function baton_internal.make_inbox_ordering_views(box baton.inboxes)
returns void
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box, for_view => true);
    parts jsonb := baton_internal.inbox_parts(box, terms) || jsonb_build_object(
        'heads', baton_internal.inbox_heads_sql(box, 'heads'),
        'shown_aggregate', baton_internal.tenant_name_sql(box, 'g.aggregate'));
    next_in_sequence constant text := $query$
        with recursive {heads}
        select t.* from heads h
          left join baton_internal.inbox_sequences s on s.inbox = {inbox} and s.aggregate = h.aggregate
         cross join lateral (
            select t.* from {relation} t
             where hashtextextended({aggregate}, 0) = h.h and {aggregate} = h.aggregate
               and {sequence} = coalesce(s.last_sequence, 0) + 1 and {pending} order by {id} limit 1) t$query$;
    next_by_arrival constant text := $query$
        with recursive {heads}
        select t.* from heads h cross join lateral (select t.* from {relation} t where {key} = ({first_arrival})) t$query$;
    gaps constant text := $query$select {shown_aggregate} as aggregate, g.expected, g.found, g.gap_age_sec from ({gaps}) g$query$;
begin
    if box.order_mode = 'arrival' then
        parts := parts || jsonb_build_object('first_arrival', baton_internal.inbox_first_arrival_sql(box, terms, 'h.h', 'h.aggregate'));
    else
        parts := parts || jsonb_build_object('gaps', baton_internal.inbox_gaps_query(box));
        perform baton_internal.make_inbox_view(box, 'ordering', 'gaps_', '', 'sequences missing from inbox ' || box.name, baton_internal.fill(gaps, parts));
    end if;
    perform baton_internal.make_inbox_view(box, 'ordering', 'next_', '', format('the next message of each aggregate of inbox %s', box.name),
                                           baton_internal.fill(case box.order_mode when 'arrival' then next_by_arrival else next_in_sequence end, parts));
    perform baton_internal.make_inbox_view(box, 'ordering', 'stalled_', '', format('aggregates of inbox %s that wait for something', box.name),
                                           baton_internal.inbox_stalled_query(box, terms));
end
$$;
comment on function baton_internal.make_inbox_ordering_views(baton.inboxes) is 'makes the next_, stalled_ and gaps_ views';
