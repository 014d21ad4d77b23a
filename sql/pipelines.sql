-- Pipelines kept in the catalog, for relays that are started without a file or beside it.
--
-- Settings have the form of a pipeline in the relay's file:
--   {"source": {"outbox": "order_events"}, "sink": {"type": "kafka", "brokers": "...", "topic": "orders"}}
-- Secrets are never stored: write ${env:NAME} or ${file:/path}, the relay looks them up where it runs.

create table baton.pipelines (
    name       text        primary key,
    settings   jsonb       not null,
    enabled    boolean     not null default true,
    revision   bigint      not null default 1,
    updated_at timestamptz not null default clock_timestamp(),
    updated_by text        not null default session_user
);
comment on table baton.pipelines is 'pipelines that relays run, by name';

-- Which relay does what only one needs to do.
create table baton_internal.relay_leader (
    duty  text        primary key check (duty in ('jobs', 'metrics')),
    owner text        not null,
    until timestamptz not null
) with (fillfactor = 50);
comment on table baton_internal.relay_leader is 'the relay that runs the scheduler''s jobs where the extension does not, and the one whose metrics tell of the database';

-- Raise when some setting whose name says that it is a secret holds one in clear, or a URL carries a password.
create function baton_internal.refuse_secrets(settings jsonb, path text default '')
returns void
language plpgsql immutable
as $$
declare
    entry record;
    place text;
