-- Dead letters of everything: groups, adopted outboxes, inboxes. Each has a name by which the other functions find it again:
--   17           dead letter 17 of a group
--   inbox:3:abc  message abc of the inbox with the number 3
--   outbox:2:77  row 77 of the adopted outbox with the number 2

-- One source of dead letters, the latest first: those before a moment, and of the same moment those whose order comes before `before`; or one by
-- its id. A table that the caller may not read is left out, and so is one that is gone; one that cannot be read now, too, unless it is asked for alone.
create function baton_internal.dead_letters_of(kind text, number int, place text, id text, type text, moment timestamptz, before text, most int,
                                                wanted jsonb, alone boolean)
returns table (letter text, event_offset bigint, event_id text, tenant_id text, event_type text, aggregate_id text, key text, attempts int, error text,
               died_at timestamptz, payload jsonb, headers jsonb, failures jsonb, sort_moment timestamptz, sort_text text)
language plpgsql
set lock_timeout = '1s'
as $$
begin
    if kind = 'group' then
        return query select d.id::text, d.event_offset, d.event_id::text, d.tenant_id, d.event_type, d.aggregate_id, d.key, d.attempts, d.error, d.died_at, d.payload, d.headers,
                            d.failures, d.died_at, d.id::text
                       from baton.dead_letters d
                      where d.group_name = place and (dead_letters_of.id is null or d.id::text = dead_letters_of.id) and (type is null or d.event_type = type)
                        and (wanted ->> 'since' is null or d.died_at >= (wanted ->> 'since')::timestamptz) and (wanted ->> 'until' is null or d.died_at < (wanted ->> 'until')::timestamptz)
                        and (wanted ->> 'error' is null or strpos(lower(d.error), lower(wanted ->> 'error')) > 0)
                        and (wanted ->> 'key' is null or d.key = wanted ->> 'key') and (wanted ->> 'tenant' is null or d.tenant_id = wanted ->> 'tenant')
                        and (moment is null or (d.died_at, d.id::text collate "C") < (moment, before collate "C"))
                      order by d.died_at desc, d.id::text collate "C" desc limit most;
    elsif kind = 'inbox' then
        return query select pg_catalog.format('inbox:%s:%s', number, m.event_id), null::bigint, m.event_id, m.tenant_id, m.event_type, m.aggregate_id, m.aggregate_id, m.attempts,
                            m.error, m.received_at, m.payload, m.headers, m.failures, baton_internal.moment_of_cursor(m.cursor), substr(m.cursor, strpos(m.cursor, ':') + 1)
                       from baton.inbox_messages(place, 'dead', id => dead_letters_of.id, type => type, most => dead_letters_of.most,
                                                 after => baton_internal.moment_as_number(moment) || ':' || before, aggregate => wanted ->> 'key',
                                                 since => (wanted ->> 'since')::timestamptz, until => (wanted ->> 'until')::timestamptz, error_part => wanted ->> 'error',
                                                 tenant => wanted ->> 'tenant') m
                      where m.state = 'dead';
    else
        return query select pg_catalog.format('outbox:%s:%s', number, a.id), null::bigint, a.event_id, a.tenant_id, a.event_type, a.aggregate_id, a.aggregate_id, a.attempt - 1,
                            a.error, a.occurred_at, a.payload, a.headers, '[]'::jsonb, baton_internal.page_moment(a.occurred_at), a.id
                       from (select (r.event).*, r.error
                               from baton_internal.dead_rows(number, most, pg_catalog.array_remove(array[dead_letters_of.id], null),
                                        wanted || pg_catalog.jsonb_build_object('latest', true, 'event_type', type, 'moment', moment, 'before', before)) r) a;
    end if;
exception
    when insufficient_privilege or undefined_table or undefined_column then
        return;
    when others then  -- a neighbour that is broken, or that somebody has locked, hides no other
        if alone then
            raise;
        end if;
        raise warning '% is left out: %', place, sqlerrm;
