-- Maintenance of inboxes: drain what is processed, forget old ids, report dead letters and gaps. The scheduler calls it.

insert into baton.setting_defaults (name, value, kind, description) values
    ('inbox_gap_alert_delay_seconds', '5', 'integer', 'a missing sequence or a stalled aggregate younger than this is not reported yet');
update baton.setting_defaults set maximum = 31536000 where name = 'inbox_gap_alert_delay_seconds';

create table baton_internal.inbox_dead_letters (
    inbox      int         not null references baton.inboxes on delete cascade,
    event_id   text        not null,
    noticed_at timestamptz not null default clock_timestamp(),
    primary key (inbox, event_id)
);
comment on table baton_internal.inbox_dead_letters is 'dead letters that maintenance has seen, and when';

create table baton_internal.inbox_gaps (
    inbox      int         not null references baton.inboxes on delete cascade,
    aggregate  text        not null,
    expected   bigint      not null,
    noticed_at timestamptz not null default clock_timestamp(),
    primary key (inbox, aggregate, expected)
);
comment on table baton_internal.inbox_gaps is 'missing sequences that maintenance has reported, and when';

-- Delete a batch of processed messages that are past their retention. Their ids are remembered.
create function baton_internal.drain_inbox(box baton.inboxes, batch int)
returns bigint
language plpgsql
as $$
declare
    hours int := baton_internal.inbox_retention_hours(box);
    expired text;
    gone text[];
begin
    if hours is null then
        return 0;
    elsif box.layout = 'processed_events' then
        expired := format('t.expires_at <= $1 - make_interval(hours => %s)', hours) || baton_internal.inbox_group_condition(box, 't.');
    else
        expired := format('%s and t.%I < $1 - make_interval(hours => %s)', (baton_internal.inbox_terms(box)).done, box.processed_at_column, hours);
    end if;
    -- Rows that somebody holds wait for the next run: a drain must not stand in a receiver's way, nor in a circle with it.
    gone := array(select r.id from baton_internal.run_as_owner(box.relation,
        format('with old as materialized (select t.%4$I as id from %1$s t where %2$s order by t.%3$I limit ($3 ->> ''batch'')::int for update skip locked),'
               ' gone as (delete from %1$s t where t.%4$I = any (array(select o.id from old o)) and %2$s returning t.%4$I::text as id)'
               ' select g.id from gone g', box.relation, expired, box.processed_at_column, box.id_column),
        clock_timestamp(), arguments => jsonb_build_object('batch', batch)) as r (id text));
    perform baton_internal.remember_adopted_keys(box, gone);
    update baton.inboxes i set last_drained_at = clock_timestamp(), last_drained_count = cardinality(gone) where i.id = box.id and gone <> '{}';
    return cardinality(gone);
end
$$;
comment on function baton_internal.drain_inbox(baton.inboxes, int) is 'deletes a batch of processed messages past their retention';

-- Remember the ids of messages that were deleted from an adopted table; baton's own tables have a trigger for that, and
-- a table of processed ids is its own memory.
create function baton_internal.remember_adopted_keys(box baton.inboxes, event_ids text[])
returns void
language sql
as $$
    insert into baton_internal.inbox_keys (inbox, event_id)
    select box.id, e from unnest(event_ids) e
     where box.layout not in ('managed', 'processed_events') and octet_length(e) <= baton_internal.longest_kept_id()  -- receive() takes no other
    on conflict do nothing
$$;
comment on function baton_internal.remember_adopted_keys(baton.inboxes, text[]) is 'keeps the ids of messages deleted from an adopted table';

-- Notice dead letters: report new ones, one by one up to a cap and the rest in sum; forget those that are dead no more.
create function baton_internal.notice_inbox_dead_letters(box baton.inboxes)
returns bigint
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box);
    cap int := baton.setting('inbox_dlq_alert_max_per_refresh')::int;
    inbox_name text := format('%I.%I', box.schema_name, box.name);
    letter record;
    dead text[];
    fresh text[];
