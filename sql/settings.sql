-- Settings: a session's or database's `baton.<name>` parameter wins, then the row that
-- baton.set_setting() stored, then the default. A name once released is never removed.
-- What decides about deleting and reaping, and when maintenance runs, is read from the stored value only: anybody can set a parameter.

create table baton.setting_defaults (
    name        text primary key,
    value       text not null,
    kind        text not null check (kind in ('boolean', 'integer')),
    description text not null,
    minimum     bigint not null default 0,      -- the smallest value of an integer
    maximum     bigint not null default 1000000000,
    stored_only boolean not null default false  -- no parameter replaces the stored value
);
comment on table baton.setting_defaults is 'every setting with its default';

insert into baton.setting_defaults (name, value, kind, description) values
    ('outbox_enabled', 'on', 'boolean', 'outboxes take events in, by publish() or by INSERT'),
    ('outbox_drain_batch_size', '10000', 'integer', 'rows per cleanup step of an adopted table'),
    ('outbox_inline_threshold_rows', '10000', 'integer', 'rows of a stream table''s delta up to which they are in the event itself'),
    ('outbox_claim_check_batch_size', '1000', 'integer', 'no effect: who reads the rows of a large delta says how many at a time'),
    ('outbox_max_payload_bytes', '1048576', 'integer', 'how large payload and headers of an event may be; the stored value counts, not a session''s'),
    ('outbox_storage_critical_mb', '1024', 'integer', 'an outbox above this size raises outbox_storage_critical'),
    ('outbox_skip_empty_delta', 'on', 'boolean', 'a refresh of a stream table that changes nothing publishes nothing'),
    ('inbox_enabled', 'on', 'boolean', 'receive() accepts messages'),
    ('inbox_drain_batch_size', '10000', 'integer', 'rows per inbox cleanup step'),
    ('inbox_dlq_alert_max_per_refresh', '10', 'integer', 'dead-letter alerts sent one by one before they are summed up'),
    ('notify_despite_two_phase', 'off', 'boolean', 'without the extension: notify sleeping readers although max_prepared_transactions is not 0');

insert into baton.setting_defaults (name, value, kind, description, stored_only) values
    ('outbox_drain_interval_seconds', '60', 'integer', 'pause between two retention runs', true),
    ('inbox_drain_interval_seconds', '60', 'integer', 'pause between two inbox cleanups', true),
    ('outbox_publish_after_standbys', '0', 'integer', 'an event leaves only when this many standbys have its commit on disk', true),
    ('outbox_retention_hours', '24', 'integer', 'how long settled events are kept', true),
    ('outbox_force_retention', 'off', 'boolean', 'drop by age even what a group has not settled', true),
    ('consumer_dead_threshold_hours', '24', 'integer', 'a consumer silent for this long is reaped', true),
    ('consumer_stale_offset_threshold_days', '7', 'integer', 'a reaped consumer without a commit for this long is forgotten', true),
    ('consumer_cleanup_enabled', 'on', 'boolean', 'reap dead consumers', true),
    ('stream_max_failures', '10', 'integer', 'a stream table whose refresh fails so often in a row is left alone, 0 goes on trying', true),
    ('stream_fuse_rows', '10000000', 'integer', 'a refresh by schedule that would change more rows stops the stream table instead, 0 lets all pass', true),
    ('stream_refresh_limit_seconds', '300', 'integer', 'a refresh by schedule that takes longer is cancelled and counts as a failure, 0 lets all go on', true),
    ('stream_live_interval_ms', '50', 'integer', 'shortest time between two refreshes of a stream table with schedule ''live''', true),
    ('stream_buffer_rows', '1000000', 'integer', 'changes of a source that are kept for a stream table that is by hand, paused, failing or stopped; its next refresh computes everything when there are more, 0 keeps all', true),
    ('outbox_full_refresh_snapshot', 'off', 'boolean', 'a stream table that is computed in full publishes all of its rows, marked full_refresh, instead of what changed', true),
    ('stream_history_hours', '168', 'integer', 'how long stream_table_history() reaches back', true),
    ('inbox_processed_retention_hours', '72', 'integer', 'how long processed messages are kept', true),
    ('inbox_dlq_retention_hours', '0', 'integer', 'how long dead messages are kept, 0 keeps them', true),
    ('inbox_dedup_retention_hours', '720', 'integer', 'how long a processed message is recognised as a duplicate', true);

-- An event is copied as jsonb when it is parked: bytes take twice their number there, and no value of jsonb has more than 268435455.
update baton.setting_defaults set minimum = 65536, maximum = 128000000 where name = 'outbox_max_payload_bytes';

