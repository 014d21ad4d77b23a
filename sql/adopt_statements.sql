-- Statements: what is run for a worker, made once at adoption and kept in baton.adopted_outboxes. $2 are the ids of rows, in a claim of
-- those that are not due yet; $3 holds the rest: worker, batch or limit, error, permanent, the leases of workers in seconds, and the
-- attempts so far of rows whose table does not count them.

-- Write the order in which rows are taken, and with the id after it, the order in which they are given. Taking
-- goes without the id, so that an index on the order alone is enough and a long backlog need not be sorted.
create function baton_internal.order_sql(layout jsonb, with_id boolean)
returns text
language sql immutable
as $$
    select string_agg(baton_internal.role_column(layout, r), ', ' order by n)
      from jsonb_array_elements_text((layout -> 'order') || case when with_id and not layout -> 'order' ? 'id' then '["id"]'::jsonb else '[]' end)
           with ordinality o (r, n)
$$;
comment on function baton_internal.order_sql(jsonb, boolean) is 'order by clause of a layout';

-- Write the match of two aliases by the columns that identify a row.
create function baton_internal.key_match(key text[], one text, other text)
returns text
language sql immutable
as $$ select string_agg(format('%1$s.%3$I = %2$s.%3$I', one, other, k), ' and ') from unnest(key) k $$;
comment on function baton_internal.key_match(text[], text, text) is 'join condition on a row''s identity';

-- Write a list of columns, qualified by an alias where one is given.
create function baton_internal.column_list(names text[], alias text default null)
returns text
language sql immutable
as $$ select string_agg(coalesce(alias || '.', '') || quote_ident(c), ', ' order by n) from unnest(names) with ordinality u (c, n) $$;
comment on function baton_internal.column_list(text[], text) is 'quoted, comma-separated columns';

-- Write the claim: row locks that last as long as the transaction, or lock columns that last for the lease. A
-- relay's claim gives the payload as it is, and leaves out keys that wait for an earlier event.
create function baton_internal.claim_statement(relation regclass, layout jsonb, for_relay boolean default false)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    f jsonb := baton_internal.adopted_fragments(relation, layout);
    key text[] := baton_internal.adopted_key(relation, baton_internal.mapped_column(layout, 'id'));
    event text := baton_internal.event_sql(relation, layout, f ->> 'attempts');
    events text := case when for_relay then baton_internal.relay_event_sql(relation, layout) else event end;
    widened text := case when for_relay then format(' cross join lateral (select %s) e', event) else '' end;
    due text := concat_ws(' and ', f ->> 'due', case when for_relay then baton_internal.unheld_sql(layout, f ->> 'row_id') end);
    ordering text := baton_internal.order_sql(layout, false);
    given text := baton_internal.order_sql(layout, true);
    locked text := baton_internal.role_column(layout, 'locked_at');
    has_claimed boolean := coalesce(layout -> 'states', '{}') ? 'claimed';
    held text;
    claimed text;
