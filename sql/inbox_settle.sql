-- complete, fail, release, extend: a leased message is settled in the handler's own transaction, with its token.

-- Raise why messages cannot be settled with this token.
create function baton_internal.raise_inbox_lease_lost(it baton.inboxes, event_ids text[], lease_token uuid)
returns void
language plpgsql
as $$
declare
    m record;
    lease text := case when it.layout = 'managed' then 't' else 'w' end;
    inbox_name text := format('%I.%I', it.schema_name, it.name);
begin
    execute format($query$
        select g.id as asked, t.%2$I is not null as stored, t.%3$I is not null as done, %1$s.lease_token, %1$s.leased_by, %1$s.leased_until
          from unnest($1) g (id)
          left join %4$s t on t.%2$I = g.id::%5$s %6$s
          left join baton_internal.inbox_work w on w.inbox = $2 and w.event_id = g.id
         where t.%2$I is null or t.%3$I is not null or %1$s.lease_token is distinct from $3
            or ($3 is null and %1$s.leased_until > clock_timestamp())
         limit 1$query$, lease, it.id_column, it.processed_at_column, it.relation, baton_internal.inbox_column_type(it, it.id_column),
        baton_internal.inbox_group_condition(it, 't.')) into m using event_ids, it.id, lease_token;
    if not coalesce(m.stored, false) and exists (select 1 from baton_internal.inbox_keys k where k.inbox = it.id and k.event_id = m.asked) then
        m.done := true;  -- processed, and drained since
    elsif not coalesce(m.stored, false) then
        raise exception 'message "%" is not in inbox "%"', m.asked, inbox_name
            using errcode = 'BT002', hint = 'settle only messages that claim_inbox() returned';
    elsif lease_token is null and not m.done then
        raise exception 'message "%" of inbox "%" is leased by worker "%"', m.asked, inbox_name, m.leased_by
            using errcode = 'BT003', hint = 'give the lease token that claim_inbox() returned';
    end if;
    raise exception 'lease lost on message "%" of inbox "%"', m.asked, inbox_name
        using errcode = 'BT001',
              detail = case when m.done then 'it has been processed'
                            when m.lease_token is null then 'its lease ran out and it was settled or given back since'
                            else format('worker "%s" holds it until %s', m.leased_by, m.leased_until) end,
              hint = 'roll back this transaction so that the message has its effect once, then claim again';
end
$$;
comment on function baton_internal.raise_inbox_lease_lost(baton.inboxes, text[], uuid) is 'raises BT001, BT002 or BT003 for messages that cannot be settled';

-- Write the statement that settles messages of an adopted table together with their rows in baton_internal.inbox_work. The
-- message is locked before its lease, as in a claim, so that the two never wait for each other in a circle.
create function baton_internal.inbox_settle_adopted_sql(it baton.inboxes, terms baton_internal.inbox_terms, action text, settings text, lease_token uuid)
returns text
language sql stable
as $$
    select format($query$
        with locked as materialized (%4$s), held as materialized (%1$s), moved as (%2$s), noted as (%3$s returning 1)
        select count(*) from moved, (select count(*) from noted) n (written)$query$,
        case when lease_token is not null then
            format('select w.event_id from locked k join baton_internal.inbox_work w on w.inbox = %s and w.event_id = k.id and w.lease_token = $2 for update of w', it.id)
        else
            format('select g.id as event_id from unnest($3) g (id) where not exists (select 1 from baton_internal.inbox_work w'
                   ' where w.inbox = %s and w.event_id = g.id and w.leased_until > $1)', it.id) end,
        case when settings = '' then
            format('select %s as id, %s as retries from %s t join held h on t.%I = h.event_id::%s where %s',
                   terms.id, terms.retries, it.relation, it.id_column, terms.id_type, terms.unfinished)
        else
            format('update %s t set %s from held h where t.%I = h.event_id::%s and %s returning %s as id, %s as retries',
                   it.relation, settings, it.id_column, terms.id_type, terms.unfinished, terms.id, terms.retries) end,
        case action
            when 'complete' then format('delete from baton_internal.inbox_work w using moved m where w.inbox = %s and w.event_id = m.id', it.id)
            when 'fail' then format('insert into baton_internal.inbox_work as w (inbox, event_id, available_at)'
                                    ' select %s, m.id, $1 + baton_internal.backoff_delay(%L, %L, %L, m.retries) from moved m'
                                    ' on conflict (inbox, event_id) do update set available_at = excluded.available_at,'
                                    ' lease_token = null, leased_by = null, leased_until = null, lapsed = false',
                                    it.id, it.backoff_base, it.backoff_cap, it.backoff_jitter)
            when 'release' then format('update baton_internal.inbox_work w set lease_token = null, leased_by = null, leased_until = null, lapsed = false'
                                       ' from moved m where w.inbox = %s and w.event_id = m.id', it.id)
            else format('update baton_internal.inbox_work w set leased_until = $6 from moved m where w.inbox = %s and w.event_id = m.id', it.id) end,
        format('select %s as id from %s t where t.%I = any ($3::%s[]) and %s order by 1 for no key update',
               terms.id, it.relation, it.id_column, terms.id_type, terms.unfinished))
