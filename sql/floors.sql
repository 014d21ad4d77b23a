-- Floors: what a position knows of the ids that are still to come, so that the next window is found without reading the backlog.
--
-- A floor is an id and a transaction id: every transaction from `xid` on has only events above `id`. The log's own sequence would not do
-- for that: ids may be drawn before a transaction has its own id, be made up, be handed out in advance, or come again when somebody moves
-- the sequence back. So the door sees to it (docs/adr/0009-floors.md):
--
--   1. Each outbox has one number, its mark: a sequence of its own, baton_internal.floor_N, that only goes up, for everybody at once.
--   2. A reader reads the mark, then draws its transaction id, and has a floor.
--   3. Every event is compared with the mark after its transaction has its id (check_event_id() in sql/outbox_accept.sql). One that is not
--      above the mark is a stray, and written down in baton_internal.stray_events by the same transaction.
--
-- A transaction from the floor's xid on got its id after the mark was read. So the mark that its events are compared with is not lower, and
-- each of them is above the floor or a stray. Whoever looks for the next window looks at the floor and at the strays.
--
-- What must stay true, or an event is skipped:
--
--   mark      never goes down, not even in a crash that leaves a floor which was taken from it.
--   floor     (fresh_id, fresh_xid of a position, or in a relay's memory) is of this history: the mark had reached fresh_id before fresh_xid was
--             drawn here. It is true of the log, not of the group; in an era that is over nobody uses one.
--   late_id   belongs to `seen`: what `seen` does not show is above it or a stray. It goes up when the floor's xid is at or below the oldest
--             transaction that a window's snapshot saw running, and goes back to 0 whenever `seen` goes back.
--   stray     is listed as long as its event is there: by the event's own transaction, until the partition goes or the era ends.
--   first_id  of a window is at or below every event of a transaction that began after `seen` and is in `sight`; start_id at or below all.
--
-- Who moves what: set_mark() the mark, for raise_mark() and at the end of an era; keep_floor() and first_floor() the floor, which place_after() and
-- next_era() forget; open_window() finds late_id, after_window() keeps it. Nobody else.

-- The sequence that holds an outbox's mark.
create function baton_internal.floor_sequence(outbox_id int)
returns regclass
language sql stable
as $$ select to_regclass(format('baton_internal.floor_%s', outbox_id)) $$;
comment on function baton_internal.floor_sequence(int) is 'the sequence that holds the mark of an outbox';

-- Raise an outbox's mark to the last id that was handed out, unless it is there, about. Nobody waits for that: whoever finds somebody else at
-- it leaves it to them.
create function baton_internal.raise_mark(outbox baton.outboxes)
returns void
language plpgsql
as $$
declare
    mark constant regclass := baton_internal.floor_sequence(outbox.outbox_id);
    last_id constant bigint := pg_sequence_last_value(pg_get_serial_sequence(outbox.relation::text, 'id')::regclass);
begin
    if last_id >= coalesce(pg_sequence_last_value(mark), 0) + 16 then
        perform baton_internal.set_mark(mark, last_id, false);
    end if;
end
$$;
comment on function baton_internal.raise_mark(baton.outboxes) is 'raises the mark of an outbox to the last value of its sequence';

-- Raise a mark to an id. The lock keeps a slower one from putting a lower mark over a higher.
create function baton_internal.set_mark(mark regclass, id bigint, wait boolean)
returns void
language plpgsql
as $$
declare
    key constant bigint := hashtextextended('baton mark', mark::oid::bigint);
    locked boolean := false;
begin
    if wait then
        perform pg_advisory_lock(key);
        locked := true;
    else
        locked := pg_try_advisory_lock(key);
    end if;
    if locked then
        perform setval(mark, greatest(id, pg_sequence_last_value(mark)));
        locked := not pg_advisory_unlock(key);
    end if;
exception when query_canceled or others then
    if locked then
        perform pg_advisory_unlock(key);
    end if;
    raise;
end
$$;
comment on function baton_internal.set_mark(regclass, bigint, boolean) is 'raises a mark; a lower value changes nothing';

-- Take a floor: read the mark, then draw the transaction id. Nulls when the transaction has its id already: the mark may have been
-- raised since, over ids of transactions that came between.
create function baton_internal.take_floor(outbox_id int, out id bigint, out xid xid8)
returns record
language plpgsql volatile
as $$
begin
    if pg_current_xact_id_if_assigned() is null then
        id := pg_sequence_last_value(baton_internal.floor_sequence(outbox_id));
        xid := pg_current_xact_id();
    end if;
end
$$;
comment on function baton_internal.take_floor(int) is 'id and xid of a floor: apart from strays, every transaction from xid on has only events above id';

-- The lowest id among the strays that `sight` shows and `seen` does not, from an id on.
create function baton_internal.first_stray(outbox_id int, seen pg_snapshot, sight pg_snapshot, first_id bigint)
returns bigint
language plpgsql stable
as $$
begin
    return (select min(s.id) from baton_internal.stray_events s
             where s.outbox_id = first_stray.outbox_id and s.xid >= pg_snapshot_xmin(seen) and s.id >= first_stray.first_id
               and pg_visible_in_snapshot(s.xid, sight) and not pg_visible_in_snapshot(s.xid, seen));
end
$$;
comment on function baton_internal.first_stray(int, pg_snapshot, pg_snapshot, bigint) is 'lowest id among the strays between two snapshots';

-- What a group that begins at `seen` knows of ids, by a floor that its transaction took; nothing when the mark was far behind.
create function baton_internal.first_floor(outbox baton.outboxes, id bigint, xid xid8, seen pg_snapshot,
                                           out fresh_id bigint, out fresh_xid xid8, out late_id bigint)
returns record
language plpgsql volatile
as $$
begin
    late_id := 0;
    if pg_sequence_last_value(pg_get_serial_sequence(outbox.relation::text, 'id')::regclass) - id <= 10000 then
        fresh_id := id;
        fresh_xid := xid;
        late_id := case when xid <= pg_snapshot_xmin(seen) then id else 0 end;
    end if;
end
$$;
comment on function baton_internal.first_floor(baton.outboxes, bigint, xid8, pg_snapshot) is 'the floor of a group that begins';

-- Whether a position's floor helps to find the window behind `seen`: few transactions lie between, and few events that were seen.
create function baton_internal.is_near(at baton_internal.group_positions, seen pg_snapshot)
returns boolean
language sql immutable
as $$
    select coalesce(at.fresh_xid::text::numeric - pg_snapshot_xmax(seen)::text::numeric <= 1000 and at.after_id - at.fresh_id <= 10000, false)
$$;
comment on function baton_internal.is_near(baton_internal.group_positions, pg_snapshot) is 'true when a floor is near enough to a snapshot to be used';

-- Keep a floor with a position, if it is better than the one that is there. `sight` is what the position will have seen next.
create function baton_internal.keep_floor(at baton_internal.group_positions, id bigint, xid xid8, sight pg_snapshot)
returns baton_internal.group_positions
language plpgsql immutable
as $$
begin
    if id > coalesce(at.fresh_id, -1) and xid::text::numeric - pg_snapshot_xmax(sight)::text::numeric <= 1000 then
        at.fresh_id := id;
        at.fresh_xid := xid;
    end if;
    return at;
end
$$;
comment on function baton_internal.keep_floor(baton_internal.group_positions, bigint, xid8, pg_snapshot) is 'a position with a better floor';
