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

-- Write the condition for messages that have a place in their aggregate's order: unfinished ones, for a dead letter blocks a sequence;
-- in order of arrival those that wait, for there it does not.
create function baton_internal.inbox_ordered_condition(it baton.inboxes, prefix text, for_view boolean default false)
returns text
language sql stable
as $$
    select case when it.order_mode = 'arrival'
                then format('%s and %s%I is not null', terms.waiting, prefix, it.aggregate_id_column)
                else format('%s and %s%I is not null and %2$s%4$I is not null', terms.unfinished, prefix, it.aggregate_id_column, it.sequence_column) end
      from baton_internal.inbox_terms(it, prefix, for_view) terms
$$;
comment on function baton_internal.inbox_ordered_condition(baton.inboxes, text, boolean) is 'SQL for messages with a place in an order';

-- Write a walk over the aggregates that have unfinished messages: one index probe each, however many messages they
-- have. Aggregates come in the order of their hash, from `first` on, and below `until`.
create function baton_internal.inbox_heads_sql(it baton.inboxes, name text, first text default null, until text default null)
returns text
language sql stable
as $$
    select format($query$%1$s (h, aggregate) as (
            (select %2$s, %3$s from %4$s t where %5$s %6$s %7$s order by 1, 2 limit 1)
            union all
            select n.h, n.aggregate from %1$s a cross join lateral (
                select %2$s as h, %3$s as aggregate from %4$s t where %5$s and (%2$s, %3$s) > (a.h, a.aggregate) %7$s order by 1, 2 limit 1) n
        )$query$, name, hashed, aggregate, it.relation, unfinished, coalesce('and ' || hashed || ' >= ' || first, ''),
        coalesce('and ' || hashed || ' < ' || until, ''))
      from (select format('hashtextextended(%s, 0)', terms.aggregate) as hashed, terms.aggregate,
                   baton_internal.inbox_ordered_condition(it, 't.') as unfinished from baton_internal.inbox_terms(it) terms) v
$$;
comment on function baton_internal.inbox_heads_sql(baton.inboxes, text, text, text) is 'recursive query over aggregates with unfinished messages';

-- Write how an ordered inbox picks: messages without a place in a sequence (up to half of the batch), replayed ones,
-- and the next one of each aggregate. The walk over aggregates starts at a random one, so that none is served
-- before the others for ever and workers do not meet. The row in inbox_sequences decides who works on an aggregate.
-- Rows that another transaction holds are passed over; only the first claim of a new aggregate can be waited for.
create function baton_internal.inbox_pick_ordered_sql(it baton.inboxes, terms baton_internal.inbox_terms)
returns text
language sql volatile
as $$
    select baton_internal.inbox_heads_sql(it, 'heads_after', v.start) || ', ' || baton_internal.inbox_heads_sql(it, 'heads_before', until => v.start)
        || format($query$, free as materialized (
            select %1$s as id, %2$s as due from %3$s t where %4$s and (t.%5$I is null or t.%6$I is null)
             order by %2$s limit ($5 + 1) / 2 for no key update of t skip locked
        ), again as materialized (
            select %1$s as id, %2$s as due, %10$s as aggregate, t.%6$I as sequence from baton_internal.inbox_replays r
              cross join %3$s t where r.inbox = %9$s and t.%7$I = r.event_id::%8$s and %4$s
             order by %2$s limit $5 for no key update of t skip locked
        ), next as materialized (
            select m.id, m.due, m.aggregate, m.sequence
              from (select * from heads_after union all select * from heads_before) h
              left join lateral (select s.last_sequence, s.leased_until from baton_internal.inbox_sequences s
                                  where s.inbox = %9$s and s.aggregate = h.aggregate limit 1) s on true
              cross join lateral (
                select %1$s as id, %2$s as due, %10$s as aggregate, t.%6$I as sequence from %3$s t
                 where hashtextextended(%10$s, 0) = h.h and %10$s = h.aggregate and t.%6$I = coalesce(s.last_sequence, 0) + 1
                   and %4$s order by %1$s limit 1 for no key update of t skip locked) m
             where s.leased_until is null or s.leased_until <= $1
             limit $5
        ), chosen as materialized (
            %11$s limit $5
        ), idle as materialized (
            select s.aggregate from chosen c join baton_internal.inbox_sequences s on s.inbox = %9$s and s.aggregate = c.aggregate
               for no key update of s skip locked
        ), secured as (
            insert into baton_internal.inbox_sequences as s (inbox, aggregate, last_sequence, event_id, leased_until)
            select distinct on (c.aggregate) %9$s, c.aggregate, c.sequence - 1, c.id, $4 from chosen c
             where c.aggregate in (select i.aggregate from idle i)
                or not exists (select 1 from baton_internal.inbox_sequences s where s.inbox = %9$s and s.aggregate = c.aggregate) and c.aggregate is not null
             order by c.aggregate, c.sequence
            on conflict (inbox, aggregate) do update set event_id = excluded.event_id, leased_until = $4
             where (s.leased_until is null or s.leased_until <= $1)
               and (s.last_sequence = excluded.last_sequence
                    or exists (select 1 from baton_internal.inbox_replays r where r.inbox = s.inbox and r.event_id = excluded.event_id))
            returning s.event_id
        ), picked as materialized (
            select c.id, c.due from chosen c where c.aggregate is null or c.id in (select s.event_id from secured s)
        )$query$, terms.id, terms.due, it.relation, baton_internal.inbox_ready_condition(it, terms),
        it.aggregate_id_column, it.sequence_column, it.id_column, terms.id_type, it.id, terms.aggregate, baton_internal.inbox_one_per_id_sql(it,
            '(select f.id, f.due, null::text as aggregate, null::bigint as sequence from free f union all select * from again union all select * from next)'))
      from (select quote_literal(hashtextextended(random()::text, 0)) || '::bigint' as start) v
