-- Missing sequences and stalled aggregates of ordered inboxes, and switching order on and off.

-- Write the query of gaps_<inbox>: before the first unfinished message, between two, and right after what was
-- processed. A gap is as old as the first message that came after it in sequence. One walk along the index of
-- unfinished messages; what was processed last is looked up only where a message may stand behind a gap.
create function baton_internal.inbox_gaps_query(box baton.inboxes)
returns text
language plpgsql stable
as $$
begin
    return baton_internal.fill($query$
        select g.aggregate, greatest(g.previous, s.last_sequence, 0) + 1 as expected, g.found,
               greatest(least(extract(epoch from clock_timestamp()) - extract(epoch from g.known_since), 3153600000), 0)::float8 as gap_age_sec
          from (select {aggregate} as aggregate, {sequence}::bigint as found, lead({sequence}::bigint) over w as previous, min({received_at}) over w as known_since
                  from {relation} t where {ordered}
                window w as (partition by hashtextextended({aggregate}, 0), {aggregate} order by {sequence} desc rows unbounded preceding)) g
          left join baton_internal.inbox_sequences s on s.inbox = {inbox} and s.aggregate = g.aggregate
         where g.found > coalesce(g.previous, 0) + 1 and g.found > greatest(g.previous, s.last_sequence, 0) + 1$query$,
        baton_internal.inbox_parts(box, baton_internal.inbox_terms(box)) || jsonb_build_object('ordered', baton_internal.inbox_ordered_condition(box, 't.', true)));
end
$$;
comment on function baton_internal.inbox_gaps_query(baton.inboxes) is 'query behind gaps_<inbox>';

-- List the gaps of an inbox. Like the query above, with the table's part of it read as the table's owner.
create function baton_internal.inbox_gaps_of(box baton.inboxes)
returns table (aggregate text, expected bigint, found bigint, gap_age_sec float8)
language plpgsql
as $$
declare
    statement text := baton_internal.fill($query$
        select g.aggregate, g.found, g.previous, g.known_since
          from (select {aggregate} as aggregate, {sequence}::bigint as found, lead({sequence}::bigint) over w as previous,
                       (min({received_at}) over w)::timestamptz as known_since
                  from {relation} t where {ordered}
                window w as (partition by hashtextextended({aggregate}, 0), {aggregate} order by {sequence} desc rows unbounded preceding)) g
         where g.found > coalesce(g.previous, 0) + 1$query$,
        baton_internal.inbox_parts(box, baton_internal.inbox_terms(box)) || jsonb_build_object('ordered', baton_internal.inbox_ordered_condition(box, 't.')));
begin
    return query
    select g.aggregate, greatest(g.previous, s.last_sequence, 0) + 1, g.found,
           greatest(least(extract(epoch from clock_timestamp()) - extract(epoch from g.known_since), 3153600000), 0)::float8
      from baton_internal.run_as_owner(box.relation, statement) as g (aggregate text, found bigint, previous bigint, known_since timestamptz)
      left join baton_internal.inbox_sequences s on s.inbox = box.id and s.aggregate = g.aggregate
     where g.found > greatest(g.previous, s.last_sequence, 0) + 1;
end
$$;
comment on function baton_internal.inbox_gaps_of(baton.inboxes) is 'missing sequences of an ordered inbox';

-- Refuse what needs an ordered inbox on another.
create function baton_internal.check_inbox_is_ordered(box baton.inboxes)
returns void
language plpgsql immutable
as $$
begin
    if box.order_mode is null then
        raise exception 'inbox "%" is not ordered', box.name
            using errcode = 'BT004', hint = 'turn order on with baton.enable_inbox_ordering()';
    end if;
end
$$;
comment on function baton_internal.check_inbox_is_ordered(baton.inboxes) is 'raises BT004 unless the inbox is ordered';

