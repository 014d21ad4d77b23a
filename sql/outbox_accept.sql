-- What an outbox takes in: every event passes here, whether publish() or a plain INSERT brings it.
--
-- A row trigger does it. A check constraint would also refuse what a dump brings back, and events larger than today's limit
-- stay. The trigger has no WHEN clause: the server reads the text of a clause, as of a constraint, anew in each statement.
-- The processor's time for an insert of one row, and per row in an insert of a hundred, as ratios to a clause that looks for an
-- idempotency key and nothing else:
--
--   this trigger                           1.06  1.35
--   behind the extension's sieve           0.97  1.04   (sift_event)
--   the checks as a WHEN clause            1.30  1.04
--   as constraints                         1.25  1.03
--   the size alone by a transition table   1.17  1.15
--
-- To look whether an id was handed out takes 2 to 10 % more for one row and 3 to 9 % per row of a hundred, without the commit's wait.

-- How many bytes payload and headers of an event may have: the outbox's own limit, else the stored setting. A session cannot
-- lift it.
create function baton_internal.max_payload_bytes(outbox_id int)
returns bigint
language plpgsql stable  -- keeps its plan, unlike a function in SQL
as $$
begin
    return (select coalesce(o.max_payload_bytes, s.value::bigint, d.value::bigint)
              from baton.setting_defaults d
              left join baton.settings s on s.name = d.name
              left join baton.outboxes o on o.outbox_id = max_payload_bytes.outbox_id
             where d.name = 'outbox_max_payload_bytes');
end
$$;
comment on function baton_internal.max_payload_bytes(int) is 'limit of payload and headers of an outbox''s events, in bytes';

-- Refuse an event that is too large. Text counts with its bytes; jsonb too, unless its stored form is smaller. A compressed value,
-- as it comes from another table, is looked at in full.
create function baton_internal.check_event_size(outbox_id int, payload anyelement, headers jsonb)
returns void
language plpgsql
as $$
declare
    most constant bigint := baton_internal.max_payload_bytes(outbox_id);
    size bigint := coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(headers), 0);
begin
    if size <= most and pg_column_compression(payload) is null and pg_column_compression(headers) is null then
        return;
    end if;
    if pg_typeof(payload) = 'bytea'::regtype then
        size := octet_length(payload);
    else
        size := octet_length(payload::text);
    end if;
    size := coalesce(size, 0) + coalesce(octet_length(headers::text), 0);
    if size > most then
        raise exception 'the event is too large: payload and headers have % bytes, % are allowed', size, most
            using errcode = 'BT006',
                  hint = 'publish a reference to what is large, or raise the limit: baton.alter_outbox(''...'', max_payload_bytes => ...) '
                         'for one outbox, baton.set_setting(''outbox_max_payload_bytes'', ''...'') for all';
    end if;
end
$$;
comment on function baton_internal.check_event_size(int, anyelement, jsonb) is 'raises BT006 when an event is larger than its outbox takes';

-- Refuse an event one of whose texts is too long, and name the text. Keys and ids are indexed, which takes less than 2704 bytes; no other
-- text is worth more.
create function baton_internal.refuse_long_text(names text[], texts text[])
returns void
language plpgsql immutable
as $$
declare
    long record;
begin
    select t.name, octet_length(t.value) as bytes, case t.name when 'tenant_id' then 500 else 2000 end as most into long
      from unnest(names, texts) as t (name, value)
     where octet_length(t.value) > case t.name when 'tenant_id' then 500 else 2000 end limit 1;
    raise exception 'the % of the event is too long: it has % bytes, % are allowed', long.name, long.bytes, long.most
        using errcode = 'BT006', hint = 'use a shorter one, and keep what is long in the payload';
end
$$;
comment on function baton_internal.refuse_long_text(text[], text[]) is 'raises BT006 for the first text that is too long';

-- Refuse a payload of type json that no consumer could read, because jsonb has no place for a character or a number in it. In a short one that
-- takes an escape \u, or an exponent of four digits.
create function baton_internal.check_json_payload(payload text)
returns void
language plpgsql immutable
as $$
begin
    perform payload::jsonb;
exception when data_exception or program_limit_exceeded then
    raise exception 'the payload cannot be delivered as JSON: %', sqlerrm
        using errcode = 'invalid_parameter_value', hint = 'json takes the character \u0000, halves of surrogate pairs and numbers of any size, jsonb does not';
end
$$;
comment on function baton_internal.check_json_payload(text) is 'raises for json that cannot become jsonb';

-- Note an idempotency key; false when it was used within its window.
create function baton_internal.claim_idempotency_key(outbox_id int, tenant_id text, key text, id bigint)
returns boolean
language plpgsql
as $$
begin
    insert into baton_internal.idempotency_keys as k (outbox_id, tenant_id, key, id, expires_at)
    select o.outbox_id, coalesce($2, ''), $3, $4, clock_timestamp() + o.idempotency_window
      from baton.outboxes o where o.outbox_id = $1
    on conflict on constraint idempotency_keys_pkey do update set id = excluded.id, expires_at = excluded.expires_at
     where k.expires_at <= clock_timestamp();
    return found;
