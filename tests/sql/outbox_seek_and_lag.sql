-- Seeking, and what is shown about lag.
select no_plan();
select baton.create_outbox('events');
select baton.create_consumer_group('g', 'events', 'earliest');
insert into events (event_type, partition_key, occurred_at) select 'e', 'k' || i, '2026-01-01'::timestamptz + i * interval '1 hour' from generate_series(1, 10) i;

select is((select lag_rows from baton.consumer_lag('g')), 10::bigint, 'lag before anything was read');
select is((select count(*)::int from baton.poll_outbox('g', 'c', 4)), 4, 'four');
select is((select lag_rows from baton.consumer_lag('g') limit 1), 10::bigint, 'reading alone settles nothing');
select baton.commit_offset('g', 'c', 4);
select is((select lag_rows from baton.consumer_lag('g') limit 1), 6::bigint, 'committing does');
select is((select last_offset from baton.consumer_lag('g') limit 1), 4::bigint, 'the last offset is shown');
select ok((select lag_seconds > 0 from baton.group_lag where group_name = 'g'), 'in seconds too');

-- the names that dashboards for consumer groups expect
select is((select (consumer_id, last_offset, healthy, lag_rows, last_heartbeat_at <= clock_timestamp() and heartbeat_age_seconds >= 0)::text
             from baton.consumer_status where group_name = 'g'), '(c,4,t,6,t)', 'consumer_status: a consumer with offset, health and lag');
select is((select array_agg(heartbeat_age_sec = heartbeat_age_seconds and heartbeat_age_sec >= 0) from baton.consumer_lag('g')), '{t}', 'the age of a heartbeat under its other name');
select ok((select heartbeat_age_sec >= 0 from baton.consumer_status where group_name = 'g'), 'there, too');
select baton.create_consumer_group('empty', 'events');
select is((select array_agg(group_name order by group_name) from baton.consumer_status), '{g}', 'a group without consumers has none there');
select is((select array_agg((group_name, lag_rows, consumers, healthy_consumers)::text order by group_name) from baton.consumer_group_lag),
          (select array_agg((group_name, lag_rows, consumers, healthy_consumers)::text order by group_name) from baton.group_lag), 'consumer_group_lag: as group_lag');
select is((select count(*)::int from baton.poll_outbox('g', 'c', 1)), 1, 'a lease');
select is((select array_agg((group_name, consumer_id, first_id, last_id, visibility_until > clock_timestamp())::text) from baton.consumer_active_leases),
          (select array_agg((group_name, consumer_id, first_id, last_id, true)::text) from baton.active_leases), 'consumer_active_leases: as active_leases');
select isnt_empty('select from baton.consumer_active_leases where consumer_id = ''c''', 'and there is one');
select baton.drop_consumer_group('empty');

select lives_ok($$ select baton.seek_offset('g', 'c', 2) $$, 'back to an id');
select is((select array_agg(id) from baton.poll_outbox('g', 'c')), '{3,4,5,6,7,8,9,10}'::bigint[], 'everything after it comes again');
select lives_ok($$ select baton.seek_offset('g', 'c', to_time => '2026-01-01 08:00') $$, 'to a time');
select is((select array_agg(id) from baton.poll_outbox('g', 'c')), '{8,9,10}'::bigint[], 'from its first event');
select lives_ok($$ select baton.seek_offset('g', 'c', null) $$, 'to the end');
select is((select count(*)::int from baton.poll_outbox('g', 'c')), 0, 'nothing is left');
select is((select lag_rows from baton.consumer_lag('g') limit 1), 0::bigint, 'and no lag');
insert into events (event_type) values ('new');
select is((select array_agg(id) from baton.poll_outbox('g', 'c')), '{11}'::bigint[], 'but what comes then');
select lives_ok($$ select baton.seek_offset('g', 'c', place => 'beginning') $$, 'to the beginning');
select is((select count(*)::int from baton.poll_outbox('g', 'c')), 11, 'all of it');
select lives_ok($$ select baton.seek_offset('g', 'c', 11) $$, 'after the last');
select throws_ok($$ select baton.commit_offset('g', 'c', 11) $$, 'BT001', null, 'a lease from before is lost');
select is((select count(*)::int from baton.poll_outbox('g', 'c')), 0, 'nothing there');
select throws_ok($$ select baton.seek_offset('g', 'c', 5, place => 'end') $$, '22023', null, 'two places at once');
select throws_ok($$ select baton.seek_offset('g', 'c', -1) $$, '22023', null, 'a negative offset');
select throws_ok($$ select baton.seek_offset('g', 'c', place => 'somewhere') $$, '22023', null, 'a place that is none');
select throws_ok($$ select baton.seek_offset('g', 'beginning') $$, '22023', null, 'a place for the consumer, which would skip everything');
select throws_ok($$ select baton.seek_offset('g', 'latest') $$, '22023', null, 'or a start');
select ok((select count(*) >= 5 from baton.audit_trail where action = 'seek_offset'), 'seeking is on record');

-- parked events and seeking
insert into events (event_type, partition_key) values ('f', 'x');
select is((select count(*)::int from baton.poll_outbox('g', 'c')), 1, 'one more');
select is((select count(*)::int from baton.fail_events('g', 'c', '{12}', 'boom')), 1, 'which fails');
select is((select lag_rows from baton.consumer_lag('g') limit 1), 1::bigint, 'a parked event counts as lag');
select baton.seek_offset('g', 'c', 10);
select is((select count(*)::int from baton_internal.parked), 0, 'seeking back over it takes it out of the parking');
select is((select array_agg(id) from baton.poll_outbox('g', 'c')), '{11,12}'::bigint[], 'because it comes from the log');

-- many
insert into events (event_type) select 'bulk' from generate_series(1, 60000);
select is((select lag_rows from baton.consumer_lag('g') limit 1), 60002::bigint, 'a large lag is estimated from the ids');

select * from finish();