begin
    for entry in select key, value from jsonb_each(settings) loop
        place := path || case when path = '' then '' else '.' end || entry.key;
        if jsonb_typeof(entry.value) = 'object' then
            perform baton_internal.refuse_secrets(entry.value, place);
        elsif (entry.key ~* '(password|passwd|secret|token|credential|private_key|api_?key|access_key)'
               and jsonb_typeof(entry.value) <> 'boolean' and (entry.value #>> '{}') !~ '^[$][{](env|file):[^}]+[}]$')
              or (entry.value #>> '{}') ~ '://[^/@:]*:(?![$][{])[^/@]+@'
              or (entry.value #>> '{}') ~* '[[:<:]]password[[:space:]]*=[[:space:]]*[^[:space:]$]' then
            raise exception 'setting "%" holds a secret in clear', place
                using errcode = 'invalid_parameter_value',
                      hint = 'write ${env:NAME} or ${file:/path} in its place; the relay looks it up where it runs';
        end if;
    end loop;
end
$$;
comment on function baton_internal.refuse_secrets(jsonb, text) is 'raises when settings hold a secret as plain text';

-- What a relay can read from and write to. Assembling this file puts in the names of the brokers' folders (src/brokers).
create function baton_internal.known_sources()
returns text[]
language sql immutable
as $$ select array['outbox', 'postgres', @sources@] $$;
comment on function baton_internal.known_sources() is 'the types of sources that relays know';

create function baton_internal.known_sinks()
returns text[]
language sql immutable
as $$ select array[@sinks@] $$;
comment on function baton_internal.known_sinks() is 'the types of sinks that relays know';

-- Refuse settings that no relay could run.
create function baton_internal.check_pipeline(name text, settings jsonb)
returns void
language plpgsql immutable
as $$
declare
    part text;
begin
    if coalesce(name, '') = '' or octet_length(name) > 200 then
        raise exception 'a pipeline needs a name of 1 to 200 bytes' using errcode = 'invalid_parameter_value';
    elsif settings is null or jsonb_typeof(settings) <> 'object' then
        raise exception 'the settings of a pipeline are a JSON object' using errcode = 'invalid_parameter_value',
            hint = 'like {"source": {"outbox": "orders"}, "sink": {"type": "stdout"}}';
    end if;
    for part in select jsonb_object_keys(settings) loop
        if part not in ('source', 'sink', 'filter', 'failure', 'limits') then
            raise exception 'pipeline "%": % is not a part of a pipeline', name, part using errcode = 'invalid_parameter_value',
                hint = 'the parts are source, sink, filter, failure and limits';
        elsif jsonb_typeof(settings -> part) <> 'object' then
            raise exception 'pipeline "%": % must be an object', name, part using errcode = 'invalid_parameter_value';
        end if;
    end loop;
    if settings #>> '{source,outbox}' is null and coalesce(settings #>> '{source,type}', 'outbox') = 'outbox' then
        raise exception 'pipeline "%": source.outbox is missing', name using errcode = 'invalid_parameter_value',
            hint = 'name an outbox, or a broker as source.type';
    elsif settings #>> '{sink,type}' is null then
        raise exception 'pipeline "%": sink.type is missing', name using errcode = 'invalid_parameter_value';
    elsif settings #>> '{sink,type}' <> all (baton_internal.known_sinks()) then
        raise exception 'pipeline "%": there is no sink of type "%"', name, settings #>> '{sink,type}' using errcode = 'invalid_parameter_value',
            hint = 'known sinks: ' || array_to_string(baton_internal.known_sinks(), ', ');
    elsif coalesce(settings #>> '{source,type}', 'outbox') <> all (baton_internal.known_sources()) then
        raise exception 'pipeline "%": there is no source of type "%"', name, settings #>> '{source,type}' using errcode = 'invalid_parameter_value',
            hint = 'known sources: ' || array_to_string(baton_internal.known_sources(), ', ');
    end if;
    perform baton_internal.refuse_secrets(settings);
end
$$;
comment on function baton_internal.check_pipeline(text, jsonb) is 'validates a pipeline as far as the database can';

-- Make a pipeline, or change it. Running relays follow within seconds.
create function baton.set_pipeline(name text, settings jsonb, enabled boolean default true)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform baton_internal.check_pipeline(name, settings);
    if enabled is null then
        raise exception 'a pipeline is enabled or not, but never null' using errcode = 'null_value_not_allowed';
    end if;
    insert into baton.pipelines as p (name, settings, enabled, updated_by) values (set_pipeline.name, set_pipeline.settings, set_pipeline.enabled, baton_internal.caller())
    on conflict on constraint pipelines_pkey do update
       set settings = excluded.settings, enabled = excluded.enabled, revision = p.revision + 1, updated_at = clock_timestamp(),
           updated_by = excluded.updated_by;
    perform baton_internal.record_action('set_pipeline', name, jsonb_build_object('settings', settings, 'enabled', enabled));
end
$$;
comment on function baton.set_pipeline(text, jsonb, boolean) is 'makes or changes a pipeline in the catalog';

-- Switch a pipeline on or off.
create function baton_internal.switch_pipeline(name text, enabled boolean)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update baton.pipelines p
       set enabled = switch_pipeline.enabled, revision = p.revision + 1, updated_at = clock_timestamp(), updated_by = baton_internal.caller()
     where p.name = switch_pipeline.name;
    if not found then
        raise exception 'there is no pipeline "%"', name using errcode = 'undefined_object',
            hint = 'see baton.list_pipelines(); pipelines in a relay''s file are switched there';
    end if;
    perform baton_internal.record_action(case when enabled then 'enable_pipeline' else 'disable_pipeline' end, name);
end
$$;
comment on function baton_internal.switch_pipeline(text, boolean) is 'enables or disables a pipeline; called by enable_pipeline() and disable_pipeline()';

create function baton.enable_pipeline(name text)
returns void
language sql
as $$ select baton_internal.switch_pipeline(name, true) $$;
comment on function baton.enable_pipeline(text) is 'lets relays run a pipeline';

create function baton.disable_pipeline(name text)
returns void
language sql
as $$ select baton_internal.switch_pipeline(name, false) $$;
comment on function baton.disable_pipeline(text) is 'makes relays drain and stop a pipeline; its group keeps its place';

-- Delete a pipeline. Its group and position stay until drop_consumer_group().
create function baton.delete_pipeline(name text, if_exists boolean default false)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from baton.pipelines p where p.name = delete_pipeline.name;
    if not found then
        if if_exists then
            return false;
        end if;
        raise exception 'there is no pipeline "%"', name using errcode = 'undefined_object', hint = 'see baton.list_pipelines()';
    end if;
    perform baton_internal.record_action('delete_pipeline', name);
    return true;
end
$$;
comment on function baton.delete_pipeline(text, boolean) is 'deletes a pipeline from the catalog; its group stays';

-- List the pipelines of the catalog, with who works their groups now.
create function baton.list_pipelines()
returns table (name text, enabled boolean, outbox text, group_name text, sink text, owner text, owned_until timestamptz, revision bigint,
               updated_at timestamptz, updated_by text, settings jsonb)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select p.name, p.enabled, p.settings #>> '{source,outbox}',
           case when p.settings #>> '{source,outbox}' is not null then coalesce(p.settings #>> '{source,group}', p.name) end,
           p.settings #>> '{sink,type}', case when at.owned_until > clock_timestamp() then at.owner end,
           case when at.owned_until > clock_timestamp() then at.owned_until end, p.revision, p.updated_at, p.updated_by, p.settings
      from baton.pipelines p
      left join baton.consumer_groups g on g.group_name = coalesce(p.settings #>> '{source,group}', p.name)
                                       and p.settings #>> '{source,outbox}' is not null
      left join baton_internal.group_positions at on at.group_id = g.group_id
     order by p.name
$$;
comment on function baton.list_pipelines() is 'pipelines of the catalog, and which relay runs each';

-- Take or keep the leader's lease for a duty; false while another relay has it.
create function baton_internal.take_lead(owner text, lease interval default '30 seconds', duty text default 'jobs')
returns boolean
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    with taken as (
        insert into baton_internal.relay_leader as l (duty, owner, until) values (take_lead.duty, take_lead.owner, clock_timestamp() + lease)
        on conflict on constraint relay_leader_pkey do update set owner = excluded.owner, until = excluded.until
         where l.owner = excluded.owner or l.until < clock_timestamp() or l.until > clock_timestamp() + 2 * lease  -- the clock was ahead
        returning 1)
    select exists (select from taken)
$$;
comment on function baton_internal.take_lead(text, interval, text) is 'makes a relay the leader for a duty, the scheduler''s jobs or the metrics; true when it leads';

-- Give back what a relay leads, so that another one need not wait for the lease to end.
create function baton_internal.leave_lead(owner text)
returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$ delete from baton_internal.relay_leader l where l.owner = leave_lead.owner $$;
comment on function baton_internal.leave_lead(text) is 'ends what a relay leads';

select baton_internal.declare_privileges('execute', '{baton_operator}',
    '{set_pipeline,switch_pipeline,enable_pipeline,disable_pipeline,delete_pipeline}');
select baton_internal.declare_privileges('execute', '{baton_operator,baton_relay,baton_viewer}', '{list_pipelines}');
select baton_internal.declare_privileges('execute', '{baton_relay}', '{take_lead,leave_lead}');
select baton_internal.declare_privileges('select', '{baton_operator,baton_relay,baton_viewer}', '{pipelines,relay_leader}');