$$;
comment on function baton_internal.inbox_settle_adopted_sql(baton.inboxes, baton_internal.inbox_terms, text, text, uuid) is 'statement that settles messages of an adopted table';

-- Settle messages: all of them with this token, or none.
create function baton_internal.settle_inbox(it baton.inboxes, action text, event_ids text[], lease_token uuid,
                                   error text default null, permanent boolean default false, leased_until timestamptz default null)
returns bigint
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(it);
    moment timestamptz := clock_timestamp();
    ids text[] := array(select distinct e from unnest(event_ids) e order by e);
    settings text := case action when 'complete' then terms.complete when 'fail' then terms.fail when 'release' then terms.release
                                 else case when it.layout = 'managed' then 'leased_until = $6' else '' end end;
    settled bigint;
begin
    if it.layout = 'managed' then
        execute format('with moved as (update %s t set %s where t.event_id = any ($3) and t.processed_at is null and %s returning 1)'
                       ' select count(*) from moved', it.relation, settings,
                       case when lease_token is not null then 't.lease_token = $2'
                            else '(t.leased_until is null or t.leased_until <= $1)' end)
           into settled using moment, lease_token, ids, error, permanent, leased_until;
    else
        execute baton_internal.inbox_settle_adopted_sql(it, terms, action, settings, lease_token)
           into settled using moment, lease_token, ids, error, permanent, leased_until;
    end if;
    if settled <> cardinality(ids) then
        perform baton_internal.raise_inbox_lease_lost(it, ids, lease_token);
    end if;
    if it.ordering_enabled and action <> 'complete' then
        perform baton_internal.settle_inbox_sequences(it, ids, leased_until);
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
as $$ select baton_internal.settle_inbox(baton_internal.need_inbox(inbox, path), 'complete', event_ids, lease_token) $$;
comment on function baton.complete_inbox(text, text[], uuid, name[]) is 'marks leased messages as processed; BT001 if the lease was lost';

-- The inbox with another wait before the next attempt, where one is given.
create function baton_internal.inbox_with_delay(it baton.inboxes, retry_after interval)
returns baton.inboxes
language plpgsql immutable
as $$
begin
    if retry_after is not null then
        it.backoff_base := greatest(retry_after, interval '0');
        it.backoff_cap := it.backoff_base;
        it.backoff_jitter := 0;
    end if;
    return it;
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
as $$ select baton_internal.settle_inbox(baton_internal.inbox_with_delay(baton_internal.need_inbox(inbox, path), retry_after), 'fail', event_ids, lease_token,
                                coalesce(error, 'failed'), coalesce(permanent, false)) $$;
comment on function baton.fail_inbox(text, text[], text, boolean, uuid, interval, name[]) is 'records a failed attempt: retry after backoff, or dead';

-- Give messages back unworked, without counting an attempt.
create function baton.release_inbox(inbox text, event_ids text[], lease_token uuid, path name[] default current_schemas(false))
returns bigint
language sql
security definer set search_path = pg_catalog, pg_temp
as $$ select baton_internal.settle_inbox(baton_internal.need_inbox(inbox, path), 'release', event_ids, lease_token) $$;
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
    perform baton_internal.settle_inbox(baton_internal.need_inbox(inbox, path), 'extend', event_ids, lease_token, leased_until => until);
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
