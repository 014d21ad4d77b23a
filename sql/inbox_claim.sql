-- claim_inbox: a message is leased to one worker at a time.

-- Whether a column of an inbox's table, where there is one, is of type jsonb. Another one is read as text, which baton turns into jsonb itself: a value
-- that jsonb has no place for would otherwise make every claim fail.
create function baton_internal.inbox_column_is_jsonb(box baton.inboxes, column_name name)
returns boolean
language sql stable
as $$
    select coalesce((select a.atttypid = 'pg_catalog.jsonb'::regtype from pg_catalog.pg_attribute a
                      where a.attrelid = box.relation and a.attname = column_name), true)
$$;
comment on function baton_internal.inbox_column_is_jsonb(baton.inboxes, name) is 'true when a column is of type jsonb, or does not exist';

-- Write what a claim returns, in the order of claim_inbox's columns.
create function baton_internal.inbox_claim_columns(box baton.inboxes)
returns text
language sql stable
as $$
    select string_agg(case when c.column_name is null then 'null::' || c.kind
                           when c.kind = 'jsonb' and not baton_internal.inbox_column_is_jsonb(box, c.column_name) then format('to_jsonb(t.%I::text)', c.column_name)
                           else format('t.%I::%s', c.column_name, c.kind) end, ', ' order by c.n)
      from (values (1, case when box.tenancy then 'event_id' else box.id_column end, 'text'), (2, box.event_type_column, 'text'), (3, box.source_column, 'text'),
                   (4, box.aggregate_id_column, 'text'), (5, box.payload_column, 'jsonb'), (6, box.headers_column, 'jsonb'),
                   (7, box.trace_id_column, 'text'), (8, box.received_at_column, 'timestamptz'), (9, box.sequence_column, 'bigint'))
           as c (n, column_name, kind)
$$;
comment on function baton_internal.inbox_claim_columns(baton.inboxes) is 'select list of a claim';

-- Write the condition under which a pending message may be leased now.
create function baton_internal.inbox_ready_condition(box baton.inboxes, terms baton_internal.inbox_terms)
returns text
language sql stable
as $$
    select format('%s and t.available_at <= $1 and (t.leased_until is null or t.leased_until <= $1)'
                  ' and ($6::text is null or t.tenant_id = $6)', terms.pending)
$$;
comment on function baton_internal.inbox_ready_condition(baton.inboxes, baton_internal.inbox_terms) is 'SQL for messages that are pending, due and not leased';

-- Write how messages are picked in due order: the query `picked (id, due)`.
create function baton_internal.inbox_pick_sql(box baton.inboxes, terms baton_internal.inbox_terms, condition text)
returns text
language sql stable
as $$
    select format('locked as materialized (select %s as id, %s as due from %s t where %s %s order by %2$s limit $5'
                  ' for no key update of t skip locked), picked as materialized (%6$s)',
                  terms.id, terms.due, box.relation, baton_internal.inbox_ready_condition(box, terms), condition, baton_internal.inbox_one_per_id_sql(box, 'locked'))
$$;
comment on function baton_internal.inbox_pick_sql(baton.inboxes, baton_internal.inbox_terms, text) is 'query that picks messages in due order';

-- Write the claim. $1 moment, $2 token, $3 worker, $4 end of the lease, $5 batch, $6 tenant. In a managed table nothing
-- that is indexed changes unless a lease ran out, so a claim adds no index entries.
create function baton_internal.inbox_claim_sql(box baton.inboxes, terms baton_internal.inbox_terms, picking text)
returns text
language sql stable
as $$
    select 'with recursive ' || picking || format($query$, taken as (
            update %1$s t set %2$s from picked p where t.%4$I = p.id
            returning %3$s, t.retry_count, p.due, t.leased_until is not null, p.id
        )
        select c.event_id, c.event_type, c.source, c.aggregate_id, c.payload, c.headers, c.trace_id, c.received_at, c.sequence_num,
               c.retry_count, h.*, c.alive, c.key
          from taken c (event_id, event_type, source, aggregate_id, payload, headers, trace_id, received_at, sequence_num,
                        retry_count, due, alive, key) cross join lateral baton_internal.ids_in_headers(c.headers) h
         order by c.due, c.received_at$query$,
        box.relation, terms.lease, baton_internal.inbox_claim_columns(box), box.id_column)
