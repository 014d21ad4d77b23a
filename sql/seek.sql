-- Seeking: put a group at another place of its log.

-- Move a group: to after an id, to the first event of a time, to the beginning or the end. Without any of them: to the end.
-- Leases are released; events parked beyond the new place are forgotten, because they come again from the log, as far as the log has them.
create function baton.seek_offset(group_name text, consumer_id text, new_offset bigint default null, to_time timestamptz default null,
                                  place text default null)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    g baton.consumer_groups := baton_internal.find_group(group_name);
    outbox baton.outboxes;
    after_id bigint := new_offset;
    to_end boolean;
    ground record;               -- a floor, see sql/floors.sql
begin
    if num_nonnulls(new_offset, to_time, place) > 1 or place not in ('beginning', 'end') or new_offset not between 0 and 9223372036854775806 then
        raise exception 'seek to one place: an offset of 0 or more, a time, ''beginning'' or ''end'''
            using errcode = 'invalid_parameter_value';
    end if;
    if num_nonnulls(new_offset, to_time, place) = 0 and consumer_id in ('beginning', 'end', 'earliest', 'latest') then
        raise exception '"%" stands where the consumer''s name belongs', consumer_id
            using errcode = 'invalid_parameter_value',
                  hint = 'name the place: baton.seek_offset(group, consumer, place => ''beginning''), or ''end''; without a place the group skips to the end';
    end if;
    to_end := coalesce(place = 'end', num_nonnulls(new_offset, to_time, place) = 0);
    select * into outbox from baton.outboxes o where o.outbox_id = g.outbox_id;
    ground := baton_internal.take_floor(outbox.outbox_id);
    perform baton_internal.raise_mark(outbox);
    perform baton_internal.verify_era(outbox.relation);
    execute format('lock table only %s in access share mode', outbox.relation);  -- what the log has now, it has until the end
    perform baton_internal.lock_position(g.group_id);
    -- a relay that owns the group must not move the position from where it was
    update baton_internal.group_positions p set owner = null, owned_until = null, owner_epoch = p.owner_epoch + 1
     where p.group_id = g.group_id and p.owner is not null;
    if to_time is not null then
        execute format('select coalesce(min(id) - 1, -1) from %s where occurred_at >= $1', outbox.relation) into after_id using to_time;
        to_end := after_id = -1;
    elsif place = 'beginning' then
        after_id := 0;
    end if;

    delete from baton_internal.pieces p where p.group_id = g.group_id;
    delete from baton_internal.parked p where p.group_id = g.group_id and not to_end and p.id > after_id and p.state <> 'dead'
       and p.id >= (select min(x.first_id) from baton_internal.outbox_partitions x
                     where x.outbox_id = outbox.outbox_id and x.state in ('open', 'left'));
    update baton_internal.parked p set lease_token = null, consumer_id = null, leased_until = null where p.group_id = g.group_id;
    if to_end then
        update baton_internal.group_positions p
           set (era, seen, fresh_id, fresh_xid, late_id) = (
                   select (select max(e.era) from baton_internal.outbox_eras e where e.outbox_id = outbox.outbox_id), sight.seen, known.*
                     from baton_internal.current_sight() sight (seen)
                    cross join lateral baton_internal.first_floor(outbox, ground.id, ground.xid, sight.seen) known),
               window_open = false
         where p.group_id = g.group_id;
    else
        perform baton_internal.place_after(outbox, g, after_id);
    end if;
    delete from baton_internal.windows x using baton_internal.group_positions p
     where p.group_id = g.group_id and x.group_id = g.group_id and not (p.window_open and x.window_number = p.window_number);
    perform baton_internal.record_action('seek_offset', group_name, jsonb_build_object('consumer', consumer_id, 'after_id', after_id, 'to_end', to_end));
    perform baton_internal.alert('consumer_seeked', group_name, jsonb_build_object('consumer', consumer_id, 'offset', after_id, 'to_end', to_end));
end
$$;
comment on function baton.seek_offset(text, text, bigint, timestamptz, text) is 'moves a group to another place of its log';

-- Open a window over everything above an id, from the era in which that id lies.
create function baton_internal.place_after(outbox baton.outboxes, g baton.consumer_groups, after_id bigint)
returns void
language plpgsql
as $$
declare
    target_era int;
    at baton_internal.group_positions;
    w baton_internal.windows;
begin
    select min(e.era) into target_era from baton_internal.outbox_eras e
     where e.outbox_id = outbox.outbox_id and (e.last_id is null or e.last_id > after_id);
    update baton_internal.group_positions p
       set era = target_era, seen = '3:3:', fresh_id = null, fresh_xid = null, late_id = 0, window_open = false
     where p.group_id = g.group_id
    returning * into at;
    w := baton_internal.open_window(outbox, at);
    if w is null then
        return;
    end if;
    w.first_id := greatest(w.first_id, after_id + 1);
    w.start_id := w.first_id;
    insert into baton_internal.windows select w.*;
    update baton_internal.group_positions p set window_open = true, window_number = w.window_number, after_id = place_after.after_id
     where p.group_id = g.group_id;
end
$$;
comment on function baton_internal.place_after(baton.outboxes, baton.consumer_groups, bigint) is 'positions a group after an id';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator}', '{seek_offset}');
