-- Claim checks: the rows of a delta that is too large for an event wait in a table beside the outbox. They are kept as long as the event is in the log,
-- and then until every group that was there has said that it has them.

create table baton_internal.claim_checks (
    outbox_id  int         not null references baton.outboxes on delete cascade,
    event_id   bigint      not null,
    row_count  bigint      not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (outbox_id, event_id)
);
comment on table baton_internal.claim_checks is 'events whose rows wait beside the outbox';

create table baton_internal.claim_check_acks (
    outbox_id   int         not null,
    event_id    bigint      not null,
    group_id    int         not null references baton.consumer_groups on delete cascade,
    consumed_at timestamptz not null default clock_timestamp(),
    primary key (outbox_id, event_id, group_id),
    foreign key (outbox_id, event_id) references baton_internal.claim_checks on delete cascade
);
comment on table baton_internal.claim_check_acks is 'groups that have the rows of a claim check';

-- Find the outbox of a stream table.
create function baton_internal.find_stream_outbox(relation regclass)
returns baton_internal.stream_outboxes
language plpgsql stable
as $$
declare
    stream constant baton.stream_tables := baton_internal.find_stream(relation);
    link baton_internal.stream_outboxes;
begin
    select l.* into link from baton_internal.stream_outboxes l where l.stream_id = stream.stream_id;
    if not found then
        raise exception 'stream table % has no outbox', relation using errcode = 'undefined_object', hint = 'make one with baton.enable_outbox()';
    end if;
    return link;
end
$$;
comment on function baton_internal.find_stream_outbox(regclass) is 'outbox of a stream table, or undefined_object';

-- Read the rows of a claim check in order, or a page of them.
create function baton.outbox_delta_rows(stream_table text, outbox_id bigint, after_row int default 0, batch int default null)
returns table (row_num int, op text, payload jsonb)
language sql
as $$ select * from baton_internal.read_claim_check(baton_internal.resolve_stream(stream_table), outbox_id, after_row, batch) $$;
comment on function baton.outbox_delta_rows(text, bigint, int, int) is 'rows of a delta that is too large for its event';

-- Read rows of a claim check. One whose rows are gone is told from one without rows.
create function baton_internal.read_claim_check(relation regclass, event_id bigint, after_row int, batch int)
returns table (row_num int, op text, payload jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    link constant baton_internal.stream_outboxes := baton_internal.find_stream_outbox(relation);
begin
    if not exists (select from baton_internal.claim_checks c where c.outbox_id = link.outbox_id and c.event_id = read_claim_check.event_id) then
        raise exception 'event % of stream table % has no rows beside it', event_id, relation
            using errcode = '02000', hint = 'only events with "claim_check": true have, until every group has consumed them';
    end if;
    return query execute format('select row_num, op, payload from %s where outbox_id = $1 and row_num > $2 order by row_num limit $3', link.delta_rows)
      using event_id, coalesce(after_row, 0), batch;
end
$$;
comment on function baton_internal.read_claim_check(regclass, bigint, int, int) is 'rows of a claim check; called by outbox_delta_rows()';

-- Say that a group has the rows of a claim check. The group can be left out where the outbox has only one. Saying so again changes nothing.
create function baton.outbox_rows_consumed(stream_table text, outbox_id bigint, group_name text default null)
returns void
language sql
as $$ select baton_internal.acknowledge_claim_check(baton_internal.resolve_stream(stream_table), outbox_id, group_name) $$;
comment on function baton.outbox_rows_consumed(text, bigint, text) is 'says that a group has the rows of a delta';

-- Note that a group has the rows of a claim check.
create function baton_internal.acknowledge_claim_check(relation regclass, event_id bigint, group_name text)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    link constant baton_internal.stream_outboxes := baton_internal.find_stream_outbox(relation);
    groups constant int[] := array(select g.group_id from baton.consumer_groups g
                                    where g.outbox_id = link.outbox_id and (acknowledge_claim_check.group_name is null or g.group_name = acknowledge_claim_check.group_name));
begin
    if cardinality(groups) <> 1 then
        raise exception '%', case when group_name is not null then format('outbox of stream table %s has no group "%s"', relation, left(group_name, 100))
                                  when groups = '{}' then format('the outbox of stream table %s has no groups', relation)
                                  else format('the outbox of stream table %s has several groups', relation) end
            using errcode = 'undefined_object', hint = 'name the group that has consumed the rows';
    end if;
    insert into baton_internal.claim_check_acks (outbox_id, event_id, group_id)
    select c.outbox_id, c.event_id, groups[1] from baton_internal.claim_checks c
     where c.outbox_id = link.outbox_id and c.event_id = acknowledge_claim_check.event_id
    on conflict do nothing;
end
$$;
comment on function baton_internal.acknowledge_claim_check(regclass, bigint, text) is 'notes that a group has the rows of a delta; called by outbox_rows_consumed()';

-- Refuse an outbox that never holds a claim check.
create function baton_internal.check_for_claim_checks(outbox regclass)
returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from baton_internal.stream_outboxes l join baton.outboxes o using (outbox_id) where o.relation = outbox and l.format = 'delta') then
        raise exception '% is no outbox of a stream table with format delta', outbox
            using errcode = 'wrong_object_type', hint = 'take claim_check_rows out of the pipeline''s source';
    end if;