-- Write the table's part of stalled_<inbox>: messages that are not due, or dead, and stand before another message of their aggregate. `later` says
-- of a message `t` that the message is not due. Whether a number is next in its sequence is for baton to say.
create function baton_internal.inbox_standing_sql(box baton.inboxes, terms baton_internal.inbox_terms, later text)
returns text
language plpgsql stable
as $$
declare
    parts jsonb := baton_internal.inbox_parts(box, terms) || jsonb_build_object(
        'later', later,
        'ordered', baton_internal.inbox_ordered_condition(box, 't.'),
        'place', case when box.order_mode = 'sequence' then 't.' || quote_ident(box.sequence_column) else 'null' end,
        'order', case when box.order_mode = 'sequence' then 't.' || quote_ident(box.sequence_column) else baton_internal.inbox_arrival_columns(box, 't.') end,
        'first_only', '');
begin
    if box.order_mode = 'arrival' then
        parts := parts || jsonb_build_object('first_only', format(' where c.key = (%s)',
            baton_internal.inbox_first_arrival_sql(box, terms, 'hashtextextended(c.aggregate, 0)', 'c.aggregate')));
    end if;
    return baton_internal.fill($query$
        select c.aggregate, c.reason, c.event_id, f.waiting_since::timestamptz as waiting_since, c.place
          from (select {aggregate} as aggregate, {key} as key, {id} as event_id, {place}::bigint as place,
                       case when {dead} then 'dead' when {retries} > 0 then 'retry' else 'scheduled' end as reason
                  from {relation} t where {unfinished} and {aggregate_column} is not null and ({later} or {dead})) c
         cross join lateral (
            select {received_at} as waiting_since from {relation} t
             where {ordered} and {pending} and hashtextextended({aggregate}, 0) = hashtextextended(c.aggregate, 0) and {aggregate} = c.aggregate
               and {key} <> c.key
             order by {order} limit 1) f{first_only}$query$, parts);
end
$$;
comment on function baton_internal.inbox_standing_sql(baton.inboxes, baton_internal.inbox_terms, text) is 'query for messages that hold up others';

-- Write the query of stalled_<inbox>: aggregates in which messages wait although nobody is at work there, since when the first of them
-- waits, and why: a number is missing ('gap'), a dead letter stands in a sequence ('dead'), the message whose turn it is waits for
-- its next attempt ('retry') or was sent for later ('scheduled'). Reads what is not due; for gaps, one walk along the index.
create function baton_internal.inbox_stalled_query(box baton.inboxes, terms baton_internal.inbox_terms)
returns text
language plpgsql stable
as $$
declare
    later constant text := case when box.layout = 'mapped'
        then 'exists (select 1 from baton_internal.inbox_work w where w.inbox = {inbox} and w.event_id = {id} and w.available_at > statement_timestamp())'
        else '{available} > statement_timestamp()' end;
    standing constant text := 'select {shown_aggregate} as aggregate, m.reason, {shown_id} as event_id, m.waiting_since from ({standing}) m';
    next_or_gap constant text := $query$
         where m.place = coalesce((select s.last_sequence from baton_internal.inbox_sequences s
                                    where s.inbox = {inbox} and s.aggregate = m.aggregate), 0) + 1
        union all
        select {shown_gap}, 'gap', null, statement_timestamp() - make_interval(secs => g.gap_age_sec) from ({gaps}) g
          left join baton_internal.inbox_sequences s on s.inbox = {inbox} and s.aggregate = g.aggregate
         where g.expected = coalesce(s.last_sequence, 0) + 1$query$;
    parts jsonb := baton_internal.inbox_parts(box, terms) || jsonb_build_object(
        'shown_aggregate', baton_internal.tenant_name_sql(box, 'm.aggregate'),
        'shown_id', baton_internal.tenant_name_sql(box, 'm.event_id'),
        'shown_gap', baton_internal.tenant_name_sql(box, 'g.aggregate'));
