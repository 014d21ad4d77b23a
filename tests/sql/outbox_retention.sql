-- Retention: partitions come and go whole, and never while a group needs them.
select no_plan();
select baton.create_outbox('events', partition_interval => '1 hour', retention => '2 hours');
-- Pretend that everything happened some time earlier.
create function time_passes(t interval) returns void language sql as $$
    update baton_internal.outbox_partitions set opened_at = opened_at - t, closed_at = closed_at - t, archived_at = archived_at - t
$$;
create function partitions() returns int language sql as $$ select count(*)::int from pg_inherits where inhparent = 'events'::regclass $$;
select baton.create_consumer_group('slow', 'events', 'earliest', retry_base => '1 hour', retry_limit => '1 hour'), baton.create_consumer_group('quick', 'events', 'earliest');
insert into events (event_type, partition_key) select 'e', 'k' || i from generate_series(1, 5) i;
select baton.run_maintenance();
select is(partitions(), 3, 'partitions are made ahead');
select is(baton.publish('events', 'e', '{}'), 6::bigint, 'within the hour the log stays');
select time_passes('61 minutes');
select baton.run_maintenance();
select is(baton.publish('events', 'e', '{}') >= 1000000000, true, 'after it the log moves into the next partition');
select time_passes('121 minutes');
select is((select sum(retired_partitions)::int from baton.run_maintenance()), 0, 'nothing is dropped that a group has not read');
select is((select count(*)::int from baton.poll_outbox('quick', 'c')), 7, 'the quick one reads');
select baton.commit_offset('quick', 'c', 1000000000);
select is((select sum(retired_partitions)::int from baton.run_maintenance('events')), 0, 'the slow one counts');
select is((select count(*)::int from baton.poll_outbox('slow', 'c', 5)), 5, 'it reads a part');
select is((select sum(retired_partitions)::int from baton.run_maintenance('events')), 0, 'a part is not enough');
select baton.commit_offset('slow', 'c', 5);
select is((select count(*)::int from baton.poll_outbox('slow', 'c', 1)), 1, 'the last one of the old partition');
select is((select sum(retired_partitions)::int from baton.run_maintenance('events')), 0, 'leased is not settled');
select baton.commit_offset('slow', 'c', 6);
select is((select count(*)::int from baton.poll_outbox('slow', 'c', 5)), 1, 'it moves on');
select count(*) from baton.poll_outbox('quick', 'c');
select is((select sum(retired_partitions)::int from baton.run_maintenance('events')), 1, 'now the old partition goes');
select is((select min(id) from events), 1000000000::bigint, 'with all that was in it');
select baton.commit_offset('slow', 'c', 1000000000);

-- a parked event is saved from its partition
select is(baton.publish('events', 'e', '{"keep": "me"}', partition_key => 'p') > 0, true, 'one that fails');
create temporary table failing as select id from baton.poll_outbox('slow', 'c');
select count(*) from baton.fail_events('slow', 'c', array(select id from failing), 'boom');
select baton.commit_offset('quick', 'c', max(id)) from baton.poll_outbox('quick', 'c');
select time_passes('61 minutes');
select baton.run_maintenance();
insert into events (event_type) values ('next');
select baton.commit_offset('quick', 'c', max(id)) from baton.poll_outbox('quick', 'c');
select baton.commit_offset('slow', 'c', max(id)) from baton.poll_outbox('slow', 'c');
select count(*) from baton.poll_outbox('slow', 'c') union all select count(*) from baton.poll_outbox('quick', 'c');
select time_passes('121 minutes');
select ok((select sum(retired_partitions) >= 1 from baton.run_maintenance('events')), 'its partition goes');
select is((select count(*)::int from events where id in (select id from failing)), 0, 'the log has it no more');
update baton_internal.parked set due_at = now() - interval '1 second';
select is((select payload ->> 'keep' from baton.poll_outbox('slow', 'c')), 'me', 'but it is delivered all the same');
select is((select baton.commit_offset('slow', 'c', id) from failing), true, 'and settled');

-- archive
select baton.alter_outbox('events', archive_for => '10 hours');
select time_passes('61 minutes');
select baton.run_maintenance();
insert into events (event_type) values ('archived next');
select baton.commit_offset(g, 'c', (select max(id) from baton.poll_outbox(g, 'c'))) from unnest('{slow,quick}'::text[]) g;
select count(*) from baton.poll_outbox('slow', 'c') union all select count(*) from baton.poll_outbox('quick', 'c');
select time_passes('121 minutes');
select is((select sum(retired_partitions)::int from baton.run_maintenance('events')), 1, 'with an archive the partition leaves the log');
select is((select array_agg(event_type) from events_archive), '{next}', 'into the archive');
select time_passes('601 minutes');
select is((select sum(retired_partitions)::int >= 1 from baton.run_maintenance('events')), true, 'and later leaves that');
select is((select count(*)::int from events_archive where event_type = 'next'), 0, 'for good');

-- by force
insert into events (event_type) values ('forced');
select time_passes('61 minutes');
select baton.run_maintenance();
insert into events (event_type) values ('and on');
select time_passes('121 minutes');
select is((select sum(retired_partitions)::int from baton.run_maintenance('events')), 0, 'unread events stay');
select baton.set_setting('outbox_force_retention', 'on');
select is((select sum(retired_partitions)::int >= 1 from baton.run_maintenance('events')), true, 'unless the operator insists');
select ok(exists (select from baton.audit_trail where action = 'force_retention'), 'which is on record');
select ok((select count(*) from baton.poll_outbox('slow', 'c') where event_type = 'and on') = 1, 'the group goes on with what is left');
select baton.set_setting('outbox_force_retention', 'off');

-- by size
select baton.create_outbox('big', partition_interval => null, partition_bytes => 100000);
insert into big (event_type, payload) select 'x', to_jsonb(repeat(md5(i::text), 20)) from generate_series(1, 300) i;
select baton.run_maintenance('big');
select ok(baton.publish('big', 'e', '{}') >= 1000000000, 'a partition is left at its size');
select is((select storage_status from baton.outbox_status('big')), 'ok', 'storage is fine');
select baton.set_setting('outbox_storage_critical_mb', '0');
select is((select storage_status from baton.outbox_status('big')), 'critical', 'until it is not');
select lives_ok($$ select baton.run_maintenance('big') $$, 'which maintenance reports');
select isnt((select storage_alert_at from baton.outboxes where relation = 'big'::regclass), null, 'once');

-- consumers
select baton.consumer_heartbeat('slow', 'dead one');
select is((select count(*)::int from baton.poll_outbox('slow', 'dead one')), 0, 'a consumer');
update baton_internal.consumers set last_heartbeat_at = now() - interval '25 hours', registered_at = now() - interval '8 days' where consumer_id = 'dead one';
select baton.run_maintenance();
select is((select count(*)::int from baton_internal.consumers where consumer_id = 'dead one'), 0, 'that is dead and stale is forgotten');
update baton_internal.consumers set last_heartbeat_at = now() - interval '25 hours' where consumer_id = 'c';
select baton.run_maintenance();
select is((select count(*)::int from baton_internal.consumers where consumer_id = 'c' and reaped_at is null), 0, 'one that is only dead is reaped');
select is((select count(*)::int from baton_internal.pieces where consumer_id = 'c' and leased_until > now()), 0, 'and its leases have run out');

select * from finish();
