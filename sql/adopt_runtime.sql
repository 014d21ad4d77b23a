-- Working an adopted outbox. The name is looked up by the caller's search path, the work is done by adopt_work.sql.
--
-- Where the table has lock columns, a claim is kept in them and outlives the transaction; a crashed
-- worker's rows are taken by others when its lease is over. Where it has none, a claim is a row lock:
-- claim, publish and acknowledge in one transaction, and a crash gives the rows back at once.

-- Claim a batch of due events for a worker.
create function baton.claim_adopted(name text, worker text, batch int default 100, lease_seconds int default 30)
returns setof baton.adopted_event
language plpgsql volatile
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.open_adopted(name);
begin
    return query select e.* from baton_internal.claim_rows(outbox.outbox_id, worker, batch, lease_seconds) e;
end
$$;
comment on function baton.claim_adopted(text, text, int, int) is
    'claims due events (FOR UPDATE SKIP LOCKED); without lock columns the claim lasts as long as the transaction';

-- Warn a worker that has lost some of the events.
create function baton_internal.warn_of_lost_rows(outbox baton.adopted_outboxes, ids text[], reached int, worker text)
returns void
language plpgsql
as $$
declare
    wanted constant int := (select count(distinct i) from unnest(ids) i);
begin
    if worker is not null and outbox.keeps_locks and reached < wanted then
        raise warning 'lease lost: % of % events are no longer held by "%"', wanted - reached, wanted, worker
            using errcode = 'BT001', hint = 'another worker has taken them; ask for a longer lease_seconds';
    end if;
end
$$;
comment on function baton_internal.warn_of_lost_rows(baton.adopted_outboxes, text[], int, text) is 'warns of events that a worker does not hold any more';

-- Settle events; returns the ids that were settled. With a worker, only rows it still holds.
create function baton.ack_adopted(name text, ids text[], worker text default null)
returns setof text
language plpgsql volatile
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.open_adopted(name);
    settled text[];
begin
    if ids is null or pg_catalog.array_position(ids, null) is not null then
        raise exception 'ids to settle must not be null' using errcode = 'null_value_not_allowed';
    end if;
    settled := array(select baton_internal.settle_rows(outbox.outbox_id, ids, worker));
    perform baton_internal.warn_of_lost_rows(outbox, ids, pg_catalog.cardinality(settled), worker);
    return query select pg_catalog.unnest(settled);
end
$$;
comment on function baton.ack_adopted(text, text[], text) is 'settles events; returns the ids of those that were settled';

-- Fail one event: another try after its backoff, or dead when its attempts are used up or the failure is permanent.
create function baton.fail_adopted(name text, id text, error text, permanent boolean default false, worker text default null,
                                   out dead boolean, out attempts int, out due timestamptz)
language plpgsql volatile
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.open_adopted(name);
    failed_id text;
begin
    if id is null or permanent is null then
        raise exception 'a failure needs the event''s id' using errcode = 'null_value_not_allowed';
    end if;
    select f.id, f.dead, f.attempts, f.due into failed_id, dead, attempts, due
      from baton_internal.fail_rows(outbox.outbox_id, array[fail_adopted.id], error, permanent, worker) f;
    if failed_id is null then
        raise exception 'event "%" cannot fail: it is %', left(id, 60),
                        case when worker is not null and outbox.keeps_locks then 'not held by this worker, not there, or already settled'
                             else 'not there, or already settled' end
            using errcode = case when worker is not null and outbox.keeps_locks then 'BT001' else 'no_data_found' end;
    end if;
end
$$;
comment on function baton.fail_adopted(text, text, text, boolean, text) is 'fails an event by the rules of its table';

-- Fail several events alike; returns those that failed. With a worker, only rows it still holds.
create function baton.fail_adopted(name text, ids text[], error text, permanent boolean default false, worker text default null)
returns table (id text, dead boolean, attempts int, due timestamptz)
language plpgsql volatile
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.open_adopted(name);
    failed int;
