-- A clock that was ahead once and was put right: what was noted meanwhile stops nothing.
select no_plan();
update baton.jobs set enabled = false;

select baton.create_outbox('events', partition_interval => '1 hour');
insert into events (event_type) values ('t');
update baton.outboxes set maintained_at = now() + interval '1 year', storage_alert_at = now() + interval '1 year';
update baton_internal.outbox_partitions set since = now() + interval '1 year';
select baton.set_setting('outbox_storage_critical_mb', '0');
call baton.run_maintenance();
select ok(maintained_at <= clock_timestamp(), 'an outbox is maintained') from baton.outboxes;
select ok(storage_alert_at <= clock_timestamp(), 'its size is watched') from baton.outboxes;
select is((select count(*)::int from baton_internal.outbox_partitions where since > clock_timestamp()), 0, 'and its partitions will be retired');

create function work() returns void language sql as '';
begin;  -- before the server's own worker comes
delete from baton.jobs;
insert into baton.jobs (name, routine, every, next_due, last_run)
values ('ahead', 'public.work', '1 minute', now() + interval '1 year', now() + interval '1 year'), ('kept back', 'public.work', '1 minute', 'infinity', now());
select is(baton_internal.next_job_due(), '-infinity', 'a job that was run in the future is due');
select is(baton_internal.run_due_job(), 'ahead', 'and runs');
select ok(last_run <= clock_timestamp() and next_due < now() + interval '1 hour', 'as it did before') from baton.jobs where name = 'ahead';
select is(baton_internal.run_due_job(), null, 'once; a job that somebody has put off stays so');
update baton.jobs set enabled = false;
commit;

select ok(baton_internal.take_lead('a', '30 seconds'), 'a relay leads');
select ok(not baton_internal.take_lead('b', '30 seconds'), 'and no other');
update baton_internal.relay_leader set until = now() + interval '1 year';
select ok(baton_internal.take_lead('b', '30 seconds'), 'unless its lease is longer than it can be');

-- leases and waits of five hours ahead
select baton.set_setting('outbox_storage_critical_mb', '1000');
select baton.create_outbox('log');
select baton.create_consumer_group('c', 'log', 'earliest'), baton.create_consumer_group('r', 'log', 'earliest'), baton.create_consumer_group('f', 'log', 'earliest', retry_base => '1 minute');
insert into log (event_type, aggregate_id) values ('t', 'a'), ('t', 'b');
insert into log (event_type, aggregate_id, available_at) values ('later', 'c', now() + interval '3 hours');
select is((select count(*)::int from baton.poll_outbox('c', 'gone', 2, 30)), 2, 'a consumer takes events');
select is((select count(*)::int from baton.poll_outbox('f', 'f', 10, 30)), 2, 'another one, too');
select is((select count(*)::int from baton.fail_events('f', 'f', '{1}', 'not now')), 1, 'which fails at one');
select is((baton_internal.take_group('r', 'gone', '15 seconds')).held_by, 'gone', 'a relay takes a group');
select baton.create_inbox('box');
create table arrivals (event_id text primary key, event_type text, aggregate_id text, payload jsonb, headers jsonb, received_at timestamptz default now(), processed_at timestamptz,
                       retry_count int not null default 0, error text);
select baton.adopt_inbox('arrivals');
select baton.receive(i, m, 't', '{}') from unnest('{box,arrivals}'::text[]) i, unnest('{1,2}'::text[]) m;
select baton.receive('box', 'later', 't', '{}', available_at => now() + interval '3 hours');
create temp table work as select i.inbox, w.* from unnest('{box,arrivals}'::text[]) i (inbox), baton.claim_inbox(i.inbox, 'gone') w;
select is((select count(*)::int from work), 4, 'a worker takes messages');
select is((select sum(baton.fail_inbox(inbox, event_id, 'not now', lease_token => lease_token)) from work where event_id = '2'), 2::numeric, 'and fails at some');
select baton_internal.watch_clock();
select is((select count(*)::int from baton_internal.pieces where leased_until < now() + interval '20 seconds'), 0, 'a clock that goes as it should changes no lease');
select is((select count(*)::int from baton_internal.clock_marks where seen_at > now() - interval '1 minute'), 1, 'the time is noted');

update baton_internal.clock_marks set seen_at = seen_at + interval '5 hours';
update baton_internal.pieces set leased_at = leased_at + interval '5 hours', leased_until = leased_until + interval '5 hours';
update baton_internal.parked set due_at = due_at + interval '5 hours' where state = 'retry';
update baton_internal.group_positions set owned_until = owned_until + interval '5 hours';
update baton_internal.consumers set last_poll_at = last_poll_at + interval '5 hours', last_heartbeat_at = last_heartbeat_at + interval '5 hours';
update box set leased_until = leased_until + interval '5 hours', available_at = case when retry_count > 0 then available_at + interval '5 hours' else available_at end;
update baton_internal.inbox_work set leased_until = leased_until + interval '5 hours', available_at = available_at + interval '5 hours';
select baton_internal.watch_clock();
select is((select count(*)::int from baton_internal.pieces where leased_until > now() + interval '1 minute'), 0, 'leases that were taken while the clock was ahead end soon');
select is((select (count(*) filter (where leased_until > now()))::int from baton_internal.pieces), 2, 'not at once');
select ok((select due_at < now() + interval '3 minutes' from baton_internal.parked where state = 'retry'), 'a failed event is due by its backoff');
select ok((select due_at > now() + interval '2 hours' from baton_internal.parked where state = 'scheduled' limit 1), 'one that was sent for later stays so');
select ok((select max(owned_until) < now() + interval '1 minute' from baton_internal.group_positions), 'a relay that is gone keeps its group no longer than its lease');
select ok((select bool_and(last_poll_at <= now() + interval '1 minute' and last_heartbeat_at <= now() + interval '1 minute') from baton_internal.consumers), 'consumers were last seen in the past');
select is((select count(*)::int from box where leased_until > now() + interval '1 minute'), 0, 'so it is with messages of an inbox');
select ok((select available_at < now() + interval '10 minutes' from box where event_id = '2'), 'failed ones');
select ok((select available_at > now() + interval '2 hours' from box where event_id = 'later'), 'and those that were sent for later');
select is((select count(*)::int from baton_internal.inbox_work where leased_until > now() + interval '1 minute' or available_at > now() + interval '10 minutes'), 0, 'and with those of an adopted table');
create temp table leases as select leased_until from baton_internal.pieces;
select baton_internal.watch_clock();
select bag_eq('select leased_until from baton_internal.pieces', 'select * from leases', 'once');
update baton_internal.consumers set last_poll_at = now() + interval '2 hours' where consumer_id = 'gone';
select ok(baton_internal.clock_step() between interval '119 minutes' and interval '2 hours', 'a poll in the future tells as well that the clock was ahead');

-- locks in an adopted outbox
create table jobs (id int primary key, body jsonb, state text not null default 'new', taken timestamptz, taker text);
select baton.adopt_outbox('jobs', mapping => '{"columns": {"id": "id", "payload": "body", "status": "state", "locked_at": "taken", "locked_by": "taker"}, "states": {"pending": "new", "done": "sent", "dead": "broken"}}');
insert into jobs (id, body, taken, taker) values (1, '{}', now() + interval '5 hours', 'gone'), (2, '{}', now(), 'here');
select results_eq($$ select id from baton.claim_adopted('jobs', 'w') $$, $$ values ('1') $$, 'a lock that was taken while the clock was ahead is stale');

select * from finish();
