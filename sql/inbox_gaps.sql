-- Missing sequences of ordered inboxes, and switching order on and off.

-- Write the query of gaps_<inbox>: before the first unfinished message, between two, and right after what was
-- processed. A gap is as old as the first message that came after it in sequence. One walk along the index of
-- unfinished messages; what was processed last is looked up only where a message may stand behind a gap.
create function baton_internal.inbox_gaps_query(it baton.inboxes)
returns text
language sql stable
as $$
    select format($query$
        select g.aggregate, greatest(g.previous, s.last_sequence, 0) + 1 as expected, g.found,
               extract(epoch from clock_timestamp() - g.known_since)::float8 as gap_age_sec
          from (select t.%1$I::text as aggregate, t.%2$I::bigint as found, lead(t.%2$I::bigint) over w as previous, min(t.%3$I) over w as known_since
                  from %4$s t where %5$s
                window w as (partition by hashtextextended(t.%1$I::text, 0), t.%1$I::text order by t.%2$I desc rows unbounded preceding)) g
          left join baton_internal.inbox_sequences s on s.inbox = %6$s and s.aggregate = g.aggregate
         where g.found > coalesce(g.previous, 0) + 1 and g.found > greatest(g.previous, s.last_sequence, 0) + 1$query$,
        it.aggregate_id_column, it.sequence_column, it.received_at_column, it.relation, baton_internal.inbox_ordered_condition(it, 't.'), it.id)
$$;
comment on function baton_internal.inbox_gaps_query(baton.inboxes) is 'query behind gaps_<inbox>';

-- List the gaps of an inbox. Like the query above, with the table's part of it read as the table's owner.
create function baton_internal.inbox_gaps_of(it baton.inboxes)
returns table (aggregate text, expected bigint, found bigint, gap_age_sec float8)
language sql
as $$
    select g.aggregate, greatest(g.previous, s.last_sequence, 0) + 1, g.found, extract(epoch from clock_timestamp() - g.known_since)::float8
      from baton_internal.run_as_owner(it.relation, format($query$
               select g.aggregate, g.found, g.previous, g.known_since
                 from (select t.%1$I::text as aggregate, t.%2$I::bigint as found, lead(t.%2$I::bigint) over w as previous,
                              (min(t.%3$I) over w)::timestamptz as known_since
                         from %4$s t where %5$s
                       window w as (partition by hashtextextended(t.%1$I::text, 0), t.%1$I::text order by t.%2$I desc rows unbounded preceding)) g
                where g.found > coalesce(g.previous, 0) + 1$query$,
               it.aggregate_id_column, it.sequence_column, it.received_at_column, it.relation, baton_internal.inbox_ordered_condition(it, 't.')))
           as g (aggregate text, found bigint, previous bigint, known_since timestamptz)
      left join baton_internal.inbox_sequences s on s.inbox = it.id and s.aggregate = g.aggregate
     where g.found > greatest(g.previous, s.last_sequence, 0) + 1
$$;
comment on function baton_internal.inbox_gaps_of(baton.inboxes) is 'missing sequences of an ordered inbox';

-- Refuse what needs an ordered inbox on another.
create function baton_internal.check_inbox_is_ordered(it baton.inboxes)
returns void
language plpgsql immutable
as $$
begin
    if not it.ordering_enabled then
        raise exception 'inbox "%" is not ordered', it.name
            using errcode = 'BT004', hint = 'turn order on with baton.enable_inbox_ordering()';
    end if;
end
$$;
comment on function baton_internal.check_inbox_is_ordered(baton.inboxes) is 'raises BT004 unless the inbox is ordered';

-- List the sequences that an ordered inbox misses.
create function baton.inbox_ordering_gaps(inbox text, path name[] default current_schemas(false))
returns table (aggregate text, expected bigint, found bigint, gap_age_sec float8)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    it baton.inboxes := baton_internal.need_inbox(inbox, path);
begin
    perform baton_internal.check_inbox_is_ordered(it);
    return query select g.* from baton_internal.inbox_gaps_of(it) g order by 1, 2;
end
$$;
comment on function baton.inbox_ordering_gaps(text, name[]) is 'missing sequences: aggregate, first missing, next found, age in seconds';

