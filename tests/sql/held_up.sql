-- Nothing is held up for good: not a key by a dead letter that has gone, not maintenance and jobs by a clock that was ahead, not an inbox by the
-- id of a message.
select no_plan();
update baton.jobs set enabled = false;

-- a key that is held by a dead letter
select baton.create_outbox('held');
select baton.create_consumer_group('held', 'held', 'earliest', on_poison => 'block_key');
insert into held (event_type, payload, aggregate_id) values ('a', '1', 'k'), ('a', '2', 'k');
select is((select array_agg(id) from baton.poll_outbox('held', 'c')), '{1,2}', 'two events of a key');
select is((select array_agg(state order by id) from baton.fail_events('held', 'c', '{1}', 'no', true)), '{dead,blocked}', 'the first dies and holds the second');
select is((select count(*)::int from baton.poll_outbox('held', 'c')), 0, 'for as long as the group says so');
select baton_internal.prepare_group('held', 'held', on_poison => 'park');
select is((select array_agg(id) from baton.poll_outbox('held', 'c')), '{2}', 'and no longer');

-- a clock that was ahead, and was set back
update baton.outboxes set maintained_at = now() + interval '1 year', maintenance_error = 'old';
call baton.run_maintenance();
select is((select maintained_at <= clock_timestamp() and maintenance_error is null from baton.outboxes), true, 'an outbox that was maintained in the future is maintained');
select is(baton.maintenance_step(jsonb_build_object('phase', 'choose', 'round', now() + interval '1 year')), null, 'a round that began in the future is over');
update baton.jobs set enabled = name = 'maintain outboxes', resume = null, next_due = now() + interval '1 year', last_run = now() - interval '1 hour';
select is(baton_internal.run_due_job(), null, 'a job that somebody wants in a year is not due');
begin;  -- before the server's own worker comes
update baton.jobs set last_run = now() + interval '1 year';
select ok(baton_internal.next_job_due() <= clock_timestamp(), 'a job that ran in the future is');
select is(baton_internal.run_due_job(), 'maintain outboxes', 'and runs');
select ok((select last_run <= clock_timestamp() and next_due <= clock_timestamp() + interval '1 day' from baton.jobs where name = 'maintain outboxes'), 'from then on by the clock');
update baton.jobs set enabled = false;
commit;

-- ids of messages, which whoever sends chooses
create function pg_temp.noise(bytes int) returns text language sql as $$ select left(string_agg(md5(i::text), ''), bytes) from generate_series(0, bytes / 32) i $$;
select baton.create_inbox('any_id');
select is(array(select outcome from baton.receive_many('any_id', jsonb_build_array(jsonb_build_object('event_id', 'short'),
                    jsonb_build_object('event_id', pg_temp.noise(20000)), jsonb_build_object('event_id', pg_temp.noise(20001))))),
          '{new,new,new}'::text[], 'an id of any length holds up nothing');
select is(baton.receive('any_id', pg_temp.noise(20000), 't', '{}'), 'duplicate', 'and is recognised');
select is(baton.receive('any_id', pg_temp.noise(20002), 't', '{}'), 'new', 'as long as it is the same');
select is((select count(*)::int from baton.claim_inbox('any_id', 'w') c where octet_length(c.event_id) <= 1000), 4, 'what is claimed has a short one');
select is(baton.complete_inbox('any_id', array['short', pg_temp.noise(20000)], (select lease_token from any_id limit 1)), 2::bigint, 'by both it is settled');
select is(baton.complete_inbox('any_id', array(select event_id from any_id where processed_at is null), (select lease_token from any_id where processed_at is null limit 1)), 2::bigint,
          'with the others');
select is(baton.receive_malformed('any_id', pg_temp.noise(20003), '\x00', 'unreadable'), 'new', 'a dead letter is kept under any id');

-- numbers that would overflow
select throws_ok($$ select baton.create_inbox('far_in', max_retries => 2147483647) $$, '22023', null, 'retries have a limit');
select baton.receive('any_id', 'far', 't', '{}');
select is((select count(*)::int from baton.claim_inbox('any_id', 'w', 2147483647, 2147483647)), 1, 'a claim may be for all and for long');

-- errors that say what to do
select throws_ok($$ select baton.edit_dead_letter(null) $$, '22023', null, 'no dead letter is named');
select throws_ok($$ select baton.set_pipeline('p', '{"source": {"outbox": "held"}, "sink": {"type": "stdout"}}', null) $$, '22004', null, 'a pipeline is on or off');
select baton.create_inbox('apart', tenancy => true);
select throws_ok($$ select baton.receive('apart', '1', 't', '{}') $$, '22004', null, 'a message needs its tenant');
select throws_ok($$ select baton.complete_inbox('apart', 'a:b') $$, 'BT002', 'message "a:b" is not in inbox "public.apart"', 'a message that is not there is named as it was asked for');

create temporary table makes_the_schema ();
select throws_ok(format('select baton.create_outbox(''gone'', %L)', relnamespace::regnamespace), '3F000', null, 'an outbox outlives its session')
  from pg_class where relname = 'makes_the_schema';

-- strings that read backslashes as escapes
set standard_conforming_strings = off;
set escape_string_warning = off;
select throws_ok('select baton.set_pipeline(''p'', ''{"source": {"outbox": "held"}, "sink": {"type": "stdout", "url": "host=a password = b"}}'')', '22023', null, 'a secret is seen');
select lives_ok('select baton.set_pipeline(''p'', ''{"source": {"outbox": "held"}, "sink": {"type": "stdout", "password": "${env:A}"}}'')', 'and a reference is none');
reset standard_conforming_strings;
reset escape_string_warning;
select * from finish();