end
$$;
comment on function baton_internal.claim_idempotency_key(int, text, text, bigint) is 'notes an idempotency key; false when the key was used before';

-- Whether an id lies in an era that is over: groups that are through with the era would not see the event. While a log is being restored
-- nobody can say.
create function baton_internal.is_of_past_era(outbox_id int, log regclass, id bigint)
returns boolean
language plpgsql stable
as $$
begin
    return exists (select from baton_internal.outbox_eras e where e.outbox_id = is_of_past_era.outbox_id and e.last_id >= is_of_past_era.id)
       and exists (select from baton_internal.outbox_eras e where e.outbox_id = is_of_past_era.outbox_id and e.last_id is null
                      and e.relation_id = log::oid and e.system_identifier = baton_internal.system_identifier());
end
$$;
comment on function baton_internal.is_of_past_era(int, regclass, bigint) is 'true when an id lies in an era that is over';

-- Refuse an id of an era that is over.
create function baton_internal.refuse_past_id(log regclass, id bigint)
returns void
language plpgsql stable
as $$
begin
    raise exception 'event id % is of a time before outbox % was restored', id, log
        using errcode = 'generated_always', hint = 'leave id out, the outbox numbers its events';
end
$$;
comment on function baton_internal.refuse_past_id(regclass, bigint) is 'raises generated_always';

-- Refuse an id that the log's sequence has not handed out: publishers would come upon the id later, and fail for no fault of their own.
-- An id from the past is taken, and delivered as any other: one that is not above the mark is written down (sql/floors.sql). The mark is read
-- after the transaction has its id, which the event carries. Of what a restore loads only the transaction is judged, see
-- refuse_foreign_event(). Remembers for this session where sequence and mark are.
create function baton_internal.check_event_id(outbox_id int, xid xid8, id bigint)
returns void
language plpgsql
as $$
declare
    log constant regclass := (select o.relation from baton.outboxes o where o.outbox_id = check_event_id.outbox_id);
    mark constant regclass := baton_internal.floor_sequence(outbox_id);
    last_id bigint;
begin
    if log is null or xid <> pg_current_xact_id() then
        return;
    end if;
    last_id := baton_internal.next_id(log) - 1;
    if id > last_id then
        raise exception 'event id % was not handed out: the last id of outbox % is %', id, log, last_id
            using errcode = 'generated_always', hint = 'leave id out, the outbox numbers its events';
    elsif (id > pg_sequence_last_value(mark)) is not true then
        if baton_internal.is_of_past_era(outbox_id, log, id) then
            perform baton_internal.refuse_past_id(log, id);
        end if;
        insert into baton_internal.stray_events (outbox_id, xid, id) values (check_event_id.outbox_id, check_event_id.xid, check_event_id.id)
        on conflict on constraint stray_events_pkey do nothing;
    end if;
    perform set_config('baton_session.ids_' || outbox_id, pg_get_serial_sequence(log::text, 'id')::regclass::oid::text, false),
            set_config('baton_session.mark_' || outbox_id, mark::oid::text, false);
end
$$;
comment on function baton_internal.check_event_id(int, xid8, bigint) is 'raises generated_always when the sequence did not give the id of an event; notes strays';

-- Refuse an event while an operator has switched publishing off, however the event comes.
create function baton_internal.check_outbox_enabled()
returns void
language plpgsql stable
as $$
begin
    if not baton.setting('outbox_enabled')::boolean then
        raise exception 'publishing is switched off'
            using errcode = 'BT005', hint = 'an operator set outbox_enabled to off: select baton.set_setting(''outbox_enabled'', ''on'')';
    end if;
end
$$;
comment on function baton_internal.check_outbox_enabled() is 'raises BT005 while publishing is off';

-- Judge an event on its way into the log: refuse what nobody could deliver, leave out what was published before.
create function baton_internal.judge_event()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    ids constant text := current_setting('baton_session.ids_' || tg_argv[0], true);    -- the sequence and the mark, once this session
    mark constant text := current_setting('baton_session.mark_' || tg_argv[0], true);  -- knows them