begin
    parts := parts || jsonb_build_object('standing', baton_internal.inbox_standing_sql(box, terms, baton_internal.fill(later, parts)));
    if box.order_mode = 'arrival' then
        return baton_internal.fill(standing, parts);
    end if;
    return baton_internal.fill(standing || next_or_gap, parts || jsonb_build_object('gaps', baton_internal.inbox_gaps_query(box)));
end
$$;
comment on function baton_internal.inbox_stalled_query(baton.inboxes, baton_internal.inbox_terms) is 'query behind stalled_<inbox>';

-- List the stalled aggregates of an inbox. Like the query above, with the table's part of it read as the table's owner.
create function baton_internal.inbox_stalled_of(box baton.inboxes)
returns table (aggregate text, reason text, event_id text, waiting_since timestamptz)
language sql
as $$
    select m.aggregate, m.reason, m.event_id, m.waiting_since
      from baton_internal.inbox_terms(box) terms
     cross join lateral baton_internal.run_as_owner(box.relation, baton_internal.inbox_standing_sql(box, terms,
               case when box.layout = 'mapped' then format('%s = any ($2)', terms.id) else terms.available || ' > $1' end), clock_timestamp(),
               array(select w.event_id from baton_internal.inbox_work w where w.inbox = box.id and w.available_at > clock_timestamp()))
               as m (aggregate text, reason text, event_id text, waiting_since timestamptz, place bigint)
      left join baton_internal.inbox_sequences s on s.inbox = box.id and s.aggregate = m.aggregate
     where box.order_mode = 'arrival' or m.place = coalesce(s.last_sequence, 0) + 1
    union all
    select g.aggregate, 'gap', null, clock_timestamp() - make_interval(secs => g.gap_age_sec)
      from baton_internal.inbox_gaps_of(box) g left join baton_internal.inbox_sequences s on s.inbox = box.id and s.aggregate = g.aggregate
     where box.order_mode = 'sequence' and g.expected = coalesce(s.last_sequence, 0) + 1
$$;
comment on function baton_internal.inbox_stalled_of(baton.inboxes) is 'stalled aggregates of an ordered inbox';

-- List the sequences that an ordered inbox misses.
create function baton.inbox_ordering_gaps(inbox text, path name[] default current_schemas(false))
returns table (aggregate text, expected bigint, found bigint, gap_age_sec float8)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    box baton.inboxes := baton_internal.need_tenant_inbox(inbox, path);
begin
    perform baton_internal.check_inbox_is_ordered(box);
    if box.order_mode = 'sequence' then  -- in order of arrival nothing can be missing
        return query select baton_internal.tenant_name(box, g.aggregate), g.expected, g.found, g.gap_age_sec
                       from baton_internal.inbox_gaps_of(box) g order by 1, 2;
    end if;
end
$$;
comment on function baton.inbox_ordering_gaps(text, name[]) is 'missing sequences: aggregate, first missing, next found, age in seconds';

-- Learn the last sequences from what the table holds: the highest processed one of each aggregate. Messages that
-- wait below it are offered out of turn, for else they would wait for ever.
create function baton_internal.learn_inbox_sequences(box baton.inboxes)
returns void
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box);
begin
    insert into baton_internal.inbox_sequences as s (inbox, aggregate, last_sequence)
    select box.id, r.aggregate, r.highest
      from baton_internal.run_as_owner(box.relation, format('select %1$s, max(t.%2$I)::bigint from %3$s t where %4$s and t.%5$I is not null'
               ' and t.%2$I is not null group by 1', terms.aggregate, box.sequence_column, box.relation, terms.done, box.aggregate_id_column))
           as r (aggregate text, highest bigint)
    on conflict (inbox, aggregate) do update set last_sequence = greatest(s.last_sequence, excluded.last_sequence), event_id = null, leased_until = null;
    insert into baton_internal.inbox_replays (inbox, event_id)
    select box.id, r.id
      from baton_internal.run_as_owner(box.relation, format('select %s, %s, t.%I::bigint from %s t where %s', terms.id, terms.aggregate,
               box.sequence_column, box.relation, terms.pending)) as r (id text, aggregate text, sequence bigint)
      join baton_internal.inbox_sequences s on s.inbox = box.id and s.aggregate = r.aggregate and r.sequence <= s.last_sequence
     where octet_length(r.id) <= baton_internal.longest_kept_id()
    on conflict do nothing;
