-- Making, changing and dropping consumer groups.

-- Create a group on an outbox. Returns its id; the same call again changes nothing.
create function baton.create_consumer_group(
    name              text,
    outbox            text,
    auto_offset_reset text     default 'latest',
    ordered           boolean  default null,   -- null: as the outbox says
    tenant_id         text     default null,
    max_attempts      int      default 10,
    retry_base        interval default '1 second',
    retry_limit       interval default '5 minutes',
    on_poison         text     default 'park')
returns int
language sql
as $$
    select baton_internal.make_group(baton_internal.resolve_table(outbox), pg_catalog.jsonb_build_object(
        'group_name', name, 'auto_offset_reset', auto_offset_reset, 'ordered', ordered, 'tenant_id', tenant_id,
        'max_attempts', max_attempts, 'retry_base', retry_base, 'retry_limit', retry_limit, 'on_poison', on_poison))
$$;
comment on function baton.create_consumer_group(text, text, text, boolean, text, int, interval, interval, text)
    is 'creates a consumer group; does nothing when the same group exists';

-- Refuse options of a group that make no sense.
create function baton_internal.check_group_options(options jsonb)
returns void
language plpgsql immutable
as $$
begin
    if coalesce(options ->> 'group_name', '') = '' then
        raise exception 'a group name is needed' using errcode = 'invalid_parameter_value';
    elsif octet_length(options ->> 'group_name') > 200 then
        raise exception 'the group name is too long: % bytes', octet_length(options ->> 'group_name')
            using errcode = 'name_too_long', hint = 'use at most 200 bytes';
    elsif coalesce(options ->> 'auto_offset_reset', '') not in ('latest', 'earliest') then
        raise exception 'auto_offset_reset cannot be "%"', coalesce(options ->> 'auto_offset_reset', 'null')
            using errcode = 'invalid_parameter_value', hint = 'use latest or earliest';
    elsif coalesce(options ->> 'on_poison', '') not in ('park', 'block_key', 'halt') then
        raise exception 'on_poison cannot be "%"', coalesce(options ->> 'on_poison', 'null')
            using errcode = 'invalid_parameter_value', hint = 'use park, block_key or halt';
    elsif coalesce((options ->> 'max_attempts')::int, 0) < 1 then
        raise exception 'max_attempts must be at least 1' using errcode = 'invalid_parameter_value';
    elsif coalesce((options ->> 'retry_base')::interval, interval '-1') < interval '0'
          or coalesce((options ->> 'retry_limit')::interval, interval '-1') < (options ->> 'retry_base')::interval then
        raise exception 'retry_base must be at least 0 and retry_limit at least retry_base' using errcode = 'invalid_parameter_value';
    end if;
    perform baton_internal.check_duration('retry_limit', (options ->> 'retry_limit')::interval);
end
$$;
comment on function baton_internal.check_group_options(jsonb) is 'validates the options of create_consumer_group()';

-- Create the group's catalog rows and put it at its start.
create function baton_internal.make_group(relation regclass, options jsonb)
returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.outboxes := baton_internal.find_outbox(relation);
    wanted baton.consumer_groups;
    existing baton.consumer_groups;
    new_id int;
    ground constant record := baton_internal.take_floor(outbox.outbox_id);
begin
    perform baton_internal.raise_mark(outbox);
    perform baton_internal.check_group_options(options);
    wanted := jsonb_populate_record(null::baton.consumer_groups, options);
    wanted.outbox_id := outbox.outbox_id;
    wanted.ordered := coalesce(wanted.ordered, outbox.ordered);
    if outbox.tenancy then
        wanted.tenant_id := coalesce(wanted.tenant_id, nullif(current_setting('baton.tenant_id', true), ''));
    elsif wanted.tenant_id is not null then
        raise exception 'outbox % does not separate tenants', relation
            using errcode = 'invalid_parameter_value', hint = 'create the outbox with tenancy => true, or leave tenant_id out';
    end if;
    perform baton_internal.check_tenant(outbox.tenancy, wanted.tenant_id);
    perform baton_internal.verify_era(relation);
    perform from baton.outboxes o where o.outbox_id = outbox.outbox_id for key share;  -- or it could be dropped meanwhile
    if not found then
        perform baton_internal.find_outbox(relation);
    end if;

    insert into baton.consumer_groups (group_name, outbox_id, auto_offset_reset, ordered, tenant_id, max_attempts,
                                       retry_base, retry_limit, on_poison)
    values (wanted.group_name, wanted.outbox_id, wanted.auto_offset_reset, wanted.ordered, wanted.tenant_id,
            wanted.max_attempts, wanted.retry_base, wanted.retry_limit, wanted.on_poison)
    on conflict (group_name) do nothing
    returning group_id into new_id;
    if new_id is null then
        select * into existing from baton.consumer_groups g where g.group_name = wanted.group_name;
        wanted.group_id := existing.group_id;
        wanted.created_at := existing.created_at;
        if wanted is distinct from existing then
            raise exception 'consumer group "%" exists already, with other options', wanted.group_name
                using errcode = 'duplicate_object',
                      hint = 'drop it with baton.drop_consumer_group(), or choose another name';
        end if;
        return existing.group_id;
    end if;
    insert into baton_internal.group_positions (group_id, era, seen, fresh_id, fresh_xid, late_id)
    select new_id, start.era, start.seen, known.fresh_id, known.fresh_xid, known.late_id
      from (select case wanted.auto_offset_reset when 'latest' then max(e.era) else min(e.era) end as era,
                   case wanted.auto_offset_reset when 'latest' then baton_internal.current_sight() else '3:3:'::pg_snapshot end as seen
              from baton_internal.outbox_eras e where e.outbox_id = outbox.outbox_id) start
     cross join lateral baton_internal.first_floor(outbox, ground.id, ground.xid, start.seen) known;
    return new_id;
