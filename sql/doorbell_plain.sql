-- The doorbell without the extension: readers announce that they sleep, and only then do writers notify.
--
-- A reader's protocol, which loses no wake-up:
--
--   1. listen on baton.doorbell_channel(outbox)
--   2. poll until nothing is found
--   3. select baton.announce_sleep(outbox, reader), committed
--   4. select baton.sleep_settled(outbox), then poll once more. Until it says true, nap only briefly and repeat this step:
--      a writer that still runs may have looked for sleepers before the announcement
--   5. sleep on the connection, for less than the announced time; announce again before it runs out
--   6. on a notification select baton.end_sleep(outbox, reader), and go to 2
--
-- NOTIFY and PREPARE TRANSACTION exclude each other, and a reader must never make a writer fail: where
-- max_prepared_transactions is not 0 nobody notifies, unless the setting notify_despite_two_phase is on. LISTEN does not
-- work through a pooler in transaction mode. In both cases readers poll.

create unlogged table baton_internal.sleepers (
    outbox oid         not null,  -- the root table
    reader text        not null,
    until  timestamptz not null,  -- so that a reader that died does not cost writers their notifications for ever
    primary key (outbox, reader)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
comment on table baton_internal.sleepers is 'readers that sleep now and want a notification';

-- Say whether writers notify.
create function baton_internal.may_notify()
returns boolean
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$ select current_setting('max_prepared_transactions') = '0' or baton.setting('notify_despite_two_phase')::boolean $$;
comment on function baton_internal.may_notify() is 'true when writers notify sleeping readers; false where NOTIFY could make PREPARE TRANSACTION fail';

-- Name the channel on which an outbox's readers listen.
create function baton.doorbell_channel(outbox regclass)
returns text
language sql stable strict
as $$ select 'baton_doorbell_' || coalesce(pg_catalog.pg_partition_root(outbox), outbox)::oid $$;
comment on function baton.doorbell_channel(regclass) is 'channel of an outbox, for listen';

-- Notify when somebody sleeps. A transaction that keeps one snapshot cannot see who went to sleep since: it notifies always.
create function baton_internal.ring_doorbell()
returns trigger
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    root oid := coalesce(pg_partition_root(tg_relid), tg_relid);
begin
    perform baton_internal.verify_era(root, tg_nargs > 0);
    if (current_setting('transaction_isolation') in ('repeatable read', 'serializable')
        or exists (select from baton_internal.sleepers s where s.outbox = root and s.until > clock_timestamp()))
       and baton_internal.may_notify() then
        perform pg_notify('baton_doorbell_' || root, '');
    end if;
    return null;
end
$$;
comment on function baton_internal.ring_doorbell() is 'statement trigger: the commit of this transaction wakes the outbox''s readers';

-- Say how readers are woken here: bell, notify or poll.
create function baton.doorbell_kind()
returns text
language sql stable
as $$ select case when baton_internal.may_notify() then 'notify' else 'poll' end $$;
comment on function baton.doorbell_kind() is 'bell: call wait_for_events; notify: listen and announce_sleep; poll: only polling';

-- Write down a sleeper.
create function baton_internal.record_sleeper(outbox oid, reader text, duration interval)
returns void
language sql
security definer set search_path = pg_catalog, pg_temp
as $$
    insert into baton_internal.sleepers (outbox, reader, until)
    values (record_sleeper.outbox, record_sleeper.reader, clock_timestamp() + record_sleeper.duration)
    on conflict on constraint sleepers_pkey do update set until = excluded.until
$$;
comment on function baton_internal.record_sleeper(oid, text, interval) is 'the part of announce_sleep that writes';

-- Strike a sleeper out, and those of the outbox whose time ran out.
create function baton_internal.strike_sleeper(outbox oid, reader text)
returns void
language sql
security definer set search_path = pg_catalog, pg_temp
as $$
    delete from baton_internal.sleepers s
     where s.outbox = strike_sleeper.outbox and (s.reader = strike_sleeper.reader or s.until < clock_timestamp())
$$;
comment on function baton_internal.strike_sleeper(oid, text) is 'the part of end_sleep that writes';

-- Announce that a reader goes to sleep; takes effect when committed.
create function baton.announce_sleep(outbox text, reader text, duration interval default '2 minutes')
returns void
language sql
as $$ select baton_internal.record_sleeper(coalesce(pg_partition_root(outbox::regclass), outbox::regclass), reader, duration) $$;
comment on function baton.announce_sleep(text, text, interval) is 'asks writers to notify this reader; commit, then call sleep_settled()';

-- Say whether every writer that may have missed the announcement has finished: those hold a lock on the table.
create function baton.sleep_settled(outbox text)
returns boolean
language sql volatile
as $$
    select not exists (select from pg_catalog.pg_locks l
                        where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted
                          and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
                          and l.relation = coalesce(pg_partition_root(outbox::regclass), outbox::regclass))
$$;
comment on function baton.sleep_settled(text) is 'true when an announced reader may sleep long, after one more poll';

-- Take back an announcement.
create function baton.end_sleep(outbox text, reader text)
returns void
language sql
as $$ select baton_internal.strike_sleeper(coalesce(pg_partition_root(outbox::regclass), outbox::regclass), reader) $$;
comment on function baton.end_sleep(text, text) is 'tells writers that this reader is awake';

-- Forget readers that died asleep.
create function baton_internal.forget_dead_sleepers()
returns void
language sql
as $$ delete from baton_internal.sleepers where until < clock_timestamp() $$;
comment on function baton_internal.forget_dead_sleepers() is 'deletes announcements of readers whose time ran out';

insert into baton.jobs (name, routine, every) values ('forget dead sleepers', 'baton_internal.forget_dead_sleepers', '10 minutes');

-- Return a value that changes whenever any transaction has finished: it says less than a bell, but misses nothing.
create function baton.doorbell_value(outbox text)
returns bigint
language sql volatile strict
as $$ select pg_catalog.hashtextextended(pg_catalog.pg_current_snapshot()::text, outbox::regclass::oid::bigint) $$;
comment on function baton.doorbell_value(text) is 'a value that changes whenever events of the outbox were committed';

-- Nap until the value differs from `since`, or the time is over; commits between naps and so holds no old snapshot.
create procedure baton.wait_for_events(outbox text, inout since bigint default null, timeout interval default '10 seconds')
language plpgsql
as $$
declare
    deadline timestamptz := clock_timestamp() + coalesce(timeout, interval '0');
    value bigint := baton.doorbell_value(outbox);
    nap double precision := 0.05;  -- a busy server changes the value at every nap: then this is the pace of polling
begin
    commit;
    while value = since and clock_timestamp() < deadline loop
        perform pg_sleep(least(nap, extract(epoch from deadline - clock_timestamp())));
        commit;
        value := baton.doorbell_value(outbox);
        nap := least(nap * 1.2, 0.25);
    end loop;
    since := value;
end
$$;
comment on procedure baton.wait_for_events(text, bigint, interval) is
    'sleeps until baton.doorbell_value(outbox) differs from since; not inside a transaction block';

-- Wait until the log is on disk up to a position. The server's log writer gets there by itself after commits and for
-- full pages; what lies on the last page and was not committed it leaves, so after a while the page is filled up.
create function baton_internal.flush_wal_up_to(lsn pg_lsn default pg_current_wal_insert_lsn())
returns void
language plpgsql volatile strict
set search_path = pg_catalog, pg_temp
as $$
declare
    naps int := 0;
begin
    if pg_is_in_recovery() then
        return;
    end if;
    if lsn > pg_current_wal_insert_lsn() then
        raise exception 'position % is beyond the end of the log', lsn
            using errcode = 'invalid_parameter_value',
                  hint = 'take positions from pg_current_wal_insert_lsn() of this server';
    end if;
    while pg_current_wal_flush_lsn() < lsn loop
        naps := naps + 1;
        if naps % 100 = 0 then
            perform pg_logical_emit_message(false, 'baton', repeat(' ', 2 * current_setting('wal_block_size')::int));
        end if;
        perform pg_sleep(0.005);
    end loop;
end
$$;
comment on function baton_internal.flush_wal_up_to(pg_lsn) is
    'returns when the log is on disk up to lsn; then events of asynchronous commits may leave the database too';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator}',
    '{may_notify,doorbell_channel,announce_sleep,end_sleep,sleep_settled,record_sleeper,strike_sleeper}');
