-- Parking: scheduled, retry, blocked and dead events, and what operators do with the dead.
select no_plan();
select baton.create_outbox('events');
select baton.create_consumer_group('g', 'events', 'earliest', max_attempts => 3, retry_base => '10 seconds', retry_limit => '15 seconds');
-- Let everything that waits be due now.
create function make_due() returns void language sql as $$ update baton_internal.parked set due_at = now() - interval '1 second' $$;

-- scheduled
insert into events (event_type, partition_key, available_at) values ('later', 'a', now() + interval '1 hour');
insert into events (event_type, partition_key) values ('now', 'a');
select is((select array_agg(event_type) from baton.poll_outbox('g', 'c')), '{now}', 'an event for later waits, others go on');
select is((select (id, state)::text from baton_internal.parked), '(1,scheduled)', 'it is parked as scheduled');
select baton.commit_offset('g', 'c', 2);
select is((select count(*)::int from baton.poll_outbox('g', 'c')), 0, 'before its time nobody gets it');
select make_due();
select results_eq($$ select id, attempt from baton.poll_outbox('g', 'c') $$, $$ values (1::bigint, 1) $$, 'at its time it comes');
select is(baton.commit_offset('g', 'c', 1), true, 'and is settled like any other');
select is((select count(*)::int from baton_internal.parked), 0, 'then it is not parked any more');

-- retry, blocked
insert into events (event_type, partition_key) values ('a1', 'a'), ('b1', 'b'), ('a2', 'a'), ('b2', 'b');
select is((select count(*)::int from baton.poll_outbox('g', 'c')), 4, 'four events of two keys');
select results_eq($$ select id, state, attempt from baton.fail_events('g', 'c', '{3}', 'no connection') $$,
                  $$ values (3::bigint, 'retry', 1), (5::bigint, 'blocked', 0) $$, 'the failed one is parked, and what follows of its key with it');
select ok((select due_at between now() + interval '7 seconds' and now() + interval '13 seconds' from baton_internal.parked where id = 3), 'it is due after the backoff, with jitter');
select is((select error from baton_internal.parked where id = 3), 'no connection', 'the reason is kept');
select is(baton.commit_offset('g', 'c', 6), true, 'the other key goes on');
insert into events (event_type, partition_key) values ('a3', 'a'), ('c1', 'c');
select is((select array_agg(event_type) from baton.poll_outbox('g', 'c')), '{c1}', 'what comes later of the key is held back too');
select baton.commit_offset('g', 'c', 8);
select make_due();
select results_eq($$ select id, attempt from baton.poll_outbox('g', 'c') $$, $$ values (3::bigint, 2), (5::bigint, 1), (7::bigint, 1) $$,
                  'when it is due the key''s events come in order');
select is(baton.commit_offset('g', 'c', 3), true, 'they settle one by one');
select results_eq($$ select id, state from baton.fail_events('g', 'c', '{5}', 'again') order by id $$, $$ values (5::bigint, 'retry'), (7::bigint, 'blocked') $$,
                  'or fail, and hold back the rest again');
select make_due();
select is((select array_agg(id) from baton.poll_outbox('g', 'c')), '{5,7}'::bigint[], 'nothing is lost on the way');
update baton_internal.parked set leased_until = now() - interval '1 second';
select is((select array_agg(id) from baton.poll_outbox('g', 'other')), '{5}'::bigint[], 'a dead member''s parked events go to the next');
select throws_ok($$ select baton.commit_offset('g', 'c', 7) $$, 'BT001', null, 'and the dead one cannot settle them');
select is(baton.commit_offset('g', 'other', 5), true, 'who has them can');
select is((select array_agg(id) from baton.poll_outbox('g', 'other')), '{7}'::bigint[], 'one after the other');
select is(baton.commit_offset('g', 'other', 7), true, 'each');
select is((select count(*)::int from baton_internal.parked), 0, 'all done');

-- dead by attempts
insert into events (event_type, partition_key, payload) values ('poison', 'p', '{"n": 1}'), ('after', 'p', '{"n": 2}');
select is((select count(*)::int from baton.poll_outbox('g', 'c')), 2, 'a poisonous one and its successor');
select is((select state from baton.fail_events('g', 'c', '{9}', 'boom') where id = 9), 'retry', 'first attempt');
select make_due();
select is((select count(*)::int from baton.poll_outbox('g', 'c')), 2, 'again');
select is((select state from baton.fail_events('g', 'c', '{9}', 'boom') where id = 9), 'retry', 'second attempt');
select make_due();
select is((select count(*)::int from baton.poll_outbox('g', 'c')), 2, 'and again');
select is((select state from baton.fail_events('g', 'c', '{9}', 'boom') where id = 9), 'dead', 'the third is the last');
select results_eq($$ select event_offset, event_type, payload, headers, attempts, error from baton.dead_letters $$,
                  $$ values (9::bigint, 'poison', '{"n": 1}'::jsonb, null::jsonb, 3, 'boom') $$, 'it is a dead letter, complete');