end
$$;
comment on function baton_internal.check_for_claim_checks(regclass) is 'refuses an outbox that never holds a claim check';

-- Read the next rows of a claim check as a delta that explains itself: at most max_rows of them and max_bytes together, but always one. A single
-- row of more than load_bytes is not loaded: then payload is null. Nothing comes back when the rows of the claim check are gone.
create function baton_internal.read_claim_check_part(outbox regclass, event_id bigint, after_row int, max_rows int, max_bytes bigint, load_bytes bigint,
                                                     part int, claim_check jsonb)
returns table (first_row int, last_row int, is_last boolean, bytes bigint, payload text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    link baton_internal.stream_outboxes;
    total bigint;
begin
    select l.* into link from baton_internal.stream_outboxes l join baton.outboxes o using (outbox_id) where o.relation = outbox;
    select c.row_count into total from baton_internal.claim_checks c where c.outbox_id = link.outbox_id and c.event_id = read_claim_check_part.event_id;
    if not found then
        return;
    end if;
    return query execute format($sql$
        with page as (
            select d.row_num, d.op, d.payload, sum(octet_length(d.payload::text) + 2) over (order by d.row_num) as upto
              from (select * from %s where outbox_id = $1 and row_num > $2 order by row_num limit $3) d),
        part as (select * from page p where p.upto <= $4 or p.row_num = $2 + 1)
        select min(p.row_num), max(p.row_num), max(p.row_num) = $5, max(p.upto)::bigint,
               case when max(p.upto) <= $8 then
                   ($7 - '{claim_check,inserted_count,deleted_count}'::text[] || jsonb_build_object('part', $6, 'last', max(p.row_num) = $5,
                       'first_row', min(p.row_num), 'total_rows', $5, 'deleted', coalesce(jsonb_agg(p.payload order by p.row_num) filter (where p.op = 'D'), '[]'),
                       'inserted', coalesce(jsonb_agg(p.payload order by p.row_num) filter (where p.op = 'I'), '[]')))::text end
          from part p having count(*) > 0$sql$, link.delta_rows)
      using event_id, after_row, max_rows, max_bytes, total, part, claim_check, load_bytes;
end
$$;
comment on function baton_internal.read_claim_check_part(regclass, bigint, int, int, bigint, bigint, int, jsonb) is 'next rows of a claim check as a delta that explains itself; called by the relay';

-- Note that the relay that owns a group has delivered all rows of a claim check.
create function baton_internal.claim_check_delivered(group_id int, epoch bigint, event_id bigint)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    at constant baton_internal.group_positions := baton_internal.check_owner(group_id, epoch);
begin
    insert into baton_internal.claim_check_acks (outbox_id, event_id, group_id)
    select c.outbox_id, c.event_id, g.group_id from baton.consumer_groups g join baton_internal.claim_checks c using (outbox_id)
     where g.group_id = at.group_id and c.event_id = claim_check_delivered.event_id
    on conflict do nothing;
end
$$;
comment on function baton_internal.claim_check_delivered(int, bigint, bigint) is 'notes that the relay has delivered the rows of a delta';

-- Whether a group that was there when the event came has not said that it has the rows.
create function baton_internal.is_unclaimed(c baton_internal.claim_checks)
returns boolean
language sql stable
as $$
    select exists (select from baton.consumer_groups g
                    where g.outbox_id = c.outbox_id and g.created_at <= c.created_at
                      and not exists (select from baton_internal.claim_check_acks a where a.outbox_id = c.outbox_id and a.event_id = c.event_id and a.group_id = g.group_id))
$$;
comment on function baton_internal.is_unclaimed(baton_internal.claim_checks) is 'whether a group still lacks the rows of a delta';

-- Delete the rows of claim checks whose events have left the log and that every group has.
create function baton_internal.release_claim_checks()
returns void
language plpgsql
as $$
declare
    link record;
    c baton_internal.claim_checks;
    in_log boolean;
begin
    for link in select l.delta_rows, o.relation, l.outbox_id from baton_internal.stream_outboxes l join baton.outboxes o using (outbox_id)
                  join pg_catalog.pg_class t on t.oid = l.delta_rows join pg_catalog.pg_class x on x.oid = o.relation loop
        for c in select x.* from baton_internal.claim_checks x where x.outbox_id = link.outbox_id order by x.event_id loop
            execute format('select exists (select from %s where id = $1)', link.relation) into in_log using c.event_id;
            exit when in_log;  -- and so are all behind it
            if not baton_internal.is_unclaimed(c) or baton.setting('outbox_force_retention')::boolean then
                execute format('delete from %s where outbox_id = $1', link.delta_rows) using c.event_id;
                delete from baton_internal.claim_checks x where x.outbox_id = c.outbox_id and x.event_id = c.event_id;
            end if;
        end loop;
    end loop;
end
$$;
comment on function baton_internal.release_claim_checks() is 'deletes rows of deltas that nobody needs any more';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator}',
    '{outbox_delta_rows,read_claim_check,outbox_rows_consumed,acknowledge_claim_check}');
select baton_internal.declare_privileges('execute', '{baton_consumer}', '{resolve_stream}');
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}', '{check_for_claim_checks,read_claim_check_part,claim_check_delivered}');
