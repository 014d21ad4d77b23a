-- Searching all outboxes at once: baton's own, and adopted tables.

-- The latest events of one outbox that fit, behind a place: in an own outbox an offset, in an adopted one a moment and the id of a row. A table that the caller may not
-- read is left out, and so is one that is gone; one that cannot be read now, too, unless it is asked for alone.
create function baton_internal.events_of(adopted boolean, number int, relation text, type text, in_key text, since timestamptz, until timestamptz, place text, most int,
                                         alone boolean)
returns table ("offset" bigint, "row" text, event_id text, event_type text, aggregate_type text, aggregate_id text, key text, topic text, tenant_id text, trace_id text,
               occurred_at timestamptz, payload json, headers jsonb, place_behind text)
language plpgsql
set lock_timeout = '1s'
as $$
begin
    if not adopted then
        return query select e.offset, null::text, e.event_id::text, e.event_type, e.aggregate_type, e.aggregate_id, e.key, e.topic, e.tenant_id, e.trace_id, e.occurred_at,
                            e.payload, e.headers, e.offset::text
                       from baton.search_events(relation::regclass, type, in_key, since, until, place::bigint, most) e;
    else
        return query select null::bigint, a.id, a.event_id, a.event_type, a.aggregate_type, a.aggregate_id, coalesce(a.partition_key, a.aggregate_id), a.topic, a.tenant_id, a.trace_id,
                            a.occurred_at, a.payload::json, a.headers, baton_internal.moment_as_number(baton_internal.page_moment(a.occurred_at)) || ':' || a.id
                       from (select (r.event).*
                               from baton_internal.adopted_rows_wanted(number, wanted => pg_catalog.jsonb_build_object('type', type, 'key', in_key, 'since', since, 'until', until,
                                        'moment', baton_internal.moment_of_cursor(place), 'before', substr(place, strpos(place, ':') + 1)), most => events_of.most) r) a;
    end if;
exception
    when insufficient_privilege or undefined_table or undefined_column then
        return;
    when others then  -- a neighbour that is broken, or that somebody has locked, hides no other
        if alone then
            raise;
        end if;
        raise warning '% is left out: %', relation, sqlerrm;
end
$$;
comment on function baton_internal.events_of(boolean, int, text, text, text, timestamptz, timestamptz, text, int, boolean) is 'the latest events of one outbox that fit, behind a place';

-- Search outboxes, the latest first; all, or one. Every outbox keeps its own order: an event never stands before another one of its outbox that is behind it there.
-- `after` is the cursor of the last event seen. What comes meanwhile may stand on a later page, if nothing of its outbox was on one yet.
create function baton.search_all_events(in_outbox text default null, type text default null, in_key text default null, since timestamptz default null, until timestamptz default null,
                                        after text default null, most int default 100)
returns table (outbox text, kind text, "offset" bigint, "row" text, event_id text, event_type text, aggregate_type text, aggregate_id text, key text, topic text, tenant_id text,
               trace_id text, occurred_at timestamptz, payload json, headers jsonb, cursor text)
language plpgsql
as $$
declare
    places jsonb := '{}';
begin
    if after is not null then
        begin
            places := after::jsonb;
        exception when data_exception then
            places := null;
        end;
        if jsonb_typeof(places) is distinct from 'object'
           or exists (select from jsonb_each_text(places) p where p.key !~ '^[oa][0-9]{1,9}$' or p.value !~ case when p.key like 'o%' then '^[0-9]{1,18}$' else '^-?[0-9]{1,18}:' end) then
            raise exception '"%" is no cursor', left(after, 100) using errcode = 'invalid_parameter_value', hint = 'give the column cursor of the last row seen';
        end if;
    end if;
    return query
        with boxes as (
            select false as adopted, o.outbox_id as number, o.relation::text as relation, 'managed' as kind, 'o' || o.outbox_id as mark
              from baton.outboxes o join pg_catalog.pg_class c on c.oid = o.relation
             where has_table_privilege(o.relation, 'select') and (in_outbox is null or o.relation = baton_internal.known_table(in_outbox))
            union all
            select true, a.outbox_id, pg_catalog.format('%I.%I', a.schema_name, a.table_name), 'adopted', 'a' || a.outbox_id
              from baton.adopted_outboxes a
             where in_outbox is null or baton_internal.known_table(pg_catalog.format('%I.%I', a.schema_name, a.table_name)) = baton_internal.known_table(in_outbox)),
        found_events as (
            select b.relation, b.kind, b.mark, e.*, min(baton_internal.page_moment(e.occurred_at)) over (partition by b.mark order by e.nth) as moment
              from boxes b
             cross join lateral (select f.*, row_number() over () as nth
                                   from baton_internal.events_of(b.adopted, b.number, b.relation, type, in_key, since, until, places ->> b.mark, most, in_outbox is not null) f) e),
        shown as (
            select f.*, row_number() over (order by f.moment desc, f.mark, f.nth) as turn from found_events f order by turn limit most)
        select s.relation, s.kind, s.offset, s.row, s.event_id, s.event_type, s.aggregate_type, s.aggregate_id, s.key, s.topic, s.tenant_id, s.trace_id, s.occurred_at, s.payload, s.headers,
               (places || (jsonb_object_agg(s.mark, s.place_behind) over (order by s.turn)))::text
          from shown s order by s.turn;
end
$$;
comment on function baton.search_all_events(text, text, text, timestamptz, timestamptz, text, int) is 'events of all outboxes, adopted ones too, by type, key and time';

select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer}', '{events_of,search_all_events}');