begin
    dead := array(select r.id from baton_internal.run_as_owner(box.relation,
        format('select %s from %s t where %s order by t.%I', terms.id, box.relation, terms.dead, box.received_at_column)) as r (id text));
    delete from baton_internal.inbox_dead_letters d where d.inbox = box.id and not exists (select 1 from unnest(dead) x (id) where x.id = d.event_id);
    with fresh as (
        insert into baton_internal.inbox_dead_letters (inbox, event_id)
        select box.id, x.id from unnest(dead) with ordinality x (id, place)
         where not exists (select 1 from baton_internal.inbox_dead_letters d where d.inbox = box.id and d.event_id = x.id)
           and octet_length(x.id) <= baton_internal.longest_kept_id() order by x.place
        on conflict do nothing returning event_id
    )
    select array_agg(f.event_id) into fresh from fresh f;
    if fresh is null or not box.with_dead_letter then
        return coalesce(cardinality(fresh), 0);
    end if;
    for letter in
        select r.* from baton_internal.run_as_owner(box.relation,
            format('select %1$s, %2$s::text, %3$s::text, %4$s::int, %5$s::text from %6$s t where t.%7$I = any ($2::%8$s[]) %9$s',
                   terms.id, coalesce(format('t.%I', box.event_type_column), 'null'), coalesce(format('t.%I', box.error_column), 'null'),
                   terms.retries, coalesce(format('t.%I', box.aggregate_id_column), 'null'), box.relation, box.id_column, terms.id_type,
                   baton_internal.inbox_group_condition(box, 't.')),
            ids => fresh[1:cap]) as r (id text, event_type text, error text, retries int, aggregate text)
    loop
        perform baton_internal.alert('inbox_dlq_message', inbox_name, jsonb_build_object('event_id', left(baton_internal.tenant_name(box, letter.id), 500), 'event_type', letter.event_type,
                            'error', left(letter.error, 500), 'retry_count', letter.retries, 'aggregate_id', left(letter.aggregate, 500)));
    end loop;
    if cardinality(fresh) > cap then
        perform baton_internal.alert('inbox_dlq_batch', inbox_name, jsonb_build_object('count', cardinality(fresh) - cap, 'total', cardinality(fresh)));
    end if;
    return cardinality(fresh);
end
$$;
comment on function baton_internal.notice_inbox_dead_letters(baton.inboxes) is 'alerts about new dead letters, up to a limit';

-- Delete a batch of dead letters past their own retention; 0 keeps them. Their ids are remembered.
create function baton_internal.drain_inbox_dead_letters(box baton.inboxes, batch int)
returns bigint
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box);
    hours int := baton.setting('inbox_dlq_retention_hours')::int;
    old text[];
    gone text[];
begin
    if hours = 0 or baton_internal.inbox_retention_hours(box) is null then  -- an adopted table's rows go only if its owner said so
        return 0;
    end if;
    old := array(select d.event_id from baton_internal.inbox_dead_letters d
                  where d.inbox = box.id and d.noticed_at < clock_timestamp() - make_interval(hours => hours) limit batch);
    gone := array(select r.id from baton_internal.run_as_owner(box.relation,
        format('delete from %s t where t.%I = any ($2::%s[]) and %s returning %s', box.relation, box.id_column, terms.id_type, terms.dead, terms.id),
        ids => old) as r (id text));
    perform baton_internal.remember_adopted_keys(box, gone);
    return cardinality(gone);
end
$$;
comment on function baton_internal.drain_inbox_dead_letters(baton.inboxes, int) is 'deletes dead letters past their retention';

-- Report sequences that are missing for long enough and were not reported; make dead letters of messages that came
-- after their sequence was passed.
create function baton_internal.notice_inbox_gaps(box baton.inboxes)
returns bigint
language plpgsql
as $$
declare
    cap int := baton.setting('inbox_dlq_alert_max_per_refresh')::int;
    inbox_name text := format('%I.%I', box.schema_name, box.name);
    gaps bigint := 0;
    gap record;
    delay int := baton.setting('inbox_gap_alert_delay_seconds')::int;
begin
    perform baton_internal.bury_inbox_messages(box, h.aggregate, s.last_sequence, 'its sequence had been passed when it came')
       from baton_internal.run_as_owner(box.relation,
                format('select %1$s, min(t.%2$I)::bigint from %3$s t where %4$s and %5$s group by 1', (baton_internal.inbox_terms(box)).aggregate, box.sequence_column,
                       box.relation, baton_internal.inbox_ordered_condition(box, 't.'), (baton_internal.inbox_terms(box)).pending))
                as h (aggregate text, lowest bigint)
       join baton_internal.inbox_sequences s on s.inbox = box.id and s.aggregate = h.aggregate and h.lowest <= s.last_sequence;
    for gap in
        with missing as materialized (select * from baton_internal.inbox_gaps_of(box)), closed as (
            delete from baton_internal.inbox_gaps g where g.inbox = box.id
               and not exists (select 1 from missing m where m.aggregate = g.aggregate and m.expected = g.expected)
        ), fresh as (
            insert into baton_internal.inbox_gaps (inbox, aggregate, expected)
            select box.id, m.aggregate, m.expected from missing m where m.gap_age_sec >= delay
            on conflict do nothing returning aggregate, expected
        )
        select m.* from fresh f join missing m on m.aggregate = f.aggregate and m.expected = f.expected order by m.gap_age_sec desc
    loop
        gaps := gaps + 1;
        if gaps <= cap then
            perform baton_internal.alert('inbox_ordering_gap', inbox_name, jsonb_build_object('aggregate', left(baton_internal.tenant_name(box, gap.aggregate), 500), 'expected', gap.expected,
                                'found', gap.found, 'gap_age_sec', round(gap.gap_age_sec)));
        end if;
    end loop;
    if gaps > cap then
        perform baton_internal.alert('inbox_ordering_gap', inbox_name, jsonb_build_object('more', gaps - cap));
    end if;
    return gaps;