$$;
comment on function baton_internal.inbox_pick_ordered_sql(baton.inboxes, baton_internal.inbox_terms) is 'query that picks the next message of each aggregate';

-- Let go of aggregates whose message was settled, or hold them for longer.
create function baton_internal.settle_inbox_sequences(it baton.inboxes, terms baton_internal.inbox_terms, event_ids text[], leased_until timestamptz)
returns void
language plpgsql
as $$
begin
    update baton_internal.inbox_sequences s
       set leased_until = settle_inbox_sequences.leased_until, event_id = case when settle_inbox_sequences.leased_until is not null then s.event_id end
      from baton_internal.run_as_owner(it.relation, format('select %s, %s from %s t where t.%I = any ($2::%s[]) and t.%I is not null',
               terms.id, terms.aggregate, it.relation, it.id_column, terms.id_type, it.aggregate_id_column), ids => event_ids)
           as r (id text, aggregate text)
     where s.inbox = it.id and s.aggregate = r.aggregate and s.event_id = r.id;
end
$$;
comment on function baton_internal.settle_inbox_sequences(baton.inboxes, baton_internal.inbox_terms, text[], timestamptz) is
    'moves or ends the lease on the messages'' aggregates';

-- Make the trigger that moves an aggregate on when its message is finished, by complete() or by a plain update, and
-- refuses to finish one before its turn. The function runs as baton's owner. The trigger's condition keeps the columns that it names as they
-- were at adoption; the id is not among them. The table's owner could give the id another type, and a cast would be the owner's code: so
-- the id is written by the type's own output.
create function baton_internal.make_inbox_ordering_trigger(it baton.inboxes)
returns void
language plpgsql
as $$
declare
    advance name := format('inbox_%s_advance', it.id);
