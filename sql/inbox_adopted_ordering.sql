-- Order in adopted tables: the next message of each aggregate, as in inbox_ordering.sql and inbox_arrival.sql, in steps of which
-- each is the table owner's or baton's.

-- Walk a piece of the aggregates that have unfinished messages, by their hash, after one of them.
create function baton_internal.inbox_heads_adopted(box baton.inboxes, after_hash bigint, after_aggregate text, piece int)
returns table (hash bigint, aggregate text, place bigint)
language sql
as $$
    select h.hash, h.aggregate, h.place
      from rows from (baton_internal.run_as_owner(box.relation, format($query$
               with recursive heads (h, aggregate) as (
                   (select hashtextextended(%1$s, 0), %1$s from %2$s t
                     where %3$s and (hashtextextended(%1$s, 0), %1$s) > (($3 ->> 'hash')::bigint, $3 ->> 'aggregate') order by 1, 2 limit 1)
                   union all
                   select n.h, n.aggregate from heads a cross join lateral (
                       select hashtextextended(%1$s, 0) as h, %1$s as aggregate from %2$s t
                        where %3$s and (hashtextextended(%1$s, 0), %1$s) > (a.h, a.aggregate) order by 1, 2 limit 1) n
               )
               select h, aggregate from heads limit ($3 ->> 'piece')::int$query$,
               (baton_internal.inbox_terms(box)).aggregate, box.relation, baton_internal.inbox_ordered_condition(box, 't.')),
               arguments => jsonb_build_object('hash', after_hash, 'aggregate', after_aggregate, 'piece', piece))
           as (hash bigint, aggregate text)) with ordinality h (hash, aggregate, place)
$$;
comment on function baton_internal.inbox_heads_adopted(baton.inboxes, bigint, text, int) is 'the next aggregates of an adopted table that have unfinished messages';

-- Lock the next message of each of some aggregates: [{hash, aggregate, sequence}]. Gives [{id, aggregate, sequence}].
create function baton_internal.pick_next_adopted(box baton.inboxes, terms baton_internal.inbox_terms, moment timestamptz, busy text[], arguments jsonb)
returns jsonb
language sql
as $$
    select coalesce(jsonb_agg(to_jsonb(r)), '[]')
      from baton_internal.run_as_owner(box.relation, format($query$
               select m.id, m.aggregate, m.sequence
                 from jsonb_to_recordset($3 -> 'wanted') as h (hash bigint, aggregate text, sequence bigint)
                cross join lateral (
                   select %1$s as id, h.aggregate, h.sequence from %2$s t where %3$s and %4$s
                    order by %1$s limit 1 for no key update of t skip locked) m
                limit ($3 ->> 'batch')::int$query$,
               terms.id, box.relation, case when box.order_mode = 'arrival'
                   then format('t.%I = (%s)', box.id_column, baton_internal.inbox_first_arrival_sql(box, terms, 'h.hash', 'h.aggregate'))
                   else format('hashtextextended(%1$s, 0) = h.hash and %1$s = h.aggregate and t.%2$I = h.sequence', terms.aggregate, box.sequence_column) end,
               baton_internal.inbox_ready_adopted_sql(box, terms)),
               moment, busy, arguments) as r (id text, aggregate text, sequence bigint)
$$;
comment on function baton_internal.pick_next_adopted(baton.inboxes, baton_internal.inbox_terms, timestamptz, text[], jsonb) is
    'locks the next message of some aggregates of an adopted table';

-- Lock messages without a place in the order, up to half of the batch, and those replayed out of a sequence.
create function baton_internal.pick_unplaced_adopted(box baton.inboxes, terms baton_internal.inbox_terms, moment timestamptz, busy text[], arguments jsonb)
returns jsonb
language sql
as $$
    select coalesce(jsonb_agg(to_jsonb(r)), '[]')
      from baton_internal.run_as_owner(box.relation, format($query$
               (select * from (select %1$s, null::text, null::bigint from %2$s t where %3$s and (t.%4$I is null or %5$s is null)
                                order by %6$s limit (($3 ->> 'batch')::int + 1) / 2 for no key update of t skip locked) free)
               union all
               (select * from (select %1$s, %9$s, %5$s::bigint from %2$s t
                                where t.%7$I = any (array(select jsonb_array_elements_text($3 -> 'replays'))::%8$s[]) and %3$s
                                order by %6$s limit ($3 ->> 'batch')::int for no key update of t skip locked) again)$query$,
               terms.id, box.relation, baton_internal.inbox_ready_adopted_sql(box, terms), box.aggregate_id_column,
               case when box.order_mode = 'arrival' then '0' else 't.' || quote_ident(box.sequence_column) end, terms.due,
               box.id_column, terms.id_type, terms.aggregate),
               moment, busy, arguments || jsonb_build_object('replays',
                   (select coalesce(jsonb_agg(r.event_id), '[]') from baton_internal.inbox_replays r where r.inbox = box.id)))
           as r (id text, aggregate text, sequence bigint)
