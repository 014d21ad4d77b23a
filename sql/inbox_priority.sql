-- Priority: tiers with a schedule each. A message is due its tier's schedule after it became available, and claims take
-- the earliest due first: urgent tiers overtake, but no message waits for ever behind newer ones.

-- Read the tiers: [{"name": "critical", "min": 1, "max": 2, "schedule": "1s"}, ...], the last takes what no other covers.
create function baton_internal.parse_inbox_tiers(tiers jsonb)
returns table (place bigint, name text, low bigint, high bigint, schedule interval)
language plpgsql immutable
as $$
declare
    tier record;
begin
    if tiers is null or jsonb_typeof(tiers) <> 'array' or jsonb_array_length(tiers) = 0 then
        raise exception 'tiers must be an array with at least one tier'
            using errcode = 'invalid_parameter_value', hint = 'for example [{"name": "critical", "min": 1, "max": 2, "schedule": "1s"}]';
    end if;
    for tier in select t.body, t.place from jsonb_array_elements(tiers) with ordinality as t (body, place) loop
        if jsonb_typeof(tier.body) <> 'object' or coalesce(tier.body ->> 'name', '') = ''
           or coalesce(jsonb_typeof(tier.body -> 'min'), '') <> 'number' or coalesce(jsonb_typeof(tier.body -> 'max'), '') <> 'number'
           or (tier.body ->> 'min')::numeric > (tier.body ->> 'max')::numeric then
            raise exception 'tier % is not valid: %', tier.place, left(tier.body::text, 200)
                using errcode = 'invalid_parameter_value', hint = 'a tier has a name, min and max with min <= max, and a schedule';
        end if;
        place := tier.place;
        name := tier.body ->> 'name';
        low := (tier.body ->> 'min')::numeric::bigint;
        high := (tier.body ->> 'max')::numeric::bigint;
        schedule := baton_internal.parse_schedule(tier.body ->> 'schedule');
        return next;
    end loop;
end
$$;
comment on function baton_internal.parse_inbox_tiers(jsonb) is 'tiers as rows; raises invalid_parameter_value for anything that is no tier';

-- Refuse tiers that share a name or a priority.
create function baton_internal.check_inbox_tiers(tiers jsonb)
returns void
language plpgsql immutable
as $$
declare
    clash record;
begin
    select a.name as one, b.name as other into clash
      from baton_internal.parse_inbox_tiers(tiers) a join baton_internal.parse_inbox_tiers(tiers) b
        on a.place < b.place and (a.name = b.name or (a.low <= b.high and b.low <= a.high)) limit 1;
    if found then
        raise exception 'tiers "%" and "%" overlap', clash.one, clash.other
            using errcode = 'invalid_parameter_value', hint = 'each tier needs its own name and its own range of priorities';
    end if;
end
$$;
comment on function baton_internal.check_inbox_tiers(jsonb) is 'raises invalid_parameter_value for overlapping tiers';

-- Write when a message is due, as a time since a fixed day: that is immutable, so it can be indexed.
create function baton_internal.inbox_priority_due(box baton.inboxes, available text, prefix text)
returns text
language sql stable
as $$
    select format('((least(greatest(%s, timestamptz ''0001-01-01 00:00:00+00''), timestamptz ''9999-12-31 00:00:00+00'') - timestamptz ''2000-01-01 00:00:00+00'')'
                  ' + case%s else interval %L end)',
                  available,  -- a dead letter is due at the end of time, which cannot be subtracted from
                  coalesce(string_agg(format(' when %s%I between %s and %s then interval %L', prefix, box.priority_column, t.low, t.high, t.schedule),
                                      '' order by t.place) filter (where t.place < c.tiers), ' when false then interval ''0'''),
                  max(t.schedule) filter (where t.place = c.tiers))
      from baton_internal.parse_inbox_tiers(box.priority_tiers) t, (select jsonb_array_length(box.priority_tiers) as tiers) c
$$;
comment on function baton_internal.inbox_priority_due(baton.inboxes, text, text) is 'SQL for the due time of a message';

-- Write the condition that ends a scan by due time where nothing available can follow.
create function baton_internal.inbox_due_bound(box baton.inboxes, terms baton_internal.inbox_terms)
returns text
language sql stable
as $$
    select format(' and %s <= ($1 - timestamptz ''2000-01-01 00:00:00+00'') + interval %L', terms.due, max(t.schedule))
      from baton_internal.parse_inbox_tiers(box.priority_tiers) t
$$;
comment on function baton_internal.inbox_due_bound(baton.inboxes, baton_internal.inbox_terms) is 'SQL for messages that may be available';

-- Write the condition for the messages of a tier. Each message is in exactly one.
create function baton_internal.inbox_tier_condition(box baton.inboxes, tier text, prefix text default 't.')
returns text
language plpgsql stable
as $$
declare
    condition text;
begin
    if box.priority_tiers is null then
        raise exception 'inbox "%" has no priorities', box.name
            using errcode = 'BT004', hint = 'turn them on with baton.enable_inbox_priority()';
    end if;
    select case when t.place < jsonb_array_length(box.priority_tiers)
                then format(' and %s%I between %s and %s', prefix, box.priority_column, t.low, t.high)
                else format(' and not coalesce(%s, false)', coalesce(
                    (select string_agg(format('%s%I between %s and %s', prefix, box.priority_column, o.low, o.high), ' or ')
                       from baton_internal.parse_inbox_tiers(box.priority_tiers) o where o.place < t.place), 'false')) end
      into condition from baton_internal.parse_inbox_tiers(box.priority_tiers) t where t.name = tier;
    if not found then
        raise exception 'inbox "%" has no tier "%"', box.name, tier
            using errcode = 'undefined_object',
                  hint = 'its tiers are: ' || (select string_agg(t.name, ', ' order by t.place) from baton_internal.parse_inbox_tiers(box.priority_tiers) t);
    end if;
    return condition;