$$;
comment on function baton_internal.inbox_claim_sql(baton.inboxes, baton_internal.inbox_terms, text) is 'statement that leases picked messages';

-- Refuse a lease that ends before it begins or an empty batch.
create function baton_internal.check_inbox_claim(worker text, batch int, lease_seconds int)
returns void
language plpgsql immutable
as $$
begin
    if coalesce(worker, '') = '' then
        raise exception 'a claim needs the worker''s name' using errcode = 'invalid_parameter_value';
    elsif batch is null or batch < 1 then
        raise exception 'batch must be 1 or more, not %', coalesce(batch::text, 'null') using errcode = 'invalid_parameter_value';
    elsif lease_seconds is null or lease_seconds < 1 then
        raise exception 'lease_seconds must be 1 or more, not %', coalesce(lease_seconds::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;
comment on function baton_internal.check_inbox_claim(text, int, int) is 'raises invalid_parameter_value for impossible claims';

-- Lease messages to a worker. All messages of one claim share a token; a lease that ran out is offered again and
-- counts as a failed attempt, which may have been the last. An ordered inbox offers the next message of each aggregate, an
-- inbox with priorities the earliest due, of one tier if asked.
create function baton.claim_inbox(inbox text, worker text, batch int default 100, lease_seconds int default 30, tier text default null,
                                  path name[] default current_schemas(false))
returns table (event_id text, event_type text, source text, aggregate_id text, payload jsonb, headers jsonb, trace_id text,
               received_at timestamptz, sequence_num bigint, attempt int, lease_token uuid, leased_until timestamptz,
               correlation_id text, causation_id text, idempotency_key text, schema_version int)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set jit = off  -- a few rows, whatever a large history makes the planner expect
as $$
declare
    box baton.inboxes := baton_internal.need_tenant_inbox(inbox, path);
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box);
    moment timestamptz := clock_timestamp();
    condition text := '';
    statement text;
    alive boolean;
    key text;
    died text[] := '{}';  -- a lease that ran out was their last attempt
begin
    perform baton_internal.check_inbox_claim(worker, batch, lease_seconds);
    claim_inbox.lease_token := gen_random_uuid();
    claim_inbox.leased_until := moment + make_interval(secs => lease_seconds);
    if tier is not null then
        condition := baton_internal.inbox_tier_condition(box, tier);
    end if;
    if box.priority_tiers is not null then  -- what is available is due within the longest schedule: the index scan ends there
        condition := condition || baton_internal.inbox_due_bound(box, terms);
    end if;
    if box.layout <> 'managed' then
        return query select c.event_id, c.event_type, c.source, c.aggregate_id, c.payload, c.headers, c.trace_id, c.received_at,
                            c.sequence_num, c.retry_count + 1, claim_inbox.lease_token, claim_inbox.leased_until, h.*
                       from baton_internal.claim_adopted_inbox(box, condition, moment, batch, claim_inbox.lease_token, worker, claim_inbox.leased_until) c
                      cross join lateral baton_internal.ids_in_headers(c.headers) h;
        return;
    end if;
    statement := baton_internal.inbox_claim_sql(box, terms, case box.order_mode
        when 'sequence' then baton_internal.inbox_pick_ordered_sql(box, terms)
        when 'arrival' then baton_internal.inbox_pick_arrival_sql(box, terms)
        else baton_internal.inbox_pick_sql(box, terms, condition) end);
    for claim_inbox.event_id, claim_inbox.event_type, claim_inbox.source, claim_inbox.aggregate_id, claim_inbox.payload,
        claim_inbox.headers, claim_inbox.trace_id, claim_inbox.received_at, claim_inbox.sequence_num, claim_inbox.attempt,
        claim_inbox.correlation_id, claim_inbox.causation_id, claim_inbox.idempotency_key, claim_inbox.schema_version, alive, key in
        execute statement using moment, claim_inbox.lease_token, worker, claim_inbox.leased_until, batch,
                                nullif(current_setting('baton.tenant_id', true), '')
    loop
        if alive then
            claim_inbox.attempt := claim_inbox.attempt + 1;
            return next;
        else
            died := died || key;
        end if;
    end loop;
    if box.order_mode is not null and died <> '{}' then
        perform baton_internal.settle_inbox_sequences(box, terms, died, null);
    end if;
end
$$;
comment on function baton.claim_inbox(text, text, int, int, text, name[]) is 'leases messages to a worker; returns them with the lease token';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator}', '{claim_inbox}');