$$;
comment on function baton_internal.pick_unplaced_adopted(baton.inboxes, baton_internal.inbox_terms, timestamptz, text[], jsonb) is
    'locks messages of an ordered adopted table that are offered out of turn';

-- Pick messages of an ordered inbox and lock them. The walk over aggregates goes in pieces, once around from a random one,
-- because what was processed last is known to baton and the messages to the table's owner.
create function baton_internal.pick_ordered_adopted(box baton.inboxes, terms baton_internal.inbox_terms, moment timestamptz, batch int,
                                                    leased_until timestamptz)
returns text[]
language plpgsql
as $$
declare
    known record := baton_internal.inbox_busy(box.id, moment);
    arguments jsonb := jsonb_build_object('batch', batch, 'leased_before', known.leased_before);
    chosen jsonb := baton_internal.pick_unplaced_adopted(box, terms, moment, known.busy, arguments);
    piece int := greatest(batch * 2, 100);
    start bigint := hashtextextended(random()::text, 0);
    wrapped boolean := false;
    after_hash bigint := start;
    after_aggregate text := '';
    walk record;
begin
    while jsonb_array_length(chosen) < batch loop
        select count(*) as seen, (array_agg(h.hash order by h.place desc))[1] as last_hash, (array_agg(h.aggregate order by h.place desc))[1] as last_aggregate,
               jsonb_agg(jsonb_build_object('hash', h.hash, 'aggregate', h.aggregate, 'sequence', coalesce(s.last_sequence, 0) + 1) order by h.place)
                   filter (where s.leased_until is null or s.leased_until <= moment) as wanted
          into walk
          from baton_internal.inbox_heads_adopted(box, after_hash, after_aggregate, piece) h
          left join baton_internal.inbox_sequences s on s.inbox = box.id and s.aggregate = h.aggregate
         where not wrapped or h.hash <= start;
        if walk.wanted is not null then
            chosen := chosen || baton_internal.pick_next_adopted(box, terms, moment, known.busy, arguments || jsonb_build_object('wanted', walk.wanted));
        end if;
        after_hash := walk.last_hash;
        after_aggregate := walk.last_aggregate;
        if walk.seen < piece then
            exit when wrapped;
            wrapped := true;
            after_hash := -9223372036854775808;
            after_aggregate := '';
        end if;
    end loop;
    return baton_internal.secure_aggregates(box, chosen, moment, batch, leased_until);
end
$$;
comment on function baton_internal.pick_ordered_adopted(baton.inboxes, baton_internal.inbox_terms, timestamptz, int, timestamptz) is
    'locks the messages that an ordered adopted table offers now';

-- Keep of the chosen messages those whose aggregate nobody else works on: the row in inbox_sequences decides. Rows that
-- another transaction holds are passed over; only the first claim of a new aggregate can be waited for.
create function baton_internal.secure_aggregates(box baton.inboxes, chosen jsonb, moment timestamptz, batch int, leased_until timestamptz)
returns text[]
language sql
as $$
    with chosen as materialized (
        select c.id, c.aggregate, c.sequence, c.place
          from rows from (jsonb_to_recordset(secure_aggregates.chosen) as (id text, aggregate text, sequence bigint)) with ordinality
               as c (id, aggregate, sequence, place) order by c.place limit batch
    ), idle as materialized (
        select s.aggregate from chosen c join baton_internal.inbox_sequences s on s.inbox = box.id and s.aggregate = c.aggregate
           for no key update of s skip locked
    ), secured as (
        insert into baton_internal.inbox_sequences as s (inbox, aggregate, last_sequence, event_id, leased_until)
        select distinct on (c.aggregate) box.id, c.aggregate, c.sequence - 1, c.id, secure_aggregates.leased_until from chosen c
         where c.aggregate in (select i.aggregate from idle i)
            or c.aggregate is not null and not exists (select 1 from baton_internal.inbox_sequences s where s.inbox = box.id and s.aggregate = c.aggregate)
         order by c.aggregate, c.sequence
        on conflict (inbox, aggregate) do update set event_id = excluded.event_id, leased_until = excluded.leased_until
         where (s.leased_until is null or s.leased_until <= moment)
           and (s.last_sequence = excluded.last_sequence
                or exists (select 1 from baton_internal.inbox_replays r where r.inbox = s.inbox and r.event_id = excluded.event_id))
        returning s.event_id
    )
    select array_agg(c.id order by c.place) from chosen c where c.aggregate is null or c.id in (select s.event_id from secured s)
$$;
comment on function baton_internal.secure_aggregates(baton.inboxes, jsonb, timestamptz, int, timestamptz) is 'leases the aggregates of chosen messages';