begin
    if locked is null then
        claimed := format('(select t.* from %s t where %s order by %s limit ($3 ->> ''batch'')::int for update of t skip locked)', relation, due, ordering);
        return format('select %s from %s%s order by %s', events,
                      case when for_relay then baton_internal.measured_rows_sql(relation, layout, claimed) else claimed || ' t' end, widened, given);
    end if;
    held := case when has_claimed then format('%s = %s', baton_internal.role_column(layout, 'status'), baton_internal.state_literal(layout, 'claimed'))
                           || case when for_relay then ' and ' || baton_internal.unheld_sql(layout, f ->> 'row_id') else '' end
                 else due end;
    return format('with stale as (select %s from %s t where %s order by %s limit ($3 ->> ''batch'')::int for update of t skip locked), '
                  'fresh as (select %s from %s t where %s order by %s '
                  'limit greatest(($3 ->> ''batch'')::int - (select count(*) from stale), 0) for update of t skip locked), '
                  'claimed as (update %s t set %s from (select * from stale union all select * from fresh) p where %s returning t.*) '
                  'select %s from %s%s order by %s',
                  baton_internal.column_list(key, 't'), relation, held || ' and ' || baton_internal.stale_sql(layout), ordering,
                  baton_internal.column_list(key, 't'), relation,
                  due || case when has_claimed then '' else ' and ' || locked || ' is null' end, ordering,
                  relation, concat_ws(', ', format('%I = clock_timestamp()', layout #>> '{columns,locked_at}'),
                                      baton_internal.sql_part('%I = $3 ->> ''worker''', layout #>> '{columns,locked_by}'),
                                      baton_internal.sql_part('%I = now()', layout #>> '{columns,updated_at}'),
                                      case when has_claimed then format('%I = %s', layout #>> '{columns,status}',
                                                                        baton_internal.state_literal(layout, 'claimed')) end),
                  baton_internal.key_match(key, 't', 'p'), events,
                  case when for_relay then baton_internal.measured_rows_sql(relation, layout, 'claimed') else 'claimed t' end, widened, given);
end
$$;
comment on function baton_internal.claim_statement(regclass, jsonb, boolean) is 'statement that claims a batch';

-- Write when a lock is stale: its worker's lease is over, or the layout's timeout for a worker unknown to baton. One that was taken in an hour was
-- taken while the clock was ahead.
create function baton_internal.stale_sql(layout jsonb)
returns text
language sql immutable
as $$
    select format('%1$s is not null and (%1$s < clock_timestamp() - coalesce(%3$s, interval %2$L) or %1$s > clock_timestamp() + interval ''1 hour'')',
                  baton_internal.role_column(layout, 'locked_at'), coalesce(layout #>> '{locks,timeout}', '5 minutes'),
                  coalesce(baton_internal.sql_part('make_interval(secs => ($3 -> ''leases'' ->> %s::text)::float8)',
                                                   baton_internal.role_column(layout, 'locked_by')), 'null::interval'))
$$;
comment on function baton_internal.stale_sql(jsonb) is 'condition of a stale lock';

-- Write the condition that the row belongs to the worker, where the table knows that.
create function baton_internal.fence_sql(layout jsonb)
returns text
language sql immutable
as $$
    select coalesce(baton_internal.sql_part('($3 ->> ''worker'' is null or %s = $3 ->> ''worker'')', baton_internal.role_column(layout, 'locked_by')), 'true')
$$;
comment on function baton_internal.fence_sql(jsonb) is 'condition that a worker still holds a row';

-- Write the acknowledgement: the rows are done, or deleted where the layout says so.
create function baton_internal.ack_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    f jsonb := baton_internal.adopted_fragments(relation, layout);
    change text := case when layout #>> '{done,as}' = 'delete' then format('delete from %s t', relation)
                        else format('update %s t set %s', relation, baton_internal.state_assignments(relation, layout, 'done')) end;
begin
    return format('%s where t.%I = any ($2::%s[]) and %s and %s returning %s as id, %s as event_type',
                  change, baton_internal.mapped_column(layout, 'id'), baton_internal.role_type(relation, layout, 'id'), f ->> 'open',
                  baton_internal.fence_sql(layout), f ->> 'row_id', baton_internal.role_text(layout, 'event_type'));
end
$$;
comment on function baton_internal.ack_statement(regclass, jsonb) is 'statement that settles rows';

-- Return the columns of a table that can be written when a row moves.
create function baton_internal.movable_columns(relation regclass)
returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array_agg(a.attname::text order by a.attnum) from pg_attribute a
     where a.attrelid = relation and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
$$;
comment on function baton_internal.movable_columns(regclass) is 'columns to copy when a row moves to a companion table';

-- Write the failure: another try after its backoff, or the end of the row's attempts.
create function baton_internal.fail_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    f jsonb := baton_internal.adopted_fragments(relation, layout);
    key text[] := baton_internal.adopted_key(relation, baton_internal.mapped_column(layout, 'id'));
    next_attempt text := format('(%s + 1)', f ->> 'attempts');
    died text;
begin
    if layout #>> '{dead,as}' = 'attempts' then  -- a row is dead by its count alone
        next_attempt := format('case when ($3 ->> ''permanent'')::boolean then greatest(%s + 1, %s%s) else %s + 1 end', f ->> 'attempts', f ->> 'limit',
                               case layout #>> '{attempts,rule}' when 'exceeds' then ' + 1' else '' end, f ->> 'attempts');
    elsif layout #>> '{columns,max_attempts}' is not null and layout #>> '{attempts,rule}' is distinct from 'exceeds' then
        next_attempt := format('least(%s + 1, %s)', f ->> 'attempts', f ->> 'limit');  -- the table may forbid more than its maximum
    end if;
    died := case layout #>> '{dead,as}'
        when 'move' then baton_internal.bury_sql(relation, layout, key)
        when 'status' then format('died as (update %s t set %s from target g where g.dead and %s)', relation,
                                  baton_internal.state_assignments(relation, layout, 'dead'), baton_internal.key_match(key, 't', 'g'))
        else 'died as (select)' end;
    return format('with target as (select %s, %s as row_id, %s as event_type, %s as attempts, %s as dead, now() + %s as due from %s t '
                  'where t.%I = any ($2::%s[]) and %s and %s for update of t), %s, %s '
                  'select g.row_id, g.event_type, g.attempts::int, g.dead, g.due from target g',
                  baton_internal.column_list(key, 't'), f ->> 'row_id', baton_internal.role_text(layout, 'event_type'), next_attempt,
                  case when layout #>> '{dead,as}' is null then 'false' else format('(($3 ->> ''permanent'')::boolean or %s)', f ->> 'dies') end,
                  baton_internal.backoff_sql(layout, format('(%s + 1)', f ->> 'attempts')), relation,
                  baton_internal.mapped_column(layout, 'id'), baton_internal.role_type(relation, layout, 'id'), f ->> 'open', baton_internal.fence_sql(layout),
                  coalesce(baton_internal.sql_part('retried as (update %s t set %s from target g where %s and %s)', relation::text,
                                          nullif(baton_internal.state_assignments(relation, layout, 'failed'), ''),
                                          case when layout #>> '{dead,as}' = 'attempts' then 'true' else 'not g.dead' end,
                                          baton_internal.key_match(key, 't', 'g')), 'retried as (select)'), died);
end
$$;
comment on function baton_internal.fail_statement(regclass, jsonb) is 'statement that fails rows';

-- Write the move of dead rows to their own table, with the last attempt and error in them.
create function baton_internal.bury_sql(relation regclass, layout jsonb, key text[])
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select format('moved as (delete from %s t using target g where g.dead and %s returning t.*, g.attempts as baton_attempts), '
                  'died as (insert into %s (%s) overriding system value select %s from moved t)',
                  relation, baton_internal.key_match(key, 't', 'g'), layout #>> '{dead,table}', baton_internal.column_list(m.names),
                  (select string_agg(case c when baton_internal.mapped_column(layout, 'attempts') then 't.baton_attempts'
                                            when baton_internal.mapped_column(layout, 'last_error') then baton_internal.error_sql(relation, layout, true)
                                            when baton_internal.mapped_column(layout, 'locked_at') then 'null'
                                            when baton_internal.mapped_column(layout, 'locked_by') then 'null'
                                            else format('t.%I', c) end, ', ' order by n) from unnest(m.names) with ordinality u (c, n)))
      from (select baton_internal.movable_columns(relation)) m (names)
$$;
comment on function baton_internal.bury_sql(regclass, jsonb, text[]) is 'part of a fail statement that moves dead rows';

-- Write the list of dead letters.
create function baton_internal.dead_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    f jsonb := baton_internal.adopted_fragments(relation, layout);
    moves boolean := coalesce(layout #>> '{dead,as}' = 'move', false);
begin
    return format('select e.*, %s as error from %s t, lateral (select %s) e where %s order by %s limit ($3 ->> ''limit'')::int',
                  case when layout -> 'columns' ? 'last_error' then baton_internal.role_text(layout, 'last_error') else 'null::text' end,
                  case when moves then layout #>> '{dead,table}' else relation::text end,
                  baton_internal.event_sql(relation, layout, f ->> 'attempts'),
                  case when moves then 'true' else f ->> 'dead' end, baton_internal.order_sql(layout, true));
end
$$;
comment on function baton_internal.dead_statement(regclass, jsonb) is 'statement that lists dead letters';

-- Write the replay: dead rows become pending again, with their attempts given back.
create function baton_internal.replay_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    f jsonb := baton_internal.adopted_fragments(relation, layout);
    names text[] := baton_internal.movable_columns(relation);
    chosen text := format('t.%I = any ($2::%s[])', baton_internal.mapped_column(layout, 'id'), baton_internal.role_type(relation, layout, 'id'));
    back text;
begin
    if layout #>> '{dead,as}' = 'move' then
        back := format('moved as (delete from %s t where %s returning t.*), '
                       'replayed as (insert into %s as t (%s) overriding system value select %s from moved t returning %s as id)',
                       layout #>> '{dead,table}', chosen, relation, baton_internal.column_list(names),
                       (select string_agg(case c when baton_internal.mapped_column(layout, 'attempts') then '0'
                                                 when baton_internal.mapped_column(layout, 'last_error') then baton_internal.error_sql(relation, layout, false)
                                                 when baton_internal.mapped_column(layout, 'available_at') then 'now()'
                                                 when baton_internal.mapped_column(layout, 'retry_at') then 'null'
                                                 when baton_internal.mapped_column(layout, 'processed_at') then 'null'
                                                 when baton_internal.mapped_column(layout, 'status') then baton_internal.state_literal(layout, 'pending')
                                                 else format('t.%I', c) end, ', ' order by n) from unnest(names) with ordinality u (c, n)),
                       f ->> 'row_id');
    elsif layout #>> '{dead,as}' is null then
        back := format('replayed as (select %s as id from %s t where %s and false)', f ->> 'row_id', relation, chosen);
    else
        back := format('replayed as (update %s t set %s where %s and %s returning %s as id)', relation,
                       baton_internal.state_assignments(relation, layout, 'pending'), chosen, f ->> 'dead', f ->> 'row_id');
    end if;
    return format('with %s select r.id from replayed r', back);
end
$$;
comment on function baton_internal.replay_statement(regclass, jsonb) is 'statement that replays dead letters';

-- Write the counts: pending, claimed, lag and dead letters.
create function baton_internal.status_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    f jsonb := baton_internal.adopted_fragments(relation, layout);
    locked text := coalesce(baton_internal.role_column(layout, 'locked_at') || ' is not null', 'false');
    born text := coalesce(baton_internal.role_column(layout, 'occurred_at'), baton_internal.role_column(layout, 'created_at'), 'null');
    dead text := case when layout #>> '{dead,as}' = 'move' then layout #>> '{dead,table}' else format('%s t where %s', relation, f ->> 'dead') end;
begin
    return format('select s.pending, s.claimed, s.lag_seconds, (select count(*) from %s) as dead from ('
                  'select count(*) filter (where not %s) as pending, count(*) filter (where %s) as claimed, '
                  '(extract(epoch from now()) - extract(epoch from min(%s::timestamptz)))::float8 as lag_seconds from %s t where %s and not %s) s',
                  dead, locked, locked, born, relation, f ->> 'open', f ->> 'dead');
end
$$;
comment on function baton_internal.status_statement(regclass, jsonb) is 'statement that counts an outbox';
