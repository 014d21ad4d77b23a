-- Views, health, status, retention and alerts.
begin;
select no_plan();
create temp table alerts (n serial, event text, object text, details jsonb);
create or replace function baton_internal.alert(event text, object text, details jsonb default '{}') returns void language sql as
    $$ insert into pg_temp.alerts (event, object, details) values (event, object, details) $$;

select baton.create_inbox('inb');
select is(baton.inbox_health('inb'), '{"pending_count": 0, "dead_letter_count": 0, "avg_processing_time_sec": null, "oldest_pending_age_sec": 0.000,
    "throughput_per_sec": 0.000, "duplicate_rate_pct": 0.00, "stalled_aggregates": 0, "oldest_stall_sec": 0.000, "unsequenced_count": 0, "unclaimable_count": 0,
    "health_status": "healthy"}'::jsonb, 'an empty inbox is healthy');
select baton.receive('inb', 'e' || n, 'kind' || n % 2, '{}') from generate_series(1, 4) n;
select baton.receive('inb', 'e1', 'kind1', '{}');
select is((baton.inbox_health('inb') ->> 'duplicate_rate_pct')::numeric, 20.00, 'one of five deliveries was a duplicate');
update inb set processed_at = received_at + interval '2 s' where event_id in ('e1', 'e2');
select is((baton.inbox_health('inb') ->> 'avg_processing_time_sec')::numeric, 2.000, 'average processing time');
update inb set processed_at = now() where processed_at is not null;
select is((baton.inbox_health('inb') ->> 'throughput_per_sec')::numeric, round(2 / 60.0, 3), 'throughput of the last minute');
select is((baton.inbox_health('inb') ->> 'duplicate_rate_pct')::numeric, 20.00, 'processed messages still count in the rate');
select results_eq('select event_type, pending, processed_last_hour, dead_letter from stats_inb order by 1',
                  $$values ('kind0', 1::bigint, 1::bigint, 0::bigint), ('kind1', 1, 1, 0)$$, 'statistics by event type');
savepoint two_hours_ago;
update inb set received_at = now() - interval '3 hours', processed_at = now() - interval '2 hours' where event_id = 'e1';
select results_eq('select event_type, processed_last_hour, avg_processing_time_sec_last_hour is null from stats_inb order by 1',
                  $$values ('kind0', 1::bigint, false), ('kind1', 0, true)$$, 'of what was processed they know the last hour, as their columns say');
rollback to two_hours_ago;
select is(baton.inbox_health('inb') ->> 'health_status', 'healthy', 'two fresh pending ones are healthy');

-- thresholds
update inb set received_at = clock_timestamp() - interval '29 s', available_at = received_at where event_id = 'e3';
select is(baton.inbox_health('inb') ->> 'health_status', 'healthy', 'oldest at 29 s');
update inb set received_at = clock_timestamp() - interval '30 s' where event_id = 'e3';
update inb set available_at = received_at where event_id = 'e3';
select is(baton.inbox_health('inb') ->> 'health_status', 'degraded', 'oldest at 30 s');
update inb set received_at = clock_timestamp() - interval '119 s', available_at = clock_timestamp() - interval '119 s' where event_id = 'e3';
select is(baton.inbox_health('inb') ->> 'health_status', 'degraded', 'oldest at 119 s');
update inb set received_at = clock_timestamp() - interval '120 s', available_at = clock_timestamp() - interval '120 s' where event_id = 'e3';
select is(baton.inbox_health('inb') ->> 'health_status', 'critical', 'oldest at 120 s');
update inb set available_at = clock_timestamp() + interval '1 hour' where event_id = 'e3';
select is(baton.inbox_health('inb') ->> 'health_status', 'healthy', 'a message sent for later is not late');
update inb set available_at = now(), received_at = now(), retry_count = 3 where event_id = 'e3';
select is(baton.inbox_health('inb') ->> 'health_status', 'degraded', 'any dead letter degrades');
select is((baton.inbox_health('inb') ->> 'dead_letter_count')::int, 1, 'and is counted');
select baton.create_inbox('many');
alter table many disable trigger user;
insert into many (event_id, event_type) select n, 't' from generate_series(1, 9999) n;
select is(baton.inbox_health('many') ->> 'health_status', 'healthy', '9,999 pending');
insert into many (event_id, event_type) values (10000, 't');
select is(baton.inbox_health('many') ->> 'health_status', 'degraded', '10,000 pending');
insert into many (event_id, event_type) select n, 't' from generate_series(10001, 100000) n;
select is(baton.inbox_health('many') ->> 'health_status', 'critical', '100,000 pending');
select throws_ok($$select baton.inbox_health('nosuch')$$, '42704', null, 'unknown inbox');