end
$$;
comment on function baton_internal.learn_inbox_sequences(baton.inboxes) is 'fills inbox_sequences from processed messages';

-- Refuse a column that is missing or not of a kind.
create function baton_internal.check_inbox_column(box baton.inboxes, column_name text, purpose text, types text[])
returns name
language plpgsql stable
as $$
declare
    found_type regtype;
begin
    select a.atttypid into found_type from pg_attribute a
     where a.attrelid = box.relation and a.attname = column_name and a.attnum > 0 and not a.attisdropped;
    if not found then
        raise exception 'table % has no column "%"', box.relation, coalesce(column_name, 'null')
            using errcode = 'undefined_column', hint = format('name the column that holds the %s', purpose);
    elsif found_type <> all (types::regtype[]) then
        raise exception 'column "%" cannot hold the %: it is of type %', column_name, purpose, found_type
            using errcode = 'datatype_mismatch', hint = 'it must be one of: ' || array_to_string(types, ', ');
    end if;
    return column_name;
end
$$;
comment on function baton_internal.check_inbox_column(baton.inboxes, text, text, text[]) is 'raises unless the column exists with one of the types';

-- Make the indexes of an ordered inbox: one by aggregate and place in its order, one for messages without a place.
create function baton_internal.make_inbox_ordering_indexes(box baton.inboxes)
returns void
language plpgsql
as $$
declare
    parts jsonb := baton_internal.inbox_parts(box, baton_internal.inbox_terms(box, ''), '') || jsonb_build_object(
        'arrival', baton_internal.inbox_arrival_columns(box),
        'ordered', baton_internal.inbox_ordered_condition(box, ''));
begin
    perform baton_internal.make_inbox_index(box, 'ordering', '_' || box.order_mode, baton_internal.fill(
        case box.order_mode when 'arrival' then '(hashtextextended({aggregate}, 0), ({aggregate}), {arrival}) where {ordered}'
                            else '(hashtextextended({aggregate}, 0), ({aggregate}), {sequence} desc) include ({received_at}) where {ordered}' end, parts));
    perform baton_internal.make_inbox_index(box, 'ordering', '_unordered', baton_internal.fill(
        case box.order_mode when 'arrival' then '({due}) where {unfinished} and ({aggregate_column} is null)'
                            else '({due}) where {unfinished} and ({aggregate_column} is null or {sequence} is null)' end, parts));
end
$$;
comment on function baton_internal.make_inbox_ordering_indexes(baton.inboxes) is 'makes the partial indexes of an ordered inbox';

-- Refuse order where it cannot be; true when the inbox has this very order already.
create function baton_internal.check_inbox_order(box baton.inboxes, aggregate_id_col text, sequence_num_col text)
returns boolean
language plpgsql stable
as $$
begin
    perform baton_internal.check_inbox_change(box);
    perform baton_internal.check_inbox_is_queue(box);
    if box.priority_tiers is not null then
        raise exception 'inbox "%" has priorities, it cannot be ordered as well', box.name
            using errcode = 'invalid_parameter_value',
                  hint = 'call baton.disable_inbox_priority() first, or use an ordered inbox per priority';
    elsif box.order_mode is null then
        return false;
    elsif box.aggregate_id_column = aggregate_id_col
          and (box.order_mode = 'sequence' and box.sequence_column = sequence_num_col or box.order_mode = 'arrival' and sequence_num_col is null) then
        return true;
    end if;
    raise exception 'inbox "%" has another order', box.name
        using errcode = 'duplicate_object', hint = 'call baton.disable_inbox_ordering() first';