select is(baton.commit_offset('g', 'c', 10), true, 'its successor goes on');

-- dead at once, and on_poison
select baton.create_consumer_group('strict', 'events', 'latest', on_poison => 'block_key');
insert into events (event_type, partition_key) values ('x', 's'), ('y', 's'), ('z', 't');
select is((select count(*)::int from baton.poll_outbox('strict', 'c')), 3, 'three more');
select results_eq($$ select id, state from baton.fail_events('strict', 'c', '{11}', 'never', permanent => true) $$,
                  $$ values (11::bigint, 'dead'), (12::bigint, 'blocked') $$, 'a permanent error is death at once, and may block its key');
select baton.commit_offset('strict', 'c', 13);
select make_due();
select is((select count(*)::int from baton.poll_outbox('strict', 'c')), 0, 'the key stays blocked ...');
select is(baton.discard_dead_letters(array(select id from baton.dead_letters where group_name = 'strict'), 'not needed'), 1, '... until somebody discards the dead one');
select is((select array_agg(id) from baton.poll_outbox('strict', 'c')), '{12}'::bigint[], 'then it goes on');
select baton.commit_offset('strict', 'c', 12);

-- operators
select throws_ok($$ select baton.replay_dead_letters('{123456}') $$, '42704', null, 'a dead letter that is none');
select throws_ok($$ select baton.replay_dead_letters('{}') $$, '22023', null, 'or not named');
select throws_ok($$ select baton.discard_dead_letters(array(select id from baton.dead_letters), '') $$, '22023', null, 'a reason is asked for');
select lives_ok($$ select baton.edit_dead_letter(id, '{"n": 100}', '{"fixed": true}') from baton.dead_letters $$, 'a dead letter can be mended');
select throws_ok($$ select baton.edit_dead_letter(id, null, '[]') from baton.dead_letters $$, '22023', null, 'with headers that are headers');
select throws_ok($$ select baton.edit_dead_letter(id) from baton.dead_letters $$, '22004', null, 'and by something');
select is(baton.replay_dead_letters(array(select id from baton.dead_letters)), 1, 'and replayed');
select results_eq($$ select id, payload, headers, attempt from baton.poll_outbox('g', 'c') where id = 9 $$,
                  $$ values (9::bigint, '{"n": 100}'::jsonb, '{"fixed": true}'::jsonb, 1) $$, 'as mended, with all its attempts');
select is((select payload from events where id = 9), '{"n": 1}', 'the log keeps the original');
select is(baton.commit_offset('g', 'c', 13), true, 'settled with the rest');
select is((select count(*)::int from baton.dead_letters), 0, 'no dead letters any more');
select is((select array_agg(action order by entry_id) from baton.audit_trail where action like '%dead_letter'),
          '{discard_dead_letter,edit_dead_letter,replay_dead_letter}', 'the trail says what was done');
select is((select details -> 'before' -> 'payload' from baton.audit_trail where action = 'edit_dead_letter'), '{"n": 1}', 'and what it was before');

-- a group without order
select baton.create_consumer_group('free', 'events', 'latest', ordered => false);
insert into events (event_type, partition_key) values ('x', 'q'), ('y', 'q');
select is((select count(*)::int from baton.poll_outbox('free', 'c')), 2, 'without order ...');
select results_eq($$ select id, state from baton.fail_events('free', 'c', '{14}', 'boom') $$, $$ values (14::bigint, 'retry') $$, '... nobody is blocked');
select is(baton.commit_offset('free', 'c', 15), true, 'and the rest goes on');
select throws_ok($$ select * from baton.fail_events('free', 'c', '{}', 'boom') $$, '22023', null, 'failing nothing is an error');

-- a delay of the handler's own
insert into events (event_type) values ('later');
select is((select count(*)::int from baton.poll_outbox('free', 'c')), 1, 'an event whose handler knows when to come back');
select ok((select due_at between clock_timestamp() + interval '59 min' and clock_timestamp() + interval '91 min'
             from baton.fail_events('free', 'c', '{16}', 'busy', retry_after => '1 hour')), 'comes back not before that');
select results_eq($$ select outbox, payload_type, ordered from baton.describe_group('free') $$, $$ values ('public.events', 'jsonb', false) $$,
                  'a group says what it reads');