-- Learn the last sequences from what the table holds: the highest processed one of each aggregate. Messages that
-- wait below it are offered out of turn, for else they would wait for ever.
create function baton_internal.learn_inbox_sequences(it baton.inboxes)
returns void
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(it);
begin
    insert into baton_internal.inbox_sequences as s (inbox, aggregate, last_sequence)
    select it.id, r.aggregate, r.highest
      from baton_internal.run_as_owner(it.relation, format('select t.%1$I::text, max(t.%2$I)::bigint from %3$s t where %4$s and t.%1$I is not null'
               ' and t.%2$I is not null group by 1', it.aggregate_id_column, it.sequence_column, it.relation, terms.done))
           as r (aggregate text, highest bigint)
    on conflict (inbox, aggregate) do update set last_sequence = greatest(s.last_sequence, excluded.last_sequence), event_id = null, leased_until = null;
    insert into baton_internal.inbox_replays (inbox, event_id)
    select it.id, r.id
      from baton_internal.run_as_owner(it.relation, format('select %s, t.%I::text, t.%I::bigint from %s t where %s', terms.id, it.aggregate_id_column,
               it.sequence_column, it.relation, terms.pending)) as r (id text, aggregate text, sequence bigint)
      join baton_internal.inbox_sequences s on s.inbox = it.id and s.aggregate = r.aggregate and r.sequence <= s.last_sequence
    on conflict do nothing;
end
$$;
comment on function baton_internal.learn_inbox_sequences(baton.inboxes) is 'fills inbox_sequences from processed messages';

-- Refuse a column that is missing or not of a kind.
create function baton_internal.check_inbox_column(it baton.inboxes, column_name text, purpose text, types text[])
returns name
language plpgsql stable
as $$
declare
    type_name text;
begin
    select format_type(a.atttypid, null) into type_name from pg_attribute a
     where a.attrelid = it.relation and a.attname = column_name and a.attnum > 0 and not a.attisdropped;
    if not found then
        raise exception 'table % has no column "%"', it.relation, coalesce(column_name, 'null')
            using errcode = 'undefined_column', hint = format('name the column that holds the %s', purpose);
    elsif type_name <> all (types) then
        raise exception 'column "%" cannot hold the %: it is of type %', column_name, purpose, type_name
            using errcode = 'datatype_mismatch', hint = 'it must be one of: ' || array_to_string(types, ', ');
    end if;
    return column_name;
end
$$;
comment on function baton_internal.check_inbox_column(baton.inboxes, text, text, text[]) is 'raises unless the column exists with one of the types';

-- Make or remake the indexes of an ordered inbox: one by aggregate and sequence, one for messages without a place.
create function baton_internal.make_inbox_ordering_indexes(it baton.inboxes)
returns void
language plpgsql
as $$
begin
    perform baton_internal.drop_inbox_objects(it, 'ordering', 'index');
    perform baton_internal.make_inbox_index(it, 'ordering', '_sequence',
        format('(hashtextextended(%1$I::text, 0), (%1$I::text), %2$I desc) include (%3$I) where %4$s', it.aggregate_id_column, it.sequence_column,
               it.received_at_column, baton_internal.inbox_ordered_condition(it, '')));
    perform baton_internal.make_inbox_index(it, 'ordering', '_unordered',
        format('(%s) where %s and (%I is null or %I is null)', (baton_internal.inbox_terms(it, '')).due, (baton_internal.inbox_terms(it, '')).unfinished, it.aggregate_id_column, it.sequence_column));
end
$$;
comment on function baton_internal.make_inbox_ordering_indexes(baton.inboxes) is 'makes the partial indexes of an ordered inbox';

-- Offer messages in sequence per aggregate from now on.
create function baton.enable_inbox_ordering(inbox text, aggregate_id_col text default 'aggregate_id', sequence_num_col text default 'sequence_num',
                                            path name[] default current_schemas(false))
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    it baton.inboxes := baton_internal.need_inbox(inbox, path);
begin
    perform baton_internal.check_inbox_change(it);
    perform baton_internal.check_inbox_is_queue(it);
    if it.priority_tiers is not null then
        raise exception 'inbox "%" has priorities, it cannot be ordered as well', it.name
            using errcode = 'invalid_parameter_value',
                  hint = 'call baton.disable_inbox_priority() first, or use an ordered inbox per priority';
    elsif it.ordering_enabled then
        if it.aggregate_id_column = aggregate_id_col and it.sequence_column = sequence_num_col then
            return;
        end if;
        raise exception 'inbox "%" is ordered by other columns', it.name
            using errcode = 'duplicate_object', hint = 'call baton.disable_inbox_ordering() first';
    end if;
    update baton.inboxes i
       set ordering_enabled = true,
           aggregate_id_column = baton_internal.check_inbox_column(it, aggregate_id_col, 'aggregate', '{text,character varying,uuid,bigint,integer,smallint}'),
           sequence_column = baton_internal.check_inbox_column(it, sequence_num_col, 'sequence', '{bigint,integer,smallint}')
     where i.id = it.id returning i.* into it;
    execute format('lock table %s in share row exclusive mode', it.relation);
    perform baton_internal.learn_inbox_sequences(it);
    perform baton_internal.make_inbox_ordering_indexes(it);
    perform baton_internal.make_inbox_ordering_trigger(it);
    perform baton_internal.make_inbox_views(it);
    perform baton_internal.make_inbox_ordering_views(it);