end
$$;
comment on function baton_internal.check_inbox_order(baton.inboxes, text, text) is 'raises when an inbox cannot have this order; true when it has the order already';

-- Keep order per aggregate from now on: by the numbers in a column, of which none may be missing, or, when no column is named, as
-- messages came.
create function baton.enable_inbox_ordering(inbox text, aggregate_id_col text default 'aggregate_id', sequence_num_col text default null,
                                            path name[] default current_schemas(false))
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
declare
    box baton.inboxes := baton_internal.need_inbox(inbox, path);
begin
    if baton_internal.check_inbox_order(box, aggregate_id_col, sequence_num_col) then
        return;
    end if;
    update baton.inboxes i
       set order_mode = case when sequence_num_col is null then 'arrival' else 'sequence' end,
           aggregate_id_column = baton_internal.check_inbox_column(box, aggregate_id_col, 'aggregate', '{text,character varying,uuid,bigint,integer,smallint}'),
           sequence_column = case when sequence_num_col is null then i.sequence_column
                                  else baton_internal.check_inbox_column(box, sequence_num_col, 'sequence', '{bigint,integer,smallint}') end
     where i.id = box.id returning i.* into box;
    perform baton_internal.lock_inbox_table(box, 'share row exclusive');
    if box.order_mode = 'sequence' then
        perform baton_internal.learn_inbox_sequences(box);
        perform baton_internal.make_inbox_ordering_trigger(box);
    else
        perform baton_internal.learn_inbox_leases(box);
        perform baton_internal.make_inbox_arrival_trigger(box);
    end if;
    perform baton_internal.make_inbox_ordering_indexes(box);
    perform baton_internal.make_inbox_views(box);
    perform baton_internal.make_inbox_ordering_views(box);
end
$$;
comment on function baton.enable_inbox_ordering(text, text, text, name[]) is
    'offers the messages of an aggregate one by one: by a column of numbers without gaps, or in order of arrival when no column is named';

-- Make an ordered inbox a plain one again. The last sequences are kept for the day it is ordered again.
create function baton.disable_inbox_ordering(inbox text, if_exists boolean default false, path name[] default current_schemas(false))
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
declare
    box baton.inboxes := baton_internal.need_inbox(inbox, path);
begin
    perform baton_internal.check_inbox_change(box);
    if box.order_mode is null then
        if if_exists then
            return;
        end if;
        perform baton_internal.check_inbox_is_ordered(box);
    end if;
    perform baton_internal.lock_inbox_table(box, 'access exclusive');
    perform baton_internal.drop_inbox_objects(box, 'ordering');
    delete from baton_internal.inbox_replays r where r.inbox = box.id;
    delete from baton_internal.inbox_sequences s where s.inbox = box.id and box.order_mode = 'arrival' and s.last_sequence = 0;
    update baton.inboxes i set order_mode = null where i.id = box.id returning i.* into box;
    perform baton_internal.make_inbox_views(box);
end
$$;
comment on function baton.disable_inbox_ordering(text, boolean, name[]) is 'makes an ordered inbox a plain one again';

-- Make dead letters of an aggregate's messages that wait at or below a sequence: their turn is past.
create function baton_internal.bury_inbox_messages(box baton.inboxes, aggregate text, up_to bigint, reason text)
returns bigint
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box);
    buried bigint;