-- Times end after a hundred years: what is longer leads to moments that no timestamp holds.
update baton.setting_defaults set maximum = case when name like '%\_hours' then 876000 when name like '%\_days' then 36500 else 31536000 end
 where name ~ '_(hours|days|seconds)$';

-- Whether a text is a value that a setting can have.
create function baton_internal.is_setting_value(d baton.setting_defaults, value text)
returns boolean
language plpgsql immutable
as $$
begin
    return case d.kind when 'integer' then value::bigint between d.minimum and d.maximum else value::boolean is not null end;
exception when invalid_text_representation or numeric_value_out_of_range then
    return false;
end
$$;
comment on function baton_internal.is_setting_value(baton.setting_defaults, text) is 'true when a text is a valid value of a setting';

create table baton.settings (
    name       text        primary key references baton.setting_defaults,
    value      text        not null,
    updated_at timestamptz not null default now(),
    updated_by text        not null default session_user
);
comment on table baton.settings is 'values stored by baton.set_setting()';

-- Return a setting's value as text. A parameter can be set to anything, for a whole database, too: one that is no value of the setting does
-- not count, because whoever reads the setting would fail from then on.
create function baton.setting(name text)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    parameter constant text := nullif(current_setting('baton.' || setting.name, true), '');
    found_one record;
begin
    select d as definition, coalesce(s.value, d.value) as stored, d.stored_only into found_one
      from baton.setting_defaults d left join baton.settings s on s.name = d.name
     where d.name = setting.name;
    if not found then
        if parameter is null then
            raise exception 'unknown setting "%"', setting.name
                using errcode = 'undefined_object', hint = 'see the table baton.setting_defaults';
        end if;
        return parameter;
    elsif parameter is not null and not found_one.stored_only then
        if baton_internal.is_setting_value(found_one.definition, parameter) then
            return parameter;
        end if;
        raise warning 'the parameter baton.% does not count: "%" is no value of this setting', setting.name, left(parameter, 100)
            using hint = 'it takes ' || baton_internal.setting_range(found_one.definition);
    end if;
    return found_one.stored;
end
$$;
comment on function baton.setting(text) is 'value of a setting: the parameter baton.<name> where there may be one, else the stored value, else the default';

-- Say which values a setting takes.
create function baton_internal.setting_range(d baton.setting_defaults)
returns text
language sql immutable
as $$ select case d.kind when 'integer' then format('a whole number from %s to %s', d.minimum, d.maximum) else 'a boolean' end $$;
comment on function baton_internal.setting_range(baton.setting_defaults) is 'the valid values of a setting, in words';

-- Store a setting's value for this database.
create function baton.set_setting(name text, value text)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    d baton.setting_defaults;
begin
    select x.* into d from baton.setting_defaults x where x.name = set_setting.name;
    if not found then
        raise exception 'unknown setting "%"', coalesce(set_setting.name, 'null')
            using errcode = 'undefined_object', hint = 'see the table baton.setting_defaults';
    elsif not coalesce(baton_internal.is_setting_value(d, set_setting.value), false) then
        raise exception 'setting "%" takes %, not %', set_setting.name, baton_internal.setting_range(d),
                        coalesce('"' || left(set_setting.value, 100) || '"', 'null')
            using errcode = 'invalid_parameter_value', hint = format('its default is %s', d.value);
    end if;
    insert into baton.settings (name, value) values (set_setting.name, set_setting.value)
    on conflict on constraint settings_pkey
    do update set value = excluded.value, updated_at = now(), updated_by = session_user;
    perform baton_internal.record_action('set_setting', set_setting.name, jsonb_build_object('value', set_setting.value));
end
$$;
comment on function baton.set_setting(text, text) is 'stores a setting for this database';

-- Refuse a time that is longer than a hundred years.
create function baton_internal.check_duration(name text, duration interval)
returns void
language plpgsql immutable
as $$
begin
    if duration > interval '100 years' then
        raise exception '% cannot be longer than 100 years, it is %', name, duration
            using errcode = 'invalid_parameter_value', hint = 'moments that far away are no timestamps any more';
    end if;
end
$$;
comment on function baton_internal.check_duration(text, interval) is 'raises for an interval that is too long to be added to a timestamp';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{set_setting,grant_roles}');
select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer,baton_relay,baton_consumer,baton_producer}', '{setting}');
select baton_internal.declare_privileges('select', '{baton_operator,baton_viewer,baton_relay}', '{installation,settings,setting_defaults}');