-- history costs nothing: none of the views reads more than its partial index
update many set processed_at = now() - interval '2 hours';
insert into many (event_id, event_type) values ('last', 't');
analyze many;
create function plan_of(statement text) returns text language plpgsql as $$
declare line text; plan text := '';
begin for line in execute 'explain ' || statement loop plan := plan || line || E'\n'; end loop; return plan; end $$;
select unalike(plan_of('select * from pending_many'), '%Seq Scan%', 'pending_ does not read history');
select unalike(plan_of('select * from dlq_many'), '%Seq Scan%', 'dlq_ does not');
select unalike(plan_of('select * from stats_many'), '%Seq Scan%', 'stats_ does not');

truncate many;
insert into many (event_id, event_type) values ('last', 't');
insert into many (event_id, event_type, processed_at) select n, 't', now() - interval '2 hours' from generate_series(1, 10) n;

-- status
select results_eq($$select inbox, table_name, is_managed, pending_count, dead_letter_count, max_retries, retention_hours, ordered, prioritised from baton.inbox_status() order by 1$$,
    $$values ('public.inb', 'public.inb', true, 1::bigint, 1::bigint, 3, 72, false, false), ('public.many', 'public.many', true, 1, 0, 3, 72, false, false)$$, 'status lists every inbox');
select is((select count(*) from baton.inbox_status('inb')), 1::bigint, 'or one');
select throws_ok($$select * from baton.inbox_status('nosuch')$$, '42704', null, 'that exists');
select baton.create_inbox('gone');
drop table gone cascade;
select results_eq($$select table_name, health_status from baton.inbox_status('gone')$$, $$values (null::text, 'table missing')$$, 'a table dropped by hand shows');

-- one inbox in trouble does not stop the others
select is((select problem from baton.run_inbox_maintenance() where inbox = 'public.gone') like '42P01%', true, 'maintenance names the problem');
select baton.drop_inbox('gone');

-- dead letter alerts
select results_eq('select event, object, details from alerts', $$values ('inbox_dlq_message', 'public.inb',
    '{"event_id": "e3", "event_type": "kind1", "error": null, "retry_count": 3, "aggregate_id": null}'::jsonb)$$, 'that round reported the dead letter');
truncate alerts;
select baton.run_inbox_maintenance();
select is_empty('select * from alerts', 'only once');
insert into inb (event_id, event_type, retry_count) select 'd' || n, 't', 3 from generate_series(1, 25) n;
select is((select dead_noticed from baton.run_inbox_maintenance() where inbox = 'public.inb'), 25::bigint, 'a burst of dead letters');
select results_eq('select event, count(*) from alerts group by 1 order by 1', $$values ('inbox_dlq_batch', 1::bigint), ('inbox_dlq_message', 10)$$, 'ten alerts and one in sum');
select is((select details from alerts where event = 'inbox_dlq_batch'), '{"count": 15, "total": 25}'::jsonb, 'that counts the rest');
truncate alerts;
select is(baton.replay_inbox_messages('inb', '{d1,e4,nosuch}'), 1::bigint, 'replay touches dead and processed messages only');
select results_eq('select event, object, details ->> $$count$$ from alerts', $$values ('inbox_replay', 'public.inb', '1')$$, 'and alerts');
select results_eq($$select retry_count, error, processed_at from inb where event_id = 'd1'$$, $$values (0, null::text, null::timestamptz)$$, 'the message starts again');
truncate alerts;
select baton.run_inbox_maintenance();
update inb set retry_count = 3 where event_id = 'd1';
select baton.run_inbox_maintenance();
select is((select count(*) from alerts), 1::bigint, 'a message that dies again is reported again');