begin
    if box.layout <> 'managed' then
        return baton_internal.change_as_owner(box.relation, format('update %s t set %s where %s and hashtextextended(%s, 0) ='
            ' hashtextextended($3 ->> ''aggregate'', 0) and %4$s = $3 ->> ''aggregate'' and t.%I <= ($3 ->> ''up_to'')::bigint'
            ' and (%s = any ($2)) is not true', box.relation, terms.fail, terms.pending, terms.aggregate, box.sequence_column, terms.id),
            clock_timestamp(), array(select r.event_id from baton_internal.inbox_replays r where r.inbox = box.id),
            jsonb_build_object('aggregate', aggregate, 'up_to', up_to, 'error', reason, 'permanent', true));
    end if;
    execute format('update %s t set %s where %s and hashtextextended(%s, 0) = hashtextextended($2, 0) and %4$s = $2 and t.%I <= $3'
                   ' and not exists (select 1 from baton_internal.inbox_replays r where r.inbox = %s and r.event_id = %s)',
                   box.relation, terms.fail, terms.pending, terms.aggregate, box.sequence_column, box.id, terms.id)
      using clock_timestamp(), aggregate, up_to, reason, true;
    get diagnostics buried = row_count;
    return buried;
end
$$;
comment on function baton_internal.bury_inbox_messages(baton.inboxes, text, bigint, text) is 'makes dead letters of messages whose sequence number has passed';

-- Skip to a sequence: the next one, or up to the one given. What is skipped stays as a dead letter. Returns the last sequence. In order
-- of arrival the message whose turn it is is skipped; returns 1, or 0 when none waits.
create function baton.advance_inbox_sequence(inbox text, aggregate text, to_sequence bigint default null, path name[] default current_schemas(false))
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    box baton.inboxes := baton_internal.need_tenant_inbox(inbox, path);
    key text;  -- of the aggregate
    last bigint;
begin
    perform baton_internal.check_inbox_is_ordered(box);
    perform baton_internal.check_inbox_grants(box, '{select,update}');
    if aggregate is null then
        raise exception 'an aggregate is needed' using errcode = 'invalid_parameter_value';
    elsif box.order_mode = 'arrival' and to_sequence is not null then
        raise exception 'inbox "%" is in order of arrival, it has no sequence to go to', box.name
            using errcode = 'invalid_parameter_value', hint = 'skip one message at a time: leave to_sequence out';
    elsif box.order_mode = 'arrival' then
        perform baton_internal.record_action('advance_inbox_sequence', format('%I.%I', box.schema_name, box.name), jsonb_build_object('aggregate', aggregate));
        return baton_internal.skip_inbox_arrival(box, baton_internal.inbox_aggregate_key(box, aggregate), format('skipped by %s with advance_inbox_sequence', session_user));
    end if;
    key := baton_internal.inbox_aggregate_key(box, aggregate);
    insert into baton_internal.inbox_sequences as s (inbox, aggregate, last_sequence) values (box.id, key, 0)
    on conflict on constraint inbox_sequences_pkey do nothing;
    select s.last_sequence into last from baton_internal.inbox_sequences s
     where s.inbox = box.id and s.aggregate = key for update;
    if to_sequence < last then
        raise exception 'aggregate "%" has reached sequence %, it cannot go back to %', aggregate, last, to_sequence
            using errcode = 'invalid_parameter_value', hint = 'replay single messages with baton.replay_inbox_messages()';
    end if;
    last := coalesce(to_sequence, last + 1);
    perform baton_internal.bury_inbox_messages(box, key, last, format('skipped by %s with advance_inbox_sequence', session_user));
    update baton_internal.inbox_sequences s set last_sequence = last, event_id = null, leased_until = null
     where s.inbox = box.id and s.aggregate = key;
    perform baton_internal.record_action('advance_inbox_sequence', format('%I.%I', box.schema_name, box.name), jsonb_build_object('aggregate', aggregate, 'sequence', last));
    return last;
end
$$;
comment on function baton.advance_inbox_sequence(text, text, bigint, name[]) is 'skips missing sequences of an aggregate, or the message that holds up the aggregate';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{enable_inbox_ordering,disable_inbox_ordering,advance_inbox_sequence}');
select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer,baton_consumer,baton_relay}', '{inbox_ordering_gaps}');
select baton_internal.declare_privileges('select', '{baton_operator,baton_relay}', '{inbox_sequences,inbox_replays}');
