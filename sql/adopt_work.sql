-- Working an adopted outbox: the statements of its layout run as the table's owner, and baton keeps its notes. These functions have
-- the rights of baton's owner, so each looks first at what the owner of the table granted to the caller.

-- Return an adopted outbox by its number.
create function baton_internal.adopted_by_id(outbox_id int)
returns baton.adopted_outboxes
language plpgsql stable
as $$
declare
    outbox baton.adopted_outboxes;
begin
    select a.* into outbox from baton.adopted_outboxes a where a.outbox_id = adopted_by_id.outbox_id;
    if not found then
        raise exception 'no adopted outbox with number %', coalesce(outbox_id::text, 'null') using errcode = 'undefined_object';
    end if;
    return outbox;
end
$$;
comment on function baton_internal.adopted_by_id(int) is 'catalog row of an adopted outbox';

-- Return the table of an adopted outbox.
create function baton_internal.adopted_table(outbox baton.adopted_outboxes)
returns regclass
language sql stable
as $$ select format('%I.%I', outbox.schema_name, outbox.table_name)::regclass $$;
comment on function baton_internal.adopted_table(baton.adopted_outboxes) is 'table of an adopted outbox; raises when the table is gone';

-- Return the tables that the statements of an adopted outbox write to besides its own.
create function baton_internal.adopted_companions(outbox baton.adopted_outboxes)
returns regclass[]
language sql stable
as $$ select array_remove(array[to_regclass(outbox.layout #>> '{dead,table}'), to_regclass(outbox.layout #>> '{archive,table}')], null) $$;
comment on function baton_internal.adopted_companions(baton.adopted_outboxes) is 'dead-letter and archive table of an adopted outbox';

-- Refuse a caller who may not work an adopted table: claiming reads and updates it, and deletes where the layout does.
create function baton_internal.check_adopted_work(outbox baton.adopted_outboxes)
returns void
language sql stable
as $$
    select baton_internal.check_table_grants(baton_internal.adopted_table(outbox), array['select', 'update']
        || case when outbox.layout #>> '{done,as}' = 'delete' or outbox.layout #>> '{dead,as}' = 'move' then array['delete'] else '{}' end)
$$;
comment on function baton_internal.check_adopted_work(baton.adopted_outboxes) is 'raises insufficient_privilege unless the caller may work an adopted table';

-- Name the rows that are not due again yet, where the table has no column for that.
create function baton_internal.adopted_delayed(outbox_id int)
returns text[]
language sql stable
as $$ select array(select f.row_id from baton_internal.adopted_failures f where f.outbox_id = $1 and f.not_before > now()) $$;
comment on function baton_internal.adopted_delayed(int) is 'failed rows of an adopted outbox that wait for their next try';

-- Give the attempts so far of rows whose table does not count them: those named, or all.
create function baton_internal.adopted_attempts(outbox_id int, ids text[] default null)
returns jsonb
language sql stable
as $$
    select jsonb_object_agg(f.row_id, f.attempts) from baton_internal.adopted_failures f
     where f.outbox_id = $1 and ($2 is null or f.row_id = any ($2))
$$;
comment on function baton_internal.adopted_attempts(int, text[]) is 'attempts of rows of an adopted outbox, by id';

-- Give the leases of workers in seconds, by name.
create function baton_internal.adopted_leases(outbox_id int)
returns jsonb
language sql stable
as $$ select jsonb_object_agg(w.worker, extract(epoch from w.lease)) from baton_internal.adopted_workers w where w.outbox_id = $1 $$;
comment on function baton_internal.adopted_leases(int) is 'how many seconds each worker may hold a lock';

-- Give the values of a claim, and note the worker's lease.
create function baton_internal.begin_adopted_claim(outbox baton.adopted_outboxes, worker text, batch int, lease_seconds int)
returns jsonb
language plpgsql
as $$
begin
    perform baton_internal.check_adopted_work(outbox);
    if batch is null or batch < 1 or lease_seconds is null or lease_seconds < 1 or coalesce(worker, '') = '' then
        raise exception 'a claim needs a worker''s name, a batch of at least one event and a lease of at least one second'
            using errcode = 'invalid_parameter_value', hint = 'baton.claim_adopted(''orders'', ''worker-1'', 100, 30)';
    end if;
    if outbox.keeps_locks then
        perform baton_internal.note_worker(outbox.outbox_id, worker, lease_seconds);
    end if;
    return jsonb_build_object('worker', worker, 'batch', batch, 'leases', baton_internal.adopted_leases(outbox.outbox_id));
end
$$;
comment on function baton_internal.begin_adopted_claim(baton.adopted_outboxes, text, int, int) is 'checks a claim; returns the values for its statement';

-- Complete an event that the owner's statement gave: text that is JSON becomes JSON, and attempts that the table does not count are added.
-- JSON that jsonb has no place for stays text; headers that are no object come under one name.
create function baton_internal.complete_adopted_event(event baton.adopted_event, outbox_id int, text_payload boolean, text_headers boolean)
returns baton.adopted_event
language plpgsql stable
as $$
begin
    if text_payload then
        event.payload := baton_internal.text_to_jsonb(event.payload #>> '{}');
    end if;
    if text_headers then
        event.headers := baton_internal.text_to_jsonb(event.headers #>> '{}');
        if jsonb_typeof(event.headers) <> 'object' then
            event.headers := jsonb_build_object('unreadable-headers', event.headers);
        end if;
    end if;
    event.attempt := event.attempt + coalesce((select f.attempts from baton_internal.adopted_failures f
                                                where f.outbox_id = complete_adopted_event.outbox_id and f.row_id = event.id), 0);
    return event;
end
$$;
comment on function baton_internal.complete_adopted_event(baton.adopted_event, int, boolean, boolean) is 'an event, completed with what its table does not hold';

-- Run a statement that gives events.
create function baton_internal.adopted_events(outbox baton.adopted_outboxes, statement text, ids text[], arguments jsonb)
returns setof baton.adopted_event
language plpgsql
as $$
declare
    relation regclass := baton_internal.adopted_table(outbox);
    counts boolean := outbox.layout -> 'columns' ? 'attempts';
    text_payload boolean := not baton_internal.is_jsonb(relation, outbox.layout, 'payload') and not baton_internal.is_bytea(relation, outbox.layout, 'payload');
    text_headers boolean := not baton_internal.is_jsonb(relation, outbox.layout, 'headers');
    event baton.adopted_event;
begin
    for event in
        select r.* from baton_internal.run_as_owner(relation, statement, null, ids, arguments, baton_internal.adopted_companions(outbox))
            as r (id text, event_id text, tenant_id text, aggregate_type text, aggregate_id text, event_type text, schema_version text,
                  topic text, partition_key text, routing_keys text[], payload jsonb, headers jsonb, trace_id text, correlation_id text,
                  causation_id text, idempotency_key text, occurred_at timestamptz, attempt int)
    loop
        if text_payload or text_headers or not counts then
            event := baton_internal.complete_adopted_event(event, outbox.outbox_id, text_payload, text_headers);
        end if;
        return next event;
    end loop;
end
$$;
comment on function baton_internal.adopted_events(baton.adopted_outboxes, text, text[], jsonb) is 'events that a statement on an adopted table gives';

-- Claim a batch for a worker.
create function baton_internal.claim_rows(outbox_id int, worker text, batch int, lease_seconds int)
returns setof baton.adopted_event
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
    arguments jsonb := baton_internal.begin_adopted_claim(outbox, worker, batch, lease_seconds);
begin
    return query select e.* from baton_internal.adopted_events(outbox, outbox.claim_sql, baton_internal.adopted_delayed(outbox.outbox_id), arguments) e;
end
$$;
comment on function baton_internal.claim_rows(int, text, int, int) is 'claims due rows of an adopted outbox';

-- The same for a relay, without the keys that wait for an earlier event: payload and headers as text, the time in microseconds. What the
-- relay has no room for comes with its bytes alone.
create function baton_internal.claim_rows_for_relay(outbox_id int, worker text, batch int, lease_seconds int, keys text[], except_ids text[],
                                                    event_bytes bigint, batch_bytes bigint)
returns table (id text, event_id text, tenant_id text, aggregate_type text, aggregate_id text, event_type text, schema_version text, topic text,
               partition_key text, payload text, headers text, trace_id text, correlation_id text, causation_id text, idempotency_key text,
               occurred_at bigint, attempt int,
               withheld_bytes bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set bytea_output = hex
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
    arguments jsonb := baton_internal.begin_adopted_claim(outbox, worker, batch, lease_seconds)
                       || jsonb_build_object('keys', to_jsonb(keys), 'except', to_jsonb(except_ids),
                                             'event_bytes', event_bytes, 'batch_bytes', batch_bytes);
    counts boolean := outbox.layout -> 'columns' ? 'attempts';
begin
    return query
        select r.id, r.event_id, r.tenant_id, r.aggregate_type, r.aggregate_id, r.event_type, r.schema_version, r.topic, r.partition_key, r.payload,
               r.headers, r.trace_id, r.correlation_id, r.causation_id, r.idempotency_key, r.occurred_at,
               r.attempt + case when counts then 0 else coalesce((select f.attempts from baton_internal.adopted_failures f
                                                                   where f.outbox_id = outbox.outbox_id and f.row_id = r.id), 0) end,
               r.withheld_bytes
          from baton_internal.run_as_owner(baton_internal.adopted_table(outbox), outbox.relay_sql, null,
                                           baton_internal.adopted_delayed(outbox.outbox_id), arguments, baton_internal.adopted_companions(outbox))
            as r (id text, event_id text, tenant_id text, aggregate_type text, aggregate_id text, event_type text, schema_version text, topic text,
                  partition_key text, payload text, headers text, trace_id text, correlation_id text, causation_id text, idempotency_key text,
                  occurred_at bigint, attempt int,
                  withheld_bytes bigint);
end
$$;
comment on function baton_internal.claim_rows_for_relay(int, text, int, int, text[], text[], bigint, bigint) is 'claims due rows of an adopted outbox for a relay';

-- Run a statement that gives ids.
create function baton_internal.adopted_ids(outbox baton.adopted_outboxes, statement text, ids text[], worker text)
returns setof text
language sql
as $$
    select r.id from baton_internal.run_as_owner(baton_internal.adopted_table(outbox), statement, null, ids,
                         jsonb_build_object('worker', worker), baton_internal.adopted_companions(outbox)) as r (id text)
$$;
comment on function baton_internal.adopted_ids(baton.adopted_outboxes, text, text[], text) is 'ids that a statement on an adopted table gives';

-- Settle rows; with a worker, only those that it still holds.
create function baton_internal.settle_rows(outbox_id int, ids text[], worker text)
returns setof text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
    settled text[];
    event_types text[];
begin
    perform baton_internal.check_adopted_work(outbox);
    select array_agg(r.id), array_agg(r.event_type) into settled, event_types
      from baton_internal.run_as_owner(baton_internal.adopted_table(outbox), outbox.ack_sql, null, ids, jsonb_build_object('worker', worker),
                                       baton_internal.adopted_companions(outbox)) as r (id text, event_type text);
    perform baton_internal.note_settled(outbox.outbox_id, settled, event_types);
    return query select unnest(settled);
end
$$;
comment on function baton_internal.settle_rows(int, text[], text) is 'settles rows of an adopted outbox';

-- Fail rows by the rules of their table; says of each whether it is dead now, and when it is due again.
create function baton_internal.fail_rows(outbox_id int, ids text[], error text, permanent boolean, worker text)
returns table (id text, dead boolean, attempts int, due timestamptz)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
    failures jsonb;
begin
    perform baton_internal.check_adopted_work(outbox);
    select jsonb_agg(to_jsonb(r)) into failures
      from baton_internal.run_as_owner(baton_internal.adopted_table(outbox), outbox.fail_sql, null, ids,
               jsonb_build_object('worker', worker, 'error', error, 'permanent', permanent, 'attempts', baton_internal.adopted_attempts(outbox.outbox_id, ids)),
               baton_internal.adopted_companions(outbox)) as r (id text, event_type text, attempts int, dead boolean, due timestamptz);
    perform baton_internal.note_failed(outbox.outbox_id, failures, error, baton_internal.keeps_failures(outbox.layout));
    return query select f.id, f.dead, f.attempts, case when not f.dead then f.due end
                   from jsonb_to_recordset(failures) f (id text, dead boolean, attempts int, due timestamptz);
end
$$;
comment on function baton_internal.fail_rows(int, text[], text, boolean, text) is 'fails rows of an adopted outbox';

-- Renew the locks of rows that a worker holds; gives those that it still had.
create function baton_internal.renew_rows(outbox_id int, ids text[], worker text)
returns setof text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
begin
    perform baton_internal.check_adopted_work(outbox);
    return query select baton_internal.adopted_ids(outbox, outbox.renew_sql, ids, worker);
end
$$;
comment on function baton_internal.renew_rows(int, text[], text) is 'renews locks of an adopted outbox';

-- Give rows back unworked: those named, or all that the worker holds.
create function baton_internal.release_rows(outbox_id int, ids text[], worker text)
returns setof text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
begin
    perform baton_internal.check_adopted_work(outbox);
    return query select baton_internal.adopted_ids(outbox, outbox.release_sql, ids, worker);
end
$$;
comment on function baton_internal.release_rows(int, text[], text) is 'gives locked rows of an adopted outbox back';

-- Name the rows that make later ones of their key wait: of those given, or all.
create function baton_internal.held_rows(outbox_id int, ids text[], worker text)
returns table (id text, key text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
begin
    perform baton_internal.check_table_grants(baton_internal.adopted_table(outbox), '{select}');
    return query select r.id, r.key from baton_internal.run_as_owner(baton_internal.adopted_table(outbox), outbox.held_sql, null, ids,
                     jsonb_build_object('worker', worker, 'attempts', baton_internal.adopted_attempts(outbox.outbox_id)),
                     baton_internal.adopted_companions(outbox)) as r (id text, key text);
end
$$;
comment on function baton_internal.held_rows(int, text[], text) is 'rows of an adopted outbox that make their key wait';

-- List dead letters, by their ids where they are given; `wanted` is for baton_internal.dead_statement().
create function baton_internal.dead_rows(outbox_id int, max_rows int, ids text[] default '{}', wanted jsonb default '{}')
returns table (event baton.adopted_event, error text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
    relation regclass := baton_internal.adopted_table(outbox);
    text_payload boolean := not baton_internal.is_jsonb(relation, outbox.layout, 'payload') and not baton_internal.is_bytea(relation, outbox.layout, 'payload');
    text_headers boolean := not baton_internal.is_jsonb(relation, outbox.layout, 'headers');
    counts boolean := outbox.layout -> 'columns' ? 'attempts';
    letter record;
begin
    perform baton_internal.check_table_grants(coalesce(to_regclass(outbox.layout #>> '{dead,table}'), relation), '{select}');
    if wanted ->> 'error' is not null and not outbox.layout -> 'columns' ? 'last_error' then  -- baton notes the errors, the table has no place for them
        ids := array(select f.row_id from baton_internal.adopted_failures f
                      where f.outbox_id = outbox.outbox_id and strpos(lower(f.error), lower(wanted ->> 'error')) > 0 and (ids = '{}' or f.row_id = any (ids)));
        if ids = '{}' then
            return;
        end if;
        wanted := wanted - 'error';
    end if;
    for letter in
        select r.* from baton_internal.run_as_owner(relation, outbox.dead_sql, ids => case when ids <> '{}' then ids end,
                                                    arguments => wanted || jsonb_build_object('limit', max_rows),
                                                    companions => baton_internal.adopted_companions(outbox))
            as r (id text, event_id text, tenant_id text, aggregate_type text, aggregate_id text, event_type text, schema_version text,
                  topic text, partition_key text, routing_keys text[], payload jsonb, headers jsonb, trace_id text, correlation_id text,
                  causation_id text, idempotency_key text, occurred_at timestamptz, attempt int, error text)
    loop
        event := row(letter.id, letter.event_id, letter.tenant_id, letter.aggregate_type, letter.aggregate_id, letter.event_type, letter.schema_version,
                     letter.topic, letter.partition_key, letter.routing_keys, letter.payload, letter.headers, letter.trace_id, letter.correlation_id,
                     letter.causation_id, letter.idempotency_key, letter.occurred_at, letter.attempt);
        if text_payload or text_headers or not counts then
            event := baton_internal.complete_adopted_event(event, outbox.outbox_id, text_payload, text_headers);
        end if;
        error := coalesce(letter.error, (select f.error from baton_internal.adopted_failures f
                                          where f.outbox_id = outbox.outbox_id and f.row_id = letter.id));
        return next;
    end loop;
end
$$;
comment on function baton_internal.dead_rows(int, int, text[], jsonb) is 'dead letters of an adopted outbox';

-- Make dead letters pending again.
create function baton_internal.replay_rows(outbox_id int, ids text[])
returns setof text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
    replayed text[];
begin
    perform baton_internal.check_table_grants(baton_internal.adopted_table(outbox),
        case when outbox.layout #>> '{dead,as}' = 'move' then '{insert}' else '{select,update}' end::text[]);
    replayed := array(select baton_internal.adopted_ids(outbox, outbox.replay_sql, ids, null));
    perform baton_internal.forget_failures(outbox.outbox_id, replayed);
    perform baton_internal.record_action('replay_adopted', format('%I.%I', outbox.schema_name, outbox.table_name),
                                         jsonb_build_object('count', cardinality(replayed), 'ids', to_jsonb(replayed[1:100])));
    return query select unnest(replayed);
end
$$;
comment on function baton_internal.replay_rows(int, text[]) is 'replays dead letters of an adopted outbox';

-- Count an outbox's rows. Numbers are no secret to those who look after outboxes.
create function baton_internal.count_rows(outbox_id int, out pending bigint, out claimed bigint, out lag_seconds float8, out dead bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
begin
    select r.pending, r.claimed, r.lag_seconds, r.dead into pending, claimed, lag_seconds, dead
      from baton_internal.run_as_owner(baton_internal.adopted_table(outbox), outbox.status_sql, companions => baton_internal.adopted_companions(outbox))
        as r (pending bigint, claimed bigint, lag_seconds float8, dead bigint);
end
$$;
comment on function baton_internal.count_rows(int) is 'pending, claimed, lag and dead letters of an adopted outbox';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_consumer}', '{claim_rows,settle_rows,fail_rows}');
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}', '{claim_rows_for_relay,renew_rows,release_rows,held_rows,replay_rows}');
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_viewer}', '{dead_rows,count_rows}');