select throws_ok($$ select * from baton.describe_group('nosuch') $$, '42704', null, 'if there is such a group');

-- what was parked out of a lease and settled is not given again when the lease runs out
select baton.create_outbox('holes');
select baton.create_consumer_group('h', 'holes', 'earliest', retry_base => '1 ms', retry_limit => '1 ms');
insert into holes (event_type, partition_key, available_at)
values ('e', 'a', null), ('e', 'b', null), ('e', 'c', clock_timestamp() + interval '1 hour'), ('e', 'd', null), ('e', 'e', null);
select is((select array_agg(id order by id) from baton.poll_outbox('h', 'x')), '{1,2,4,5}'::bigint[], 'a scheduled event steps aside');
select is((select array_agg(id) from baton.fail_events('h', 'x', '{2}', 'not now')), '{2}'::bigint[], 'another one fails');
update baton_internal.parked set due_at = clock_timestamp() where group_id = (select group_id from baton.consumer_groups where group_name = 'h');
select is((select array_agg(id order by id) from baton.poll_outbox('h', 'y')), '{2,3}'::bigint[], 'both come to another consumer');
select baton.commit_offset('h', 'y', 3);
update baton_internal.pieces set leased_until = now() - interval '1 second' where consumer_id = 'x';
select is((select array_agg(id order by id) from baton.poll_outbox('h', 'z')), '{1,4,5}'::bigint[],
          'when the first one is gone, the rest of its lease is given again, without them');
select is(baton.commit_offset('h', 'z', 5), true, 'and settled');
select is((select count(*)::int from baton.poll_outbox('h', 'z')), 0, 'nothing is left');

-- a lease ends as a whole, whatever part of it others have taken
select baton.create_consumer_group('w', 'holes', 'earliest', retry_base => '1 ms', retry_limit => '1 ms');
select is((select array_agg(id order by id) from baton.poll_outbox('w', 'first')), '{1,2,4,5}'::bigint[], 'a lease of four');
create temp table lease as select lease_token as token from baton_internal.pieces where consumer_id = 'first';
update baton_internal.pieces set leased_until = now() - interval '1 second' where consumer_id = 'first';
select is((select array_agg(id) from baton.poll_outbox('w', 'second', 1)), '{1}'::bigint[], 'runs out, and another takes a part');
select throws_ok($$ select baton.commit_offset('w', 'first', 5, (select token from lease)) $$, 'BT001', null, 'then nothing of it can be settled');
select is((select array_agg(attempt) from baton.poll_outbox('w', 'third') where id in (2, 4, 5)), '{2,2,2}'::int[], 'the rest is given for the second time');

-- who fails an event after its lease has ended learns what else of its key may not be handled
select baton.create_outbox('late');
select baton.create_consumer_group('l', 'late', 'earliest', retry_base => '1 ms', retry_limit => '1 ms');
insert into late (event_type, partition_key) values ('e', 'z'), ('e', 'k'), ('e', 'k'), ('e', 'k');
select is((select count(*)::int from baton.poll_outbox('l', 'x')), 4, 'four events');
select is((select array_agg(id) from baton.fail_events('l', 'x', '{1,2}', 'not now')), '{1,2,3,4}'::bigint[], 'are parked');
select make_due();
drop table lease;
create temp table lease as select lease_token as token, id from baton.poll_outbox('l', 'x');
select is((select array_agg(id) from lease), '{1,2,3,4}'::bigint[], 'and come again');
update baton_internal.parked set leased_until = now() - interval '1 second' where consumer_id = 'x';
select is((select array_agg(id) from baton.poll_outbox('l', 'y', 1)), '{1}'::bigint[], 'the lease runs out, and another takes a part');
select is((select array_agg(id) from baton.fail_events('l', 'x', '{2}', 'too late', lease_token => (select max(token::text)::uuid from lease))),
          '{2,3,4}'::bigint[], 'the rest of the key is named to who comes too late');
select is((select array_agg(state order by id) from baton_internal.parked where key = 'k' and lease_token is null), '{retry,blocked,blocked}'::text[],
          'and stands as before');
select throws_ok($$ select baton.fail_events('l', 'x', '{1}', 'too late', lease_token => (select max(token::text)::uuid from lease)) $$,
                 'BT001', null, 'what another has cannot be failed');