-- retention
update inb set processed_at = now() - interval '73 hours' where event_id = 'e1';
update inb set processed_at = now() - interval '71 hours' where event_id = 'e2';
select is((select drained from baton.run_inbox_maintenance() where inbox = 'public.inb'), 1::bigint, 'processed messages go after 72 hours');
select is((select count(*) from inb where event_id in ('e1', 'e2')), 1::bigint, 'not before');
select is(baton.receive('inb', 'e1', 't', '{}'), 'duplicate', 'their ids are still known');
select is((select last_drained_count from baton.inbox_status('inb')), 1::bigint, 'status tells of the drain');
update inb set received_at = now() - interval '1 year' where event_id = 'e4';
select baton.run_inbox_maintenance();
select is((select count(*) from inb where event_id = 'e4'), 1::bigint, 'what is not processed is never drained');
select is((select count(*) from dlq_inb), 26::bigint, 'dead letters are kept by default');
set local baton.inbox_drain_batch_size = 6;
select results_eq($$select drained, more from baton.run_inbox_maintenance() where inbox = 'public.many'$$, $$values (0::bigint, false)$$, 'two hours are not 72');
select baton.alter_inbox('many', retention_hours => 1);
alter table many enable trigger user;
select results_eq($$select drained, more from baton.run_inbox_maintenance() where inbox = 'public.many'$$, $$values (6::bigint, true)$$, 'an inbox''s own retention, in batches');
select results_eq($$select drained, more from baton.run_inbox_maintenance() where inbox = 'public.many'$$, $$values (4::bigint, false)$$, 'until nothing is left');
select baton.set_setting('inbox_dlq_retention_hours', '1');
update baton_internal.inbox_dead_letters set noticed_at = now() - interval '61 minutes' where event_id in ('d1', 'd2');
select is((select dead_dropped from baton.run_inbox_maintenance() where inbox = 'public.inb'), 2::bigint, 'dead letters go if their retention is set');
select is(baton.receive('inb', 'd1', 't', '{}'), 'duplicate', 'and are still known');

-- ids are forgotten by their own retention
select is((select count(*) > 0 from baton_internal.inbox_keys where event_id = 'e1'), true, 'the id of a drained message is kept');
update baton_internal.inbox_keys set recorded_at = now() - interval '719 hours' where event_id = 'e1';
select baton.run_inbox_maintenance();
select is(baton.receive('inb', 'e1', 't', '{}'), 'duplicate', 'for 720 hours');
update baton_internal.inbox_keys set recorded_at = now() - interval '721 hours' where event_id = 'e1';
select baton.run_inbox_maintenance();
select is(baton.receive('inb', 'e1', 't', '{}'), 'new', 'after that it is new');

-- gaps and late arrivals of an ordered inbox
select baton.create_inbox('ord');
select baton.enable_inbox_ordering('ord', 'aggregate_id', 'sequence_num');
truncate alerts;
select baton.receive('ord', 'a2', 't', '{}', aggregate_id => 'a', sequence_num => 2);
select baton.run_inbox_maintenance();
select is_empty('select * from alerts', 'a gap is not reported at once');
set local baton.inbox_gap_alert_delay_seconds = 0;
select is((select gaps_noticed from baton.run_inbox_maintenance() where inbox = 'public.ord'), 1::bigint, 'but after the delay');
select results_eq($$select event, object, details - 'gap_age_sec' from alerts$$,
    $$values ('inbox_ordering_gap', 'public.ord', '{"aggregate": "a", "expected": 1, "found": 2}'::jsonb)$$, 'with what is missing');
select is((select gaps_noticed from baton.run_inbox_maintenance() where inbox = 'public.ord'), 0::bigint, 'once');
select baton.receive('ord', 'a1', 't', '{}', aggregate_id => 'a', sequence_num => 1);
select baton.run_inbox_maintenance();
select is((select count(*) from baton_internal.inbox_gaps), 0::bigint, 'a closed gap is forgotten');
select baton.advance_inbox_sequence('ord', 'b', 5);
select baton.receive('ord', 'b4', 't', '{}', aggregate_id => 'b', sequence_num => 4);
select is_empty($$select * from next_ord where aggregate_id = 'b'$$, 'a message that comes after its sequence was passed is not offered');
select baton.run_inbox_maintenance();
select results_eq('select event_id, error, blocks_aggregate from dlq_ord', $$values ('b4', 'its sequence had been passed when it came', false)$$, 'it becomes a dead letter');
select is(baton.replay_inbox_messages('ord', '{b4}'), 1::bigint, 'which can be replayed');
select baton.run_inbox_maintenance();
select is((select count(*) from baton.claim_inbox('ord', 'w') where event_id = 'b4'), 1::bigint, 'and is then offered');

select * from finish();
rollback;
