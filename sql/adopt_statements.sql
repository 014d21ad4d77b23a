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

-- Name the parts that statements share: the conditions of the layout's states, the table, its key, and which rows $2 asks for.
create function baton_internal.adopted_parts(relation regclass, layout jsonb)
returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    id_column text := baton_internal.mapped_column(layout, 'id');
begin
    return baton_internal.adopted_fragments(relation, layout) || jsonb_build_object(
        'relation', relation,
        'key', baton_internal.column_list(baton_internal.adopted_key(relation, id_column), 't'),
        'chosen', format('t.%I = any ($2::%s[])', id_column, baton_internal.role_type(relation, layout, 'id')),
        'fence', baton_internal.fence_sql(layout),
        'event_type', baton_internal.role_text(layout, 'event_type'),
        'taking_order', baton_internal.order_sql(layout, false),
        'giving_order', baton_internal.order_sql(layout, true));
end
$$;
comment on function baton_internal.adopted_parts(regclass, jsonb) is 'parts of an adopted outbox''s statements, for baton_internal.fill()';

-- Write the assignments that lock a row for a worker.
create function baton_internal.lock_assignments(layout jsonb)
returns text
language sql immutable
as $$
    select concat_ws(', ', baton_internal.sql_part('%I = clock_timestamp()', layout #>> '{columns,locked_at}'),
                     baton_internal.sql_part($sql$%I = $3 ->> 'worker'$sql$, layout #>> '{columns,locked_by}'),
                     baton_internal.sql_part('%I = now()', layout #>> '{columns,updated_at}'),
                     case when layout #> '{states,claimed}' is not null
                          then baton_internal.sql_part('%I = %s', layout #>> '{columns,status}', baton_internal.state_literal(layout, 'claimed')) end)
$$;
comment on function baton_internal.lock_assignments(jsonb) is 'assignments that lock a row for a worker';

-- Write the claim of a table without lock columns: row locks, which last as long as the transaction. Write the claim of a table with lock
-- columns: stale locks first, then rows that nobody has locked. A relay's claim gives the payload as it is, and leaves out keys that
-- wait for an earlier event.
create function baton_internal.claim_statement(relation regclass, layout jsonb, for_relay boolean default false)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    with_row_locks constant text := $query$
        (select t.* from {relation} t where {due} order by {taking_order} limit ($3 ->> 'batch')::int for update of t skip locked)$query$;
    with_lock_columns constant text := $query$
        with stale as (
            select {key} from {relation} t where {claimed} and {stale}
             order by {taking_order} limit ($3 ->> 'batch')::int for update of t skip locked
        ), fresh as (
            select {key} from {relation} t where {free}
             order by {taking_order} limit greatest(($3 ->> 'batch')::int - (select count(*) from stale), 0) for update of t skip locked
        ), claimed as (
            update {relation} t set {lock} from (select * from stale union all select * from fresh) p where {key_match} returning t.*
        )
        select {events} from {rows} order by {giving_order}$query$;
    parts jsonb := baton_internal.adopted_parts(relation, layout);
    locked text := baton_internal.role_column(layout, 'locked_at');
    status_is_claimed text := baton_internal.role_column(layout, 'status') || ' = ' || baton_internal.state_literal(layout, 'claimed');
    unheld text := case when for_relay then baton_internal.unheld_sql(layout, parts ->> 'row_id') end;
    due text := concat_ws(' and ', parts ->> 'due', unheld);
    event text := baton_internal.event_sql(relation, layout, parts ->> 'attempts');
    claimed text := 'claimed';
begin
    parts := parts || jsonb_build_object('due', due);
    if locked is null then
        claimed := baton_internal.fill(with_row_locks, parts);
    end if;
    parts := parts || jsonb_build_object(
        'events', event,
        'rows', claimed || ' t',
        'stale', baton_internal.stale_sql(layout),
        'claimed', case when status_is_claimed is null then due else concat_ws(' and ', status_is_claimed, unheld) end,
        'free', concat_ws(' and ', due, case when status_is_claimed is null then locked || ' is null' end),
        'lock', baton_internal.lock_assignments(layout),
        'key_match', baton_internal.key_match(baton_internal.adopted_key(relation, baton_internal.mapped_column(layout, 'id')), 't', 'p'));
    if for_relay then
        parts := parts || jsonb_build_object(
            'events', baton_internal.relay_event_sql(relation, layout),
            'rows', format('%s cross join lateral (select %s) e', baton_internal.measured_rows_sql(relation, layout, claimed), event));
    end if;
    return baton_internal.fill(case when locked is null then 'select {events} from {rows} order by {giving_order}' else with_lock_columns end, parts);
end
$$;
comment on function baton_internal.claim_statement(regclass, jsonb, boolean) is 'statement that claims a batch';

-- Write when a lock is stale: its worker's lease is over. For a worker that baton does not know, the layout's timeout counts. A lock whose
-- time lies more than an hour ahead was taken while the clock was ahead.
create function baton_internal.stale_sql(layout jsonb)
returns text
language sql immutable
as $$
    select baton_internal.sql_part($sql$%1$s is not null and (%1$s < clock_timestamp() - coalesce(%2$s, interval %3$s) or %1$s > clock_timestamp() + interval '1 hour')$sql$,
                                   baton_internal.role_column(layout, 'locked_at'),
                                   coalesce(baton_internal.sql_part($sql$make_interval(secs => ($3 -> 'leases' ->> %s::text)::float8)$sql$,
                                                                    baton_internal.role_column(layout, 'locked_by')), 'null::interval'),
                                   quote_literal(coalesce(layout #>> '{locks,timeout}', '5 minutes')))
$$;
comment on function baton_internal.stale_sql(jsonb) is 'condition of a stale lock';

-- Write the condition that the row belongs to the worker, where the table knows that.
create function baton_internal.fence_sql(layout jsonb)
returns text
language sql immutable
as $$
    select coalesce(baton_internal.sql_part($sql$($3 ->> 'worker' is null or %s = $3 ->> 'worker')$sql$, baton_internal.role_column(layout, 'locked_by')), 'true')
$$;
comment on function baton_internal.fence_sql(jsonb) is 'condition that a worker still holds a row';

-- Write the acknowledgement: the rows are done, or deleted where the layout says so.
create function baton_internal.ack_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    change text := case when layout #>> '{done,as}' = 'delete' then 'delete from {relation} t' else 'update {relation} t set {done_assignments}' end;
begin
    return baton_internal.fill(change || ' where {chosen} and {open} and {fence} returning {row_id} as id, {event_type} as event_type',
        baton_internal.adopted_parts(relation, layout) || jsonb_build_object(
            'done_assignments', baton_internal.state_assignments(relation, layout, 'done')));
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

-- Write the number of attempts that a row has after a failure. Where a row is dead by its count alone, a permanent failure uses up all
-- attempts. Where the table has a maximum of its own, the table may forbid more.
create function baton_internal.next_attempt_sql(layout jsonb, parts jsonb)
returns text
language sql immutable
as $$
    select baton_internal.fill(case
        when layout #>> '{dead,as}' = 'attempts' and layout #>> '{attempts,rule}' = 'exceeds'
            then $sql$case when ($3 ->> 'permanent')::boolean then greatest({attempts} + 1, {limit} + 1) else {attempts} + 1 end$sql$
        when layout #>> '{dead,as}' = 'attempts'
            then $sql$case when ($3 ->> 'permanent')::boolean then greatest({attempts} + 1, {limit}) else {attempts} + 1 end$sql$
        when layout #>> '{columns,max_attempts}' is not null and layout #>> '{attempts,rule}' is distinct from 'exceeds'
            then 'least({attempts} + 1, {limit})'
        else '({attempts} + 1)' end, parts)
$$;
comment on function baton_internal.next_attempt_sql(jsonb, jsonb) is 'attempts of a row after one more failure';

-- Write the failure: another try after its backoff, or the end of the row's attempts.
create function baton_internal.fail_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    parts jsonb := baton_internal.adopted_parts(relation, layout);
    dead_as text := layout #>> '{dead,as}';
    retries text := nullif(baton_internal.state_assignments(relation, layout, 'failed'), '');
    statement text := $query$
        with target as (
            select {key}, {row_id} as row_id, {event_type} as event_type, {next_attempt} as attempts, {dies_now} as dead, now() + {backoff} as due
              from {relation} t where {chosen} and {open} and {fence} for update of t
        ), {retried}, {died}
        select g.row_id, g.event_type, g.attempts::int, g.dead, g.due from target g$query$;
begin
    parts := parts || jsonb_build_object(
        'next_attempt', baton_internal.next_attempt_sql(layout, parts),
        'dies_now', case when dead_as is null then 'false' else baton_internal.fill($sql$(($3 ->> 'permanent')::boolean or {dies})$sql$, parts) end,
        'backoff', baton_internal.backoff_sql(layout, baton_internal.fill('({attempts} + 1)', parts)),
        'target_match', baton_internal.key_match(baton_internal.adopted_key(relation, baton_internal.mapped_column(layout, 'id')), 't', 'g'),
        'failed_assignments', retries,
        'dead_assignments', baton_internal.state_assignments(relation, layout, 'dead'),
        'retriable', case when dead_as = 'attempts' then 'true' else 'not g.dead' end);
    return baton_internal.fill(statement, parts || jsonb_build_object(
        'retried', case when retries is null then 'retried as (select)'
                        else baton_internal.fill('retried as (update {relation} t set {failed_assignments} from target g where {retriable} and {target_match})', parts) end,
        'died', case dead_as when 'move' then baton_internal.bury_sql(relation, layout, parts)
                             when 'status' then baton_internal.fill('died as (update {relation} t set {dead_assignments} from target g where g.dead and {target_match})', parts)
                             else 'died as (select)' end));
end
$$;
comment on function baton_internal.fail_statement(regclass, jsonb) is 'statement that fails rows';

-- Write the values of columns that move to another table: as they are, or the new value of the first role that the column plays.
create function baton_internal.moved_values(layout jsonb, names text[], roles text[], new_values text[])
returns text
language sql stable
as $$
    select string_agg(coalesce(v.new_value, format('t.%I', c.name)), ', ' order by c.place)
      from unnest(names) with ordinality c (name, place)
      left join lateral (select r.new_value from unnest(roles, new_values) with ordinality r (role, new_value, place)
                          where baton_internal.mapped_column(layout, r.role) = c.name order by r.place limit 1) v on true
$$;
comment on function baton_internal.moved_values(jsonb, text[], text[], text[]) is 'values of a row that moves to another table';

-- Write the move of dead rows to their own table, with the last attempt and error in them.
create function baton_internal.bury_sql(relation regclass, layout jsonb, parts jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    names text[] := baton_internal.movable_columns(relation);
begin
    return baton_internal.fill('moved as (delete from {relation} t using target g where g.dead and {target_match} returning t.*, g.attempts as baton_attempts), '
                               'died as (insert into {dead_table} ({names}) overriding system value select {values} from moved t)',
        parts || jsonb_build_object(
            'dead_table', layout #>> '{dead,table}',
            'names', baton_internal.column_list(names),
            'values', baton_internal.moved_values(layout, names, '{attempts,last_error,locked_at,locked_by}',
                                                  array['t.baton_attempts', baton_internal.error_sql(relation, layout, true), 'null', 'null'])));
end
$$;
comment on function baton_internal.bury_sql(regclass, jsonb, jsonb) is 'part of a fail statement that moves dead rows';

-- Write the list of dead letters: of a type, by their ids, the latest first behind a place, as $3 and $2 say; else in the order in which they
-- are given.
create function baton_internal.dead_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    parts jsonb := baton_internal.adopted_parts(relation, layout);
    moves boolean := coalesce(layout #>> '{dead,as}' = 'move', false);
begin
    return baton_internal.fill($query$
        select e.*, {error} as error from {home} t, lateral (select {event}) e
         where {dead_here} and ($2 is null or {chosen}) and ($3 ->> 'event_type' is null or e.event_type = $3 ->> 'event_type')
           and ($3 ->> 'since' is null or {moment} >= ($3 ->> 'since')::timestamptz) and ($3 ->> 'until' is null or {moment} < ($3 ->> 'until')::timestamptz)
           and ($3 ->> 'key' is null or coalesce(e.partition_key, e.aggregate_id) = $3 ->> 'key') and ($3 ->> 'tenant' is null or e.tenant_id = $3 ->> 'tenant')
           and ($3 ->> 'error' is null or strpos(lower({error}), lower($3 ->> 'error')) > 0)
           and ($3 ->> 'moment' is null or ({moment}, e.id collate "C") < (($3 ->> 'moment')::timestamptz, $3 ->> 'before'))
         order by case when $3 ? 'latest' then {moment} end desc, case when $3 ? 'latest' then e.id end collate "C" desc, {giving_order} limit ($3 ->> 'limit')::int$query$,
        parts || jsonb_build_object(
            'error', case when layout -> 'columns' ? 'last_error' then baton_internal.role_text(layout, 'last_error') else 'null::text' end,
            'home', case when moves then layout #>> '{dead,table}' else relation::text end,
            'event', baton_internal.event_sql(relation, layout, parts ->> 'attempts'),
            'moment', baton_internal.page_moment_sql('e.occurred_at'),
            'dead_here', case when moves then 'true' else parts ->> 'dead' end));
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
    names text[] := baton_internal.movable_columns(relation);
    parts jsonb := baton_internal.adopted_parts(relation, layout) || jsonb_build_object(
        'dead_table', layout #>> '{dead,table}',
        'names', baton_internal.column_list(names),
        'values', baton_internal.moved_values(layout, names, '{attempts,last_error,available_at,retry_at,processed_at,status}',
                                              array['0', baton_internal.error_sql(relation, layout, false), 'now()', 'null', 'null',
                                                    baton_internal.state_literal(layout, 'pending')]),
        'pending_assignments', baton_internal.state_assignments(relation, layout, 'pending'));
begin
    return baton_internal.fill(case
        when layout #>> '{dead,as}' = 'move' then $query$
            with moved as (delete from {dead_table} t where {chosen} returning t.*),
                 replayed as (insert into {relation} as t ({names}) overriding system value select {values} from moved t returning {row_id} as id)
            select r.id from replayed r$query$
        when layout #>> '{dead,as}' is null then $query$
            with replayed as (select {row_id} as id from {relation} t where {chosen} and false)
            select r.id from replayed r$query$
        else $query$
            with replayed as (update {relation} t set {pending_assignments} where {chosen} and {dead} returning {row_id} as id)
            select r.id from replayed r$query$ end, parts);
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
    parts jsonb := baton_internal.adopted_parts(relation, layout);
    born text := coalesce(baton_internal.role_column(layout, 'occurred_at'), baton_internal.role_column(layout, 'created_at'), 'null');
begin
    return baton_internal.fill($query$
        select s.pending, s.claimed, s.lag_seconds, (select count(*) from {dead_rows}) as dead
          from (select count(*) filter (where not {locked}) as pending, count(*) filter (where {locked}) as claimed,
                       (extract(epoch from now()) - extract(epoch from min({born}::timestamptz)))::float8 as lag_seconds
                  from {relation} t where {open} and not {dead}) s$query$,
        parts || jsonb_build_object(
            'dead_rows', case when layout #>> '{dead,as}' = 'move' then layout #>> '{dead,table}' else baton_internal.fill('{relation} t where {dead}', parts) end,
            'locked', coalesce(baton_internal.role_column(layout, 'locked_at') || ' is not null', 'false'),
            'born', born));
end
$$;
comment on function baton_internal.status_statement(regclass, jsonb) is 'statement that counts an outbox';