end
$$;
comment on function baton_internal.inbox_tier_condition(baton.inboxes, text, text) is 'SQL for the messages of one tier';

-- Make the index by due time and a view per tier.
create function baton_internal.make_inbox_priority_parts(box baton.inboxes)
returns void
language plpgsql
as $$
declare
    bare baton_internal.inbox_terms := baton_internal.inbox_terms(box, '');
    tier record;
begin
    -- The attempts beside the due time let a claim pass over an adopted table's dead letters within the index.
    perform baton_internal.make_inbox_index(box, 'priority', '_due', format('(%s%s) where %s', bare.due,
        case when box.layout = 'mapped' then format(', %I', box.retry_count_column) else '' end, bare.unfinished));
    for tier in select t.name, t.schedule from baton_internal.parse_inbox_tiers(box.priority_tiers) t order by t.place loop
        perform baton_internal.make_inbox_view(box, 'priority', 'pending_', '_' || tier.name,
            format('pending messages of inbox %s in tier %s, due within %s', box.name, tier.name, tier.schedule),
            format('select t.* from %s t where %s %s', box.relation, (baton_internal.inbox_terms(box, for_view => true)).pending, baton_internal.inbox_tier_condition(box, tier.name)));
    end loop;
end
$$;
comment on function baton_internal.make_inbox_priority_parts(baton.inboxes) is 'makes the index and the views of priority tiers';

-- Claim by priority from now on.
create function baton.enable_inbox_priority(inbox text, priority_col text default 'priority', tiers jsonb default
    '[{"name": "critical", "min": 1, "max": 2, "schedule": "1s"}, {"name": "normal", "min": 3, "max": 6, "schedule": "5s"}, {"name": "background", "min": 7, "max": 9, "schedule": "30s"}]',
                                            path name[] default current_schemas(false))
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
declare
    box baton.inboxes := baton_internal.need_inbox(inbox, path);
begin
    perform baton_internal.check_inbox_change(box);
    perform baton_internal.check_inbox_is_queue(box);
    if box.order_mode is not null then
        raise exception 'inbox "%" is ordered, it cannot have priorities as well', box.name
            using errcode = 'invalid_parameter_value',
                  hint = 'call baton.disable_inbox_ordering() first, or use an ordered inbox per priority';
    end if;
    perform baton_internal.check_inbox_tiers(tiers);
    if box.priority_tiers is not null then
        if box.priority_column = priority_col and box.priority_tiers = tiers then
            return;
        end if;
        raise exception 'inbox "%" has other priorities', box.name
            using errcode = 'duplicate_object', hint = 'call baton.disable_inbox_priority() first';
    end if;
    update baton.inboxes i
       set priority_tiers = tiers,
           priority_column = baton_internal.check_inbox_column(box, priority_col, 'priority', '{smallint,integer,bigint}')
     where i.id = box.id returning i.* into box;
    perform baton_internal.lock_inbox_table(box, 'share');
    perform baton_internal.make_inbox_priority_parts(box);
end
$$;
comment on function baton.enable_inbox_priority(text, text, jsonb, name[]) is 'claims by due time of priority tiers; makes a pending view per tier';

-- Make an inbox with priorities a plain one again.
create function baton.disable_inbox_priority(inbox text, if_exists boolean default false, path name[] default current_schemas(false))
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
declare
    box baton.inboxes := baton_internal.need_inbox(inbox, path);
begin
    perform baton_internal.check_inbox_change(box);
    if box.priority_tiers is null then
        if if_exists then
            return;
        end if;
        raise exception 'inbox "%" has no priorities', box.name using errcode = 'BT004';
    end if;
    perform baton_internal.lock_inbox_table(box, 'access exclusive');
    perform baton_internal.drop_inbox_objects(box, 'priority');
    update baton.inboxes i set priority_tiers = null where i.id = box.id;
end
$$;
comment on function baton.disable_inbox_priority(text, boolean, name[]) is 'makes an inbox with priorities a plain one again';

-- Tell whether a worker should prefer an aggregate: each aggregate, and no aggregate too, belongs to one worker of 0 to total - 1.
create function baton.inbox_is_my_partition(aggregate_id text, worker_id int, total_workers int)
returns boolean
language plpgsql immutable parallel safe
as $$
begin
    if total_workers is null or total_workers < 1 or worker_id is null or worker_id < 0 or worker_id >= total_workers then
        raise exception 'worker % of % does not exist', coalesce(worker_id::text, 'null'), coalesce(total_workers::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'workers are numbered from 0 to total_workers - 1';
    end if;
    return (hashtextextended(coalesce(aggregate_id, ''), 0) & 9223372036854775807) % total_workers = worker_id;
end
$$;
comment on function baton.inbox_is_my_partition(text, int, int) is 'true for aggregates that belong to one of several workers; the share is stable';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{enable_inbox_priority,disable_inbox_priority}');
select baton_internal.declare_privileges('execute', '{baton_consumer,baton_operator,baton_relay,baton_viewer}', '{inbox_is_my_partition}');
