-- complete, fail, release, extend: a leased message is settled in the handler's own transaction, with its token.

-- Raise why messages cannot be settled with this token.
create function baton_internal.raise_inbox_lease_lost(box baton.inboxes, event_ids text[], lease_token uuid)
returns void
language plpgsql
as $$
declare
    m record;
    inbox_name text := format('%I.%I', box.schema_name, box.name);
    parts jsonb := baton_internal.inbox_parts(box, baton_internal.inbox_terms(box)) || jsonb_build_object(
        'group_condition', baton_internal.inbox_group_condition(box, 't.'));
begin
    if box.layout = 'managed' then
        execute baton_internal.fill($query$
            select g.id as asked, {key} is not null as stored, t.processed_at is not null as done, t.lease_token, t.leased_by, t.leased_until
              from unnest($1) g (id) left join {relation} t on {key} = g.id
             where {key} is null or t.processed_at is not null or t.lease_token is distinct from $2
                or ($2 is null and t.leased_until > clock_timestamp())
             limit 1$query$, parts) into m using event_ids, lease_token;
    else
        select g.id as asked, r.id is not null as stored, coalesce(r.done, false) as done, w.lease_token, w.leased_by, w.leased_until into m
          from unnest(event_ids) g (id)
          left join baton_internal.run_as_owner(box.relation, baton_internal.fill($query$
                        select {id}, {processed_at} is not null from {relation} t where {key} = any ($2::{id_type}[]){group_condition}$query$, parts),
                        ids => event_ids) as r (id text, done boolean) on r.id = g.id
          left join baton_internal.inbox_work w on w.inbox = box.id and w.event_id = g.id
         where r.id is null or r.done or w.lease_token is distinct from raise_inbox_lease_lost.lease_token
            or (raise_inbox_lease_lost.lease_token is null and w.leased_until > clock_timestamp())
         limit 1;
    end if;
    if not coalesce(m.stored, false) and exists (select 1 from baton_internal.inbox_keys k where k.inbox = box.id and k.event_id = m.asked) then
        m.done := true;  -- processed, and drained since
    elsif not coalesce(m.stored, false) then
        raise exception 'message "%" is not in inbox "%"', baton_internal.tenant_name(box, m.asked), inbox_name
            using errcode = 'BT002', hint = 'settle only messages that claim_inbox() returned';
    elsif lease_token is null and not m.done then
        raise exception 'message "%" of inbox "%" is leased by worker "%"', baton_internal.tenant_name(box, m.asked), inbox_name, m.leased_by
            using errcode = 'BT003', hint = 'give the lease token that claim_inbox() returned';
    end if;
    raise exception 'lease lost on message "%" of inbox "%"', baton_internal.tenant_name(box, m.asked), inbox_name
        using errcode = 'BT001',
              detail = case when m.done then 'it has been processed'
                            when m.lease_token is null then 'its lease ran out and it was settled or given back since'
                            else format('worker "%s" holds it until %s', m.leased_by, m.leased_until) end,
              hint = 'roll back this transaction so that the message has its effect once, then claim again';
end
$$;
comment on function baton_internal.raise_inbox_lease_lost(baton.inboxes, text[], uuid) is 'raises BT001, BT002 or BT003 for messages that cannot be settled';

-- Settle messages: all of them with this token, or none.
create function baton_internal.settle_inbox(box baton.inboxes, action text, event_ids text[], lease_token uuid,
                                   error text default null, permanent boolean default false, leased_until timestamptz default null)
returns bigint
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box);
    moment timestamptz := clock_timestamp();
    ids text[] := baton_internal.inbox_message_keys(box, event_ids, lease_token);
    change text := case action when 'complete' then terms.complete when 'fail' then terms.fail when 'release' then terms.release
                               when 'extend' then 'leased_until = $6' end;
    held text := case when lease_token is not null then 't.lease_token = $2' else '(t.leased_until is null or t.leased_until <= $1)' end;
    settled bigint;
begin
    perform baton_internal.check_inbox_grants(box, '{select,update}');
    if box.order_mode = 'arrival' and lease_token is not null and action in ('complete', 'extend') then
        perform baton_internal.check_inbox_aggregates_held(box, terms, ids);
    end if;
    if box.layout <> 'managed' then
        settled := baton_internal.settle_adopted(box, action, ids, lease_token, moment, error, permanent, leased_until);
    else
        execute format($query$
            with moved as (update %s t set %s where t.%I = any ($3) and %s and %s returning 1)
            select count(*) from moved$query$, box.relation, change, box.id_column, terms.unfinished, held)
           into settled using moment, lease_token, ids, error, permanent, leased_until;
    end if;
    if settled <> cardinality(ids) then
        perform baton_internal.raise_inbox_lease_lost(box, ids, lease_token);
    end if;
    if box.order_mode = 'arrival' or box.order_mode = 'sequence' and action <> 'complete' then
        perform baton_internal.settle_inbox_sequences(box, terms, ids, leased_until);
    end if;
    return settled;
end
$$;
comment on function baton_internal.settle_inbox(baton.inboxes, text, text[], uuid, text, boolean, timestamptz) is 'completes, fails, releases or extends leased messages';