-- what is parked of a key goes in order and without a gap, and behind what its lease had not settled
select baton.create_outbox('line');
select baton.create_consumer_group('o', 'line', 'earliest', retry_base => '1 ms', retry_limit => '1 ms');
insert into line (event_type, partition_key) select 'e', 'k' from generate_series(1, 10);
select is((select count(*)::int from baton.poll_outbox('o', 'a')), 10, 'ten events of a key');
select is((select array_agg(id) from baton.fail_events('o', 'a', '{2}', 'not now')), '{2,3,4,5,6,7,8,9,10}'::bigint[], 'the second fails, the others wait');
select make_due();
select is((select count(*)::int from baton.poll_outbox('o', 'b', 3)), 0, 'none of them goes before the first is settled');
select is(baton.commit_offset('o', 'a', 1), true, 'once it is');
select is((select array_agg(id) from baton.poll_outbox('o', 'b', 3)), '{2,3,4}'::bigint[], 'they go');
select is(baton.commit_offset('o', 'b', 2), true, 'one of them is settled');
select is((select count(*)::int from baton.poll_outbox('o', 'c')), 0, 'those behind do not overtake the ones that are held');
select baton.release_lease('o', 'b');
select is((select array_agg(id) from baton.poll_outbox('o', 'c')), '{3,4,5,6,7,8,9,10}'::bigint[], 'when the lease is given back, all go to another');
select is((select array_agg(id) from baton.fail_events('o', 'c', '{5}', 'not now')), '{5,6,7,8,9,10}'::bigint[], 'one in the middle fails');
update baton_internal.parked set leased_until = now() - interval '1 second' where consumer_id = 'c';
update baton_internal.parked set due_at = now() + interval '1 hour' where group_id = (select group_id from baton.consumer_groups where group_name = 'o') and id = 5;
select is((select array_agg(id) from baton.poll_outbox('o', 'd')), '{3,4}'::bigint[], 'nobody gets what is behind it before it is due');

-- an event is not held back by a later one of its key
select baton.create_consumer_group('e', 'line', 'earliest', on_poison => 'block_key', retry_base => '1 ms', retry_limit => '1 ms');
select is((select array_agg(id) from baton.poll_outbox('e', 'a', 3)), '{1,2,3}'::bigint[], 'three events of a key');
select is((select array_agg(state) from baton.fail_events('e', 'a', '{2}', 'never', permanent => true)), '{dead,blocked}'::text[], 'the second is dead');
update baton_internal.pieces set leased_until = now() - interval '1 second' where group_id = (select group_id from baton.consumer_groups where group_name = 'e');
select is((select array_agg(id) from baton.poll_outbox('e', 'b', 3)), '{1}'::bigint[], 'the lease ends, and the first goes to another');
select is(baton.commit_offset('e', 'b', 1), true, 'and is settled');
select is((select count(*)::int from baton.poll_outbox('e', 'b', 3)), 0, 'the others wait');
select baton.replay_dead_letters(array(select d.id from baton.dead_letters d where d.group_name = 'e'));
select make_due();
select is((select array_agg(id) from baton.poll_outbox('e', 'b', 2)), '{2,3}'::bigint[], 'until the dead one is replayed');

-- dead letters of a group that goes
select baton.create_consumer_group('doomed', 'line', 'earliest');
select is((select count(*)::int from baton.poll_outbox('doomed', 'a', 3)), 3, 'three events');
select is((select count(*)::int from baton.fail_events('doomed', 'a', '{1,2}', 'never', permanent => true)), 2, 'two are dead');
select throws_ok($$ select baton.drop_consumer_group('doomed') $$, '2BP01', 'cannot drop consumer group "doomed": it has 2 dead letters', 'a group is not dropped with dead letters');
select is((select count(*)::int from baton.dead_letters where group_name = 'doomed'), 2, 'they stay');
select is(baton.drop_consumer_group('doomed', discard_dead_letters => true), true, 'unless that is asked for');
select results_eq($$ select details ->> 'offset', details -> 'event' ->> 'event_type' from baton.audit_trail where action = 'discard_dead_letter' and object = 'doomed' order by entry_id $$,
                  $$ values ('1', 'e'), ('2', 'e') $$, 'then the trail keeps them');
select is((select details ->> 'dead_letters' from baton.audit_trail where action = 'drop_consumer_group' and object = 'doomed'), '2', 'and says how many went');

-- all at once
select is(baton.replay_dead_letters(), 0, 'without dead letters nothing is replayed');
select baton.create_consumer_group('again', 'line', 'earliest', ordered => false);
select is((select count(*)::int from baton.poll_outbox('again', 'a', 3)), 3, 'three events');
select is((select count(*)::int from baton.fail_events('again', 'a', '{1,2}', 'never', permanent => true)), 2, 'two are dead');
select is(baton.replay_dead_letters(), 2, 'all dead letters are replayed at once');
select is((select array_agg(id) from baton.poll_outbox('again', 'a', 2)), '{1,2}'::bigint[], 'and come again');

select * from finish();