end
$$;
comment on function baton_internal.notice_inbox_gaps(baton.inboxes) is 'alerts about new gaps of an ordered inbox';

-- Delete leases and replay marks of messages whose rows are gone.
create function baton_internal.sweep_inbox_leftovers(box baton.inboxes)
returns void
language plpgsql
as $$
declare
    known text[] := array(select w.event_id from baton_internal.inbox_work w where w.inbox = box.id
                          union select r.event_id from baton_internal.inbox_replays r where r.inbox = box.id);
    gone text[];
begin
    if known = '{}' then
        return;
    end if;
    gone := array(select k.id from unnest(known) k (id) except
                  select r.id from baton_internal.run_as_owner(box.relation,
                      format('select t.%1$I::text from %2$s t where t.%1$I = any ($2::%3$s[])%4$s', box.id_column, box.relation,
                             baton_internal.inbox_column_type(box, box.id_column), baton_internal.inbox_group_condition(box, 't.')),
                      ids => known) as r (id text));
    delete from baton_internal.inbox_work w where w.inbox = box.id and w.event_id = any (gone);
    delete from baton_internal.inbox_replays r where r.inbox = box.id and r.event_id = any (gone);
end
$$;
comment on function baton_internal.sweep_inbox_leftovers(baton.inboxes) is 'deletes leases and marks of messages that are gone';

-- Delete a batch of remembered ids and of duplicate counts that are past their time.
create function baton_internal.forget_inbox_keys(batch int)
returns bigint
language plpgsql
as $$
declare
    forgotten bigint;
begin
    delete from baton_internal.inbox_keys k using (
        select o.ctid from baton_internal.inbox_keys o
         where o.recorded_at < now() - make_interval(hours => baton.setting('inbox_dedup_retention_hours')::int) limit batch) o
     where k.ctid = o.ctid;
    get diagnostics forgotten = row_count;
    delete from baton_internal.inbox_duplicates d where d.at < now() - interval '1 hour';
    return forgotten;
end
$$;
comment on function baton_internal.forget_inbox_keys(int) is 'deletes ids that need not be recognised any more';

-- Do one round of maintenance for every inbox; `more` says that another round has work. One inbox in trouble does not stop the others.
create function baton.run_inbox_maintenance()
returns table (inbox text, drained bigint, dead_noticed bigint, dead_dropped bigint, gaps_noticed bigint, problem text, more boolean)
language plpgsql
security definer set search_path = pg_catalog, pg_temp set client_min_messages = warning
as $$
declare
    box baton.inboxes;
    batch int := greatest(baton.setting('inbox_drain_batch_size')::int, 1);
begin
    if not pg_try_advisory_xact_lock(hashtextextended('baton.run_inbox_maintenance', 0)) then
        return;  -- another round is under way
    end if;
    for box in select i.* from baton.inboxes i order by i.id loop
        inbox := format('%I.%I', box.schema_name, box.name);
        drained := 0; dead_noticed := 0; dead_dropped := 0; gaps_noticed := 0; problem := null;
        begin
            perform baton_internal.need_inbox(inbox, '{}');
            perform baton_internal.make_inbox_calls(box);
            drained := baton_internal.drain_inbox(box, batch);
            if box.layout <> 'processed_events' then
                perform baton_internal.mend_inbox_due_times(box);
                dead_noticed := baton_internal.notice_inbox_dead_letters(box);
                dead_dropped := baton_internal.drain_inbox_dead_letters(box, batch);
                perform baton_internal.sweep_inbox_leftovers(box);
                if box.order_mode = 'sequence' then
                    gaps_noticed := baton_internal.notice_inbox_gaps(box);
                elsif box.order_mode = 'arrival' then
                    perform baton_internal.sweep_inbox_aggregates(box, batch);
                end if;
            end if;
        exception when others then
            problem := format('%s: %s', sqlstate, sqlerrm);
            raise warning 'maintenance of inbox % failed: %', inbox, sqlerrm using errcode = sqlstate;
        end;
        more := drained >= batch or dead_dropped >= batch;
        return next;
    end loop;
    perform baton_internal.forget_inbox_keys(batch);
end
$$;
comment on function baton.run_inbox_maintenance() is 'deletes old messages and ids and sends alerts, for every inbox; one batch per call';

select baton_internal.declare_privileges('execute', '{baton_operator,baton_relay}', '{run_inbox_maintenance}');
select baton_internal.declare_privileges('select', '{baton_operator,baton_relay}', '{inbox_dead_letters,inbox_gaps}');