begin
    perform baton_internal.make_inbox_function(it, 'ordering', advance, 'moves aggregates of inbox ' || it.name || ' on', format($body$
        declare
            last bigint;
        begin
            insert into baton_internal.inbox_sequences as s (inbox, aggregate, last_sequence) select %1$s, %5$s, 1 where new.%3$I = 1
            on conflict do nothing;
            if found then
                return null;
            end if;
            update baton_internal.inbox_sequences s set last_sequence = new.%3$I, event_id = null, leased_until = null
             where s.inbox = %1$s and s.aggregate = %5$s and s.last_sequence = new.%3$I - 1;
            if found then
                return null;
            end if;
            select s.last_sequence into last from baton_internal.inbox_sequences s where s.inbox = %1$s and s.aggregate = %5$s;
            if new.%3$I > coalesce(last, 0) then
                raise exception 'message %% of aggregate "%%" cannot be finished before %%', new.%3$I, new.%2$I, coalesce(last, 0) + 1
                    using errcode = 'object_not_in_prerequisite_state', table = tg_table_name,
                          hint = 'finish messages in sequence, or skip with baton.advance_inbox_sequence()';
            end if;
            delete from baton_internal.inbox_replays r where r.inbox = %1$s and r.event_id = %4$s;
            update baton_internal.inbox_sequences s set event_id = null, leased_until = null
             where s.inbox = %1$s and s.aggregate = %5$s and s.event_id = %4$s;
            return null;
        end
        $body$, it.id, it.aggregate_id_column, it.sequence_column, format('format(''%%s'', new.%I)', it.id_column), (baton_internal.inbox_terms(it, 'new.')).aggregate));
    execute format('create trigger %I after update of %I on %s for each row when (old.%2$I is null and new.%2$I is not null'
                   ' and new.%4$I is not null and new.%5$I is not null%6$s) execute function baton_internal.%7$I()',
                   'baton_advance_' || it.id, it.processed_at_column, it.relation, it.aggregate_id_column, it.sequence_column,
                   baton_internal.inbox_group_condition(it, 'new.'), advance);
    perform baton_internal.note_inbox_object(it.id, 'ordering', 'trigger', it.schema_name, 'baton_advance_' || it.id);
end
$$;
comment on function baton_internal.make_inbox_ordering_trigger(baton.inboxes) is 'makes the trigger that keeps inbox_sequences';

-- Make next_<inbox>, stalled_<inbox> and, where there are numbers, gaps_<inbox>.
create function baton_internal.make_inbox_ordering_views(it baton.inboxes)
returns void
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(it, for_view => true);
    heads text := baton_internal.inbox_heads_sql(it, 'heads');
begin
    perform baton_internal.make_inbox_view(it, 'ordering', 'next_', '', format('the next message of each aggregate of inbox %s', it.name),
        case when it.order_mode = 'arrival' then
            format('with recursive %s select t.* from heads h cross join lateral (select t.* from %s t where t.%I = (%s)) t', heads,
                   it.relation, it.id_column, baton_internal.inbox_first_arrival_sql(it, terms, 'h.h', 'h.aggregate'))
        else
            format('with recursive %1$s select t.* from heads h left join baton_internal.inbox_sequences s on s.inbox = %2$s and s.aggregate = h.aggregate'
                   ' cross join lateral (select t.* from %3$s t where hashtextextended(%4$s, 0) = h.h and %4$s = h.aggregate'
                   ' and t.%5$I = coalesce(s.last_sequence, 0) + 1 and %6$s order by %7$s limit 1) t',
                   heads, it.id, it.relation, terms.aggregate, it.sequence_column, terms.pending, terms.id) end);
    perform baton_internal.make_inbox_view(it, 'ordering', 'stalled_', '', format('aggregates of inbox %s that wait for something', it.name),
                                           baton_internal.inbox_stalled_query(it, terms));
    if it.order_mode = 'sequence' then
        perform baton_internal.make_inbox_view(it, 'ordering', 'gaps_', '', format('sequences missing from inbox %s', it.name),
            format('select %s as aggregate, g.expected, g.found, g.gap_age_sec from (%s) g', baton_internal.tenant_name_sql(it, 'g.aggregate'),
                   baton_internal.inbox_gaps_query(it)));
    end if;
end
$$;
comment on function baton_internal.make_inbox_ordering_views(baton.inboxes) is 'makes the next_, stalled_ and gaps_ views';
