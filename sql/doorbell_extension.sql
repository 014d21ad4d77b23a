-- The doorbell in shared memory: a commit wakes the readers that sleep.

-- Mark the transaction, so that its commit rings.
create function baton_internal.ring_doorbell()
returns trigger
language c
as 'MODULE_PATHNAME', 'baton_ring_doorbell';
comment on function baton_internal.ring_doorbell() is 'statement trigger: the commit of this transaction wakes the outbox''s readers';

-- Say how readers are woken here: bell, notify or poll.
create function baton.doorbell_kind()
returns text
language sql stable parallel safe
as $$ select 'bell' $$;
comment on function baton.doorbell_kind() is 'bell: call wait_for_events; notify: listen and announce_sleep; poll: only polling';

-- Return the counter of an outbox's bell.
create function baton.doorbell_value(outbox text)
returns bigint
language c volatile strict
as 'MODULE_PATHNAME', 'baton_doorbell_value';
comment on function baton.doorbell_value(text) is 'a value that changes whenever events of the outbox were committed';

-- Sleep until the bell has rung since `since`, or the time is over; commits before it sleeps and so holds no snapshot.
create procedure baton.wait_for_events(outbox text, inout since bigint default null, timeout interval default '10 seconds')
language c
as 'MODULE_PATHNAME', 'baton_wait_for_events';
comment on procedure baton.wait_for_events(text, bigint, interval) is
    'sleeps until baton.doorbell_value(outbox) differs from since; not inside a transaction block';

-- Write the log to disk up to a position.
create function baton_internal.flush_wal_up_to(lsn pg_lsn default pg_current_wal_insert_lsn())
returns void
language c volatile strict
as 'MODULE_PATHNAME', 'baton_flush_wal_up_to';
comment on function baton_internal.flush_wal_up_to(pg_lsn) is
    'returns when the log is on disk up to lsn; then events of asynchronous commits may leave the database too';