begin
    if ids is null or pg_catalog.array_position(ids, null) is not null or permanent is null then
        raise exception 'ids to fail must not be null' using errcode = 'null_value_not_allowed';
    end if;
    return query select f.id, f.dead, f.attempts, f.due from baton_internal.fail_rows(outbox.outbox_id, ids, fail_adopted.error, permanent, worker) f;
    get diagnostics failed = row_count;
    perform baton_internal.warn_of_lost_rows(outbox, ids, failed, worker);
end
$$;
comment on function baton.fail_adopted(text, text[], text, boolean, text) is 'fails events by the rules of their table; returns those that failed';

-- List the dead letters.
create function baton.adopted_dead_letters(name text, max_rows int default 1000)
returns table (id text, event_id text, tenant_id text, aggregate_type text, aggregate_id text, event_type text, topic text,
               payload jsonb, headers jsonb, occurred_at timestamptz, attempts int, error text)
language plpgsql
as $$
begin
    return query select (d.event).id, (d.event).event_id, (d.event).tenant_id, (d.event).aggregate_type, (d.event).aggregate_id, (d.event).event_type,
                        (d.event).topic, (d.event).payload, (d.event).headers, (d.event).occurred_at, (d.event).attempt - 1, d.error
                   from baton_internal.dead_rows((baton_internal.open_adopted(name)).outbox_id, max_rows) d;
end
$$;
comment on function baton.adopted_dead_letters(text, int) is 'dead letters of an adopted outbox';

-- Make dead letters pending again, with all their attempts; returns the ids replayed.
create function baton.replay_adopted(name text, ids text[])
returns setof text
language plpgsql volatile
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.open_adopted(name);
begin
    if ids is null or pg_catalog.array_position(ids, null) is not null then
        raise exception 'ids to replay must not be null' using errcode = 'null_value_not_allowed',
            hint = 'list them with baton.adopted_dead_letters()';
    end if;
    return query select baton_internal.replay_rows(outbox.outbox_id, ids);
end
$$;
comment on function baton.replay_adopted(text, text[]) is 'replays dead letters; each keeps its id';

-- Report lag, throughput, failures and dead letters, for one adopted outbox or all.
create function baton.adopted_status(name text default null)
returns table (outbox text, preset text, pending bigint, claimed bigint, lag_seconds float8, processed bigint,
               throughput_per_second float8, failed bigint, failures jsonb, dlq_depth bigint, problem text)
language plpgsql volatile
as $$
declare
    a baton.adopted_outboxes;
    only_one int := case when name is not null then (baton_internal.find_adopted(name)).outbox_id end;
begin
    for a in select * from baton.adopted_outboxes o where only_one is null or o.outbox_id = only_one order by o.schema_name, o.table_name loop
        outbox := pg_catalog.format('%I.%I', a.schema_name, a.table_name);
        preset := a.preset;
        problem := null;
        begin
            select c.pending, c.claimed, c.lag_seconds, c.dead into pending, claimed, lag_seconds, dlq_depth from baton_internal.count_rows(a.outbox_id) c;
            lag_seconds := coalesce(lag_seconds, 0);
        exception when undefined_table or undefined_column or insufficient_privilege then
            problem := sqlerrm;
            select null, null, null, null into pending, claimed, lag_seconds, dlq_depth;
        end;
        select coalesce(sum(c.processed), 0)::bigint,
               coalesce(sum(c.processed) filter (where c.at > clock_timestamp() - interval '1 minute'), 0) / 60.0, coalesce(sum(c.failed), 0)::bigint
          into processed, throughput_per_second, failed
          from baton_internal.adopted_activity c where c.outbox_id = a.outbox_id;
        select coalesce(pg_catalog.jsonb_object_agg(coalesce(c.event_type, ''), c.n), '{}') into failures
          from (select v.event_type, sum(v.failed) as n from baton_internal.adopted_activity v
                 where v.outbox_id = a.outbox_id group by v.event_type having sum(v.failed) > 0) c;
        return next;
    end loop;
end
$$;
comment on function baton.adopted_status(text) is 'state of adopted outboxes: lag in seconds, processed events in all and per second, failures by event type, dead letters';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_consumer}', '{claim_adopted,ack_adopted,fail_adopted,warn_of_lost_rows}');
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}', '{replay_adopted}');
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_viewer}', '{adopted_dead_letters,adopted_status}');
