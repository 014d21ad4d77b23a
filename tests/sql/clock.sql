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

select * from finish();