end
$$;
comment on function baton_internal.make_group(regclass, jsonb) is 'makes a group; called by create_consumer_group()';

-- Drop a group with its position and everything parked for it. Dead letters are somebody's to decide on: with some left it is refused, unless
-- they are to be discarded; their content then stays in the audit trail.
create function baton.drop_consumer_group(name text, if_exists boolean default false, discard_dead_letters boolean default false)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    g baton.consumer_groups;
    letters bigint[];
begin
    if if_exists and not exists (select from baton.consumer_groups c where c.group_name = name) then
        return false;
    end if;
    g := baton_internal.find_group(name);
    perform baton_internal.lock_position(g.group_id);
    letters := array(select p.parked_id from baton_internal.parked p where p.group_id = g.group_id and p.state = 'dead' order by p.parked_id);
    if letters <> '{}' then
        if not coalesce(drop_consumer_group.discard_dead_letters, false) then
            raise exception 'cannot drop consumer group "%": it has % dead letters', name, cardinality(letters)
                using errcode = 'dependent_objects_still_exist',
                      hint = 'replay or discard them (see the view baton.dead_letters), or pass discard_dead_letters => true';
        end if;
        perform baton.discard_dead_letters(letters, format('consumer group "%s" was dropped', name));
    end if;
    perform baton_internal.record_action('drop_consumer_group', name, jsonb_build_object('dead_letters', cardinality(letters)));
    delete from baton.consumer_groups c where c.group_id = g.group_id;
    return true;
end
$$;
comment on function baton.drop_consumer_group(text, boolean, boolean) is 'drops a consumer group';

-- Say what a group reads: what a consumer must know to wait for events and to read their payloads.
create function baton.describe_group(group_name text, out outbox text, out payload_type text, out ordered boolean)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    g baton.consumer_groups := baton_internal.find_group(group_name);
begin
    select o.relation::text, o.payload_type into describe_group.outbox, describe_group.payload_type
      from baton.outboxes o where o.outbox_id = g.outbox_id;
    describe_group.ordered := g.ordered;
end
$$;
comment on function baton.describe_group(text) is 'the outbox of a group, the type of its payloads and whether the group keeps key order';

-- Register a consumer, or note that it lives.
create function baton.consumer_heartbeat(group_name text, consumer_id text)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    g baton.consumer_groups := baton_internal.find_group(group_name);
begin
    perform baton_internal.check_consumer(consumer_id);
    update baton_internal.consumers c set last_heartbeat_at = clock_timestamp(), unhealthy_since = null, reaped_at = null
     where c.group_id = g.group_id and c.consumer_id = consumer_heartbeat.consumer_id
       and c.generation = (baton_internal.consumer_of(g.group_id, consumer_heartbeat.consumer_id)).generation;
    if not found then  -- it is new, or commits just now
        perform baton_internal.lock_position(g.group_id);
        perform baton_internal.note_poll(g.group_id, consumer_id);
    end if;
end
$$;
comment on function baton.consumer_heartbeat(text, text) is 'notes that a consumer lives; its leases are not extended';

-- Refuse consumer names that cannot be told apart.
create function baton_internal.check_consumer(consumer_id text)
returns void
language plpgsql immutable
as $$
begin
    if coalesce(consumer_id, '') = '' or octet_length(consumer_id) > 200 then
        raise exception 'a consumer needs a name of 1 to 200 bytes' using errcode = 'invalid_parameter_value';
    end if;
end
$$;
comment on function baton_internal.check_consumer(text) is 'validates a consumer name';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator}',
    '{create_consumer_group,make_group,consumer_heartbeat,describe_group}');
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}', '{drop_consumer_group}');