end
$$;
comment on function baton.enable_inbox_ordering(text, text, text, name[]) is 'offers only the next message of each aggregate; makes next_ and gaps_ views';

-- Make an ordered inbox a plain one again. The last sequences are kept for the day it is ordered again.
create function baton.disable_inbox_ordering(inbox text, if_exists boolean default false, path name[] default current_schemas(false))
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    it baton.inboxes := baton_internal.need_inbox(inbox, path);
begin
    perform baton_internal.check_inbox_change(it);
    if not it.ordering_enabled then
        if if_exists then
            return;
        end if;
        perform baton_internal.check_inbox_is_ordered(it);
    end if;
    perform baton_internal.drop_inbox_objects(it, 'ordering');
    delete from baton_internal.inbox_replays r where r.inbox = it.id;
    update baton.inboxes i set ordering_enabled = false where i.id = it.id returning i.* into it;
    perform baton_internal.make_inbox_views(it);
end
$$;
comment on function baton.disable_inbox_ordering(text, boolean, name[]) is 'makes an ordered inbox a plain one again';

-- Make dead letters of an aggregate's messages that wait at or below a sequence: their turn is past.
create function baton_internal.bury_inbox_messages(it baton.inboxes, aggregate text, up_to bigint, reason text)
returns bigint
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(it);
    buried bigint;
begin
    if it.layout <> 'managed' then
        return baton_internal.change_as_owner(it.relation, format('update %s t set %s where %s and hashtextextended(t.%I::text, 0) ='
            ' hashtextextended($3 ->> ''aggregate'', 0) and t.%4$I::text = $3 ->> ''aggregate'' and t.%I <= ($3 ->> ''up_to'')::bigint'
            ' and (%s = any ($2)) is not true', it.relation, terms.fail, terms.pending, it.aggregate_id_column, it.sequence_column, terms.id),
            clock_timestamp(), array(select r.event_id from baton_internal.inbox_replays r where r.inbox = it.id),
            jsonb_build_object('aggregate', aggregate, 'up_to', up_to, 'error', reason, 'permanent', true));
    end if;
    execute format('update %s t set %s where %s and hashtextextended(t.%I::text, 0) = hashtextextended($2, 0) and t.%4$I::text = $2 and t.%I <= $3'
                   ' and not exists (select 1 from baton_internal.inbox_replays r where r.inbox = %s and r.event_id = %s)',
                   it.relation, terms.fail, terms.pending, it.aggregate_id_column, it.sequence_column, it.id, terms.id)
      using clock_timestamp(), aggregate, up_to, reason, true;
    get diagnostics buried = row_count;
    return buried;
end
$$;
comment on function baton_internal.bury_inbox_messages(baton.inboxes, text, bigint, text) is 'turns messages whose sequence has passed into dead letters';

-- Skip to a sequence: the next one, or up to the one given. What is skipped stays as a dead letter. Returns the last sequence.
create function baton.advance_inbox_sequence(inbox text, aggregate text, to_sequence bigint default null, path name[] default current_schemas(false))
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    it baton.inboxes := baton_internal.need_inbox(inbox, path);
    last bigint;
begin
    perform baton_internal.check_inbox_is_ordered(it);
    perform baton_internal.check_inbox_grants(it, '{select,update}');
    if aggregate is null then
        raise exception 'an aggregate is needed' using errcode = 'invalid_parameter_value';
    end if;
    insert into baton_internal.inbox_sequences as s (inbox, aggregate, last_sequence) values (it.id, advance_inbox_sequence.aggregate, 0)
    on conflict on constraint inbox_sequences_pkey do nothing;
    select s.last_sequence into last from baton_internal.inbox_sequences s
     where s.inbox = it.id and s.aggregate = advance_inbox_sequence.aggregate for update;
    if to_sequence < last then
        raise exception 'aggregate "%" has reached sequence %, it cannot go back to %', aggregate, last, to_sequence
            using errcode = 'invalid_parameter_value', hint = 'replay single messages with baton.replay_inbox_messages()';
    end if;
    last := coalesce(to_sequence, last + 1);
    perform baton_internal.bury_inbox_messages(it, aggregate, last, format('skipped by %s with advance_inbox_sequence', session_user));
    update baton_internal.inbox_sequences s set last_sequence = last, event_id = null, leased_until = null
     where s.inbox = it.id and s.aggregate = advance_inbox_sequence.aggregate;
    return last;
end
$$;
comment on function baton.advance_inbox_sequence(text, text, bigint, name[]) is 'skips missing or poisoned sequences of an aggregate';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{enable_inbox_ordering,disable_inbox_ordering,advance_inbox_sequence}');
select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer,baton_consumer,baton_relay}', '{inbox_ordering_gaps}');
select baton_internal.declare_privileges('select', '{baton_operator,baton_viewer,baton_relay}', '{inbox_sequences,inbox_replays}');