begin
    -- the mark counts once the transaction has its id: an owner may name the id in advance
    if (new.xid = pg_current_xact_id_if_assigned() and new.id > pg_sequence_last_value(nullif(mark, '')::oid)
        and new.id <= pg_sequence_last_value(nullif(ids, '')::oid)) is not true then
        perform baton_internal.check_event_id(tg_argv[0]::int, new.xid, new.id);
    end if;
    if current_setting('session_replication_role') = 'replica' then
        return new;  -- what a replica brings was judged where it comes from, and only its id counts here
    end if;
    if not baton_internal.publishing_is_on() and new.xid = pg_current_xact_id() then  -- a restore brings events of other transactions
        perform baton_internal.check_outbox_enabled();
    end if;
    if new.event_type = '' then
        raise exception 'an event needs an event_type' using errcode = 'invalid_parameter_value', hint = 'such as order.placed';
    elsif new.schema_version < 0 then
        raise exception 'schema_version cannot be negative, it is %', new.schema_version using errcode = 'invalid_parameter_value';
    elsif jsonb_typeof(new.headers) <> 'object' then
        if new.headers <> 'null' then
            raise exception 'headers must be a JSON object, not: %', left(new.headers::text, 100)
                using errcode = 'invalid_parameter_value', hint = 'like {"name": "value"}, or null';
        end if;
        new.headers := null;  -- JSON's null is how some mappers say that there are none
    end if;
    if greatest(octet_length(new.event_type), octet_length(new.aggregate_type), octet_length(new.aggregate_id), octet_length(new.topic),
                octet_length(new.partition_key), octet_length(new.trace_id), octet_length(new.correlation_id),
                octet_length(new.causation_id), octet_length(new.idempotency_key), octet_length(new.tenant_id) * 4) > 2000 then
        perform baton_internal.refuse_long_text(
            '{event_type,aggregate_type,aggregate_id,topic,partition_key,trace_id,correlation_id,causation_id,idempotency_key,tenant_id}',
            array[new.event_type, new.aggregate_type, new.aggregate_id, new.topic, new.partition_key, new.trace_id, new.correlation_id,
                  new.causation_id, new.idempotency_key, new.tenant_id]);
    elsif new.occurred_at < '0001-01-01 00:00+00' or greatest(new.occurred_at, new.available_at) >= '9999-12-31 00:00+00'
          or new.available_at < '0001-01-01 00:00+00' then
        raise exception 'occurred_at and available_at lie in the years 1 to 9999, not at %',
            case when new.occurred_at between '0001-01-01 00:00+00' and '9999-12-30 23:59:59+00' then new.available_at else new.occurred_at end
            using errcode = 'invalid_parameter_value', hint = 'leave available_at out for an event that may go at once';
    elsif tg_argv[1] = 'json' and (octet_length(new.payload::text) > 2000 or new.payload::text ~ '\\u|[0-9][eE][-+]?[0-9]{4}') then
        perform baton_internal.check_json_payload(new.payload::text);  -- where there is reason to: the check takes a savepoint
    end if;
    -- No limit is below 65536.
    if coalesce(pg_column_size(new.payload), 0) + coalesce(pg_column_size(new.headers), 0) > 65536
       or pg_column_compression(new.payload) is not null or pg_column_compression(new.headers) is not null then
        perform baton_internal.check_event_size(tg_argv[0]::int, new.payload, new.headers);
    end if;
    if new.idempotency_key = '' then
        new.idempotency_key := null;  -- or all events of a mapper that writes '' would be duplicates of the first
    elsif new.idempotency_key is not null
          and not baton_internal.claim_idempotency_key(tg_argv[0]::int, new.tenant_id, new.idempotency_key, new.id) then
        return null;
    end if;
    return new;
end
$$;
comment on function baton_internal.judge_event() is 'row trigger of an outbox: refuses events that cannot be delivered, leaves out duplicates';

-- Refuse an event without its tenant and say what to do; row-level security would refuse without a hint.
create function baton_internal.refuse_tenant()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    session_tenant constant text := nullif(current_setting('baton.tenant_id', true), '');
begin
    raise exception '%', case when new.tenant_id is null then 'an event of this outbox needs a tenant'
                              when session_tenant is null then format('the event is of tenant "%s", the session has none', new.tenant_id)
                              else format('the event is of tenant "%s", the session of tenant "%s"', new.tenant_id, session_tenant) end
        using errcode = 'insufficient_privilege',
              hint = 'name the tenant in your transaction: select set_config(''baton.tenant_id'', ''...'', true)';
end
$$;
comment on function baton_internal.refuse_tenant() is 'row trigger of an outbox with tenants: refuses events of another tenant, with a hint';

-- Put the triggers on an outbox that judge what comes in.
create function baton_internal.guard_outbox(outbox baton.outboxes)
returns void
language plpgsql
as $$
begin
    execute format('create trigger baton_event before insert on %s for each row execute function %s(%L, %L)', outbox.relation,
                   coalesce(to_regproc('baton_internal.sift_event'), to_regproc('baton_internal.judge_event')), outbox.outbox_id,
                   outbox.payload_type);
    execute format('alter table %s enable always trigger baton_event', outbox.relation);  -- floors count on it, see docs/adr/0009-floors.md
    if outbox.tenancy then
        -- Fires first, by its name: no key of another tenant is looked up. The clause runs with the writer's rights, which decide
        -- whether row-level security holds.
        execute format($sql$create trigger baton_apart before insert on %1$s for each row
            when (new.tenant_id is null or new.tenant_id is distinct from nullif(current_setting('baton.tenant_id', true), '')
                  and row_security_active(%2$L::regclass))
            execute function baton_internal.refuse_tenant()$sql$, outbox.relation, outbox.relation);
    end if;
end
$$;
comment on function baton_internal.guard_outbox(baton.outboxes) is 'makes the triggers that check events on their way into an outbox';