-- Finish messages in the handler's transaction. Raises BT001 when the lease was lost: then the handler's work must roll back.
create function baton.complete_inbox(inbox text, event_ids text[], lease_token uuid default null, path name[] default current_schemas(false))
returns bigint
language sql
security definer set search_path = pg_catalog, pg_temp
as $$ select baton_internal.settle_inbox(baton_internal.need_tenant_inbox(inbox, path), 'complete', event_ids, lease_token) $$;
comment on function baton.complete_inbox(text, text[], uuid, name[]) is 'marks leased messages as processed; BT001 if the lease was lost';

-- The inbox with another wait before the next attempt, where one is given.
create function baton_internal.inbox_with_delay(box baton.inboxes, retry_after interval)
returns baton.inboxes
language plpgsql immutable
as $$
begin
    if retry_after is not null then
        box.backoff_base := least(greatest(retry_after, interval '0'), interval '100 years');
        box.backoff_cap := box.backoff_base;
        box.backoff_jitter := 0;
    end if;
    return box;
end
$$;
comment on function baton_internal.inbox_with_delay(baton.inboxes, interval) is 'an inbox whose backoff is replaced by one delay';

-- Count a failed attempt: the messages come back after a backoff, or after the time given; they are dead when that was the
-- last or the failure is permanent.
create function baton.fail_inbox(inbox text, event_ids text[], error text, permanent boolean default false, lease_token uuid default null,
                                 retry_after interval default null, path name[] default current_schemas(false))
returns bigint
language sql
security definer set search_path = pg_catalog, pg_temp
as $$ select baton_internal.settle_inbox(baton_internal.inbox_with_delay(baton_internal.need_tenant_inbox(inbox, path), retry_after), 'fail', event_ids, lease_token,
                                coalesce(error, 'failed'), coalesce(permanent, false)) $$;
comment on function baton.fail_inbox(text, text[], text, boolean, uuid, interval, name[]) is 'records a failed attempt: retry after backoff, or dead';

-- Give messages back unworked, without counting an attempt.
create function baton.release_inbox(inbox text, event_ids text[], lease_token uuid, path name[] default current_schemas(false))
returns bigint
language sql
security definer set search_path = pg_catalog, pg_temp
as $$ select baton_internal.settle_inbox(baton_internal.need_tenant_inbox(inbox, path), 'release', event_ids, lease_token) $$;
comment on function baton.release_inbox(text, text[], uuid, name[]) is 'returns leased messages to the inbox without counting an attempt';

-- Move the end of a lease; returns the new end.
create function baton.extend_inbox_lease(inbox text, event_ids text[], lease_token uuid, lease_seconds int default 30,
                                         path name[] default current_schemas(false))
returns timestamptz
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    until timestamptz := clock_timestamp() + make_interval(secs => lease_seconds);
begin
    perform baton_internal.check_inbox_claim('-', 1, lease_seconds);
    if lease_token is null then
        raise exception 'extending a lease needs its token' using errcode = 'invalid_parameter_value';
    end if;
    perform baton_internal.settle_inbox(baton_internal.need_tenant_inbox(inbox, path), 'extend', event_ids, lease_token, leased_until => until);
    return until;
end
$$;
comment on function baton.extend_inbox_lease(text, text[], uuid, int, name[]) is 'keeps leased messages for longer; BT001 if the lease was lost';

-- The same for one message, and under the short names.
create function baton.complete_inbox(inbox text, event_id text, lease_token uuid default null, path name[] default current_schemas(false))
returns bigint language sql as $$ select baton.complete_inbox(inbox, array[event_id], lease_token, path) $$;
comment on function baton.complete_inbox(text, text, uuid, name[]) is 'marks a leased message as processed';

create function baton.fail_inbox(inbox text, event_id text, error text, permanent boolean default false, lease_token uuid default null,
                                 retry_after interval default null, path name[] default current_schemas(false))
returns bigint language sql as $$ select baton.fail_inbox(inbox, array[event_id], error, permanent, lease_token, retry_after, path) $$;
comment on function baton.fail_inbox(text, text, text, boolean, uuid, interval, name[]) is 'records a failed attempt at a message';

create function baton.complete(inbox text, event_ids text[], lease_token uuid default null, path name[] default current_schemas(false))
returns bigint language sql as $$ select baton.complete_inbox(inbox, event_ids, lease_token, path) $$;
comment on function baton.complete(text, text[], uuid, name[]) is 'same as complete_inbox';

create function baton.complete(inbox text, event_id text, lease_token uuid default null, path name[] default current_schemas(false))
returns bigint language sql as $$ select baton.complete_inbox(inbox, array[event_id], lease_token, path) $$;
comment on function baton.complete(text, text, uuid, name[]) is 'same as complete_inbox';

create function baton.fail(inbox text, event_ids text[], error text, permanent boolean default false, lease_token uuid default null,
                           retry_after interval default null, path name[] default current_schemas(false))
returns bigint language sql as $$ select baton.fail_inbox(inbox, event_ids, error, permanent, lease_token, retry_after, path) $$;
comment on function baton.fail(text, text[], text, boolean, uuid, interval, name[]) is 'same as fail_inbox';

create function baton.fail(inbox text, event_id text, error text, permanent boolean default false, lease_token uuid default null,
                           retry_after interval default null, path name[] default current_schemas(false))
returns bigint language sql as $$ select baton.fail_inbox(inbox, array[event_id], error, permanent, lease_token, retry_after, path) $$;
comment on function baton.fail(text, text, text, boolean, uuid, interval, name[]) is 'same as fail_inbox';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator}',
                                '{complete_inbox,fail_inbox,release_inbox,extend_inbox_lease,complete,fail}');