end
$$;
comment on function baton_internal.dead_letters_of(text, int, text, text, text, timestamptz, text, int, jsonb, boolean) is 'dead letters of a group, an inbox or an adopted outbox';

-- List dead letters, the latest first. `after` is the cursor of the last one seen; `named` asks for one by its name. An inbox and an adopted table
-- do not say when a message died: there it is when the message came. An error is found by any part of it. The latest failed attempts stand in
-- `failures`, but not of adopted tables, which have one place for an error.
create function baton.all_dead_letters(in_place text default null, of_kind text default null, type text default null, after text default null, most int default 100,
                                       named text default null, since timestamptz default null, until timestamptz default null, error_part text default null,
                                       in_key text default null, tenant text default null)
returns table (letter text, kind text, place text, event_offset bigint, event_id text, tenant_id text, event_type text, aggregate_id text, key text, attempts int, error text,
               died_at timestamptz, payload jsonb, headers jsonb, failures jsonb, cursor text)
language plpgsql
as $$
declare
    last_sort constant text := substr(after, strpos(after, ':') + 1);
    last_moment timestamptz;
begin
    if after !~ '^-?[0-9]{1,18}:' then
        raise exception '"%" is no cursor', after using errcode = 'invalid_parameter_value', hint = 'give the column cursor of the last row seen';
    end if;
    last_moment := baton_internal.moment_of_cursor(after);
    return query
        select d.letter, s.kind, s.place, d.event_offset, d.event_id, d.tenant_id, d.event_type, d.aggregate_id, d.key, d.attempts, d.error, d.died_at, d.payload, d.headers,
               d.failures, baton_internal.moment_as_number(d.sort_moment) || ':' || s.prefix || d.sort_text
          from (select p.*, case when p.kind = 'group' then '' else p.kind || ':' || p.number || ':' end as prefix
                  from (select 'group' as kind, g.group_id as number, g.group_name as place
                          from baton.dead_letter_depth x join baton.consumer_groups g using (group_name) where x.dead_letters > 0
                        union all
                        select 'inbox', i.id, pg_catalog.format('%I.%I', i.schema_name, i.name) from baton.inboxes i
                        union all
                        select 'outbox', a.outbox_id, pg_catalog.format('%I.%I', a.schema_name, a.table_name) from baton.adopted_outboxes a) p) s
         cross join lateral (select case when named is null or s.kind = 'group' then named else substr(named, length(s.prefix) + 1) end as id,
                                    -- letters of the same moment are sorted by their places: those of this one come all before, all behind, or are divided
                                    case when last_sort collate "C" > s.prefix collate "C" and not starts_with(last_sort, s.prefix)
                                         then last_moment + interval '1 microsecond' else last_moment end as moment,
                                    case when after is null then null when starts_with(last_sort, s.prefix) then substr(last_sort, length(s.prefix) + 1) else '' end as before) f
         cross join lateral baton_internal.dead_letters_of(s.kind, s.number, s.place, f.id, type, f.moment, f.before, most,
             pg_catalog.jsonb_build_object('since', since, 'until', until, 'error', error_part, 'key', in_key, 'tenant', tenant), in_place is not null or named is not null) d
         where (in_place is null or s.place = in_place or s.kind <> 'group' and baton_internal.known_table(s.place) = baton_internal.known_table(in_place))
           and (of_kind is null or s.kind = of_kind)
           and (named is null or case when s.kind = 'group' then named ~ '^[0-9]+$' else starts_with(named, s.prefix) end)
         order by d.sort_moment desc, s.prefix || d.sort_text collate "C" desc limit most;
end
$$;
comment on function baton.all_dead_letters(text, text, text, text, int, text, timestamptz, timestamptz, text, text, text) is 'dead letters of groups, inboxes and adopted outboxes';

select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer}', '{all_dead_letters,dead_letters_of}');
