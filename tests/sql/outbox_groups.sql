-- Groups, leases and commits, one step at a time.
select no_plan();
select baton.create_outbox('events');
insert into events (event_type) values ('before');

select isnt(baton.create_consumer_group('latest', 'events'), null, 'a group has an id');
select is(baton.create_consumer_group('latest', 'events'), (select group_id from baton.consumer_groups where group_name = 'latest'), 'made again with the same options it is the same');
select throws_ok($$ select baton.create_consumer_group('latest', 'events', 'earliest') $$, '42710', null, 'with others it is an error');
select throws_ok($$ select baton.create_consumer_group('x', 'events', 'sometimes') $$, '22023', null, 'an offset reset that is none');
select throws_ok($$ select baton.create_consumer_group('', 'events') $$, '22023', null, 'an empty name');
select throws_ok($$ select baton.create_consumer_group('x', 'nowhere') $$, '42P01', null, 'an outbox that is none');
select lives_ok(format('select baton.create_consumer_group(%L, %L)', 'it''s "quoted"; drop', 'events'), 'a group''s name is only text');
select baton.create_consumer_group('g', 'events', 'earliest');
insert into events (event_type, partition_key) select 'e', 'k' || i from generate_series(2, 10) i;

select is((select array_agg(id) from baton.poll_outbox('latest', 'c')), '{2,3,4,5,6,7,8,9,10}'::bigint[], 'latest gives what came after it was made');
select is((select array_agg(id) from baton.poll_outbox('g', 'a', 3)), '{1,2,3}'::bigint[], 'earliest gives everything, a batch at a time');
select is((select array_agg(id) from baton.poll_outbox('g', 'b', 4)), '{4,5,6,7}'::bigint[], 'another member gets what is not leased');
select is(baton.commit_offset('g', 'b', 7), true, 'members commit out of order');
select is((select count(*)::int from baton_internal.pieces join baton.consumer_groups using (group_id) where group_name = 'g'), 1, 'the first one''s lease stays');
select is((select count(*)::int from baton.poll_outbox('g', 'c', 100)), 3, 'a third gets the rest');
select is((select count(*)::int from baton.poll_outbox('g', 'd', 100)), 0, 'a fourth gets nothing');
update baton_internal.pieces set leased_until = now() - interval '1 second' where consumer_id = 'a';
select results_eq($$ select id, attempt from baton.poll_outbox('g', 'd', 100) $$, $$ values (1::bigint, 2), (2::bigint, 2), (3::bigint, 2) $$,
                  'a dead member''s lease goes to whoever asks next, as a second attempt');
select throws_ok($$ select baton.commit_offset('g', 'a', 3) $$, 'BT001', null, 'the dead one cannot commit it any more');
select throws_ok($$ select baton.fail_events('g', 'a', '{3}', 'late') $$, 'BT001', null, 'nor fail it');
select throws_ok($$ select baton.commit_offset('g', 'd', 999) $$, 'BT002', null, 'nobody commits what was not leased to him');
select throws_ok($$ select baton.commit_offset('g', 'd', 9) $$, 'BT002', null, 'not even when somebody else has it');
select is(baton.commit_offset('g', 'd', 2), true, 'a part of a batch can be committed');
select is((select array_agg(after_id) from baton_internal.pieces where consumer_id = 'd'), '{2}'::bigint[], 'the rest is still leased');
set client_min_messages = error;
select is(baton.commit_offset('g', 'd', 1), false, 'a regression changes nothing');
reset client_min_messages;
select is(baton.commit_offset('g', 'd', 3), true, 'and the rest can follow');
select is((select lag_rows from baton.consumer_lag('g') limit 1), 3::bigint, 'lag counts what is leased and not settled');
select is(baton.commit_offset('g', 'c', 10), true, 'the last ones');
select is((select lag_rows from baton.consumer_lag('g') limit 1), 0::bigint, 'then there is no lag');
select is((select count(*)::int from baton_internal.pieces join baton.consumer_groups using (group_id) where group_name = 'g'), 0, 'and nothing under way');

-- tokens
insert into events (event_type, partition_key) values ('e', 'x'), ('e', 'y');
create temporary table polled as select * from baton.poll_outbox('g', 'a');
select throws_ok($$ select baton.commit_offset('g', 'a', 12, gen_random_uuid()) $$, 'BT001', null, 'a token that is none');
select throws_ok($$ select baton.extend_lease('g', 'a', 30, gen_random_uuid()) $$, 'BT001', null, 'extends nothing');
select ok(baton.extend_lease('g', 'a', 300) > now() + interval '250 seconds', 'a lease can be extended');
select ok((select leased_until > now() + interval '250 seconds' from baton_internal.pieces where consumer_id = 'a'), 'and is');
select ok(baton.extend_lease('g', 'nobody') <= clock_timestamp(), 'without a lease the time is now');
select is((select baton.commit_offset('g', 'a', 12, lease_token) from polled limit 1), true, 'a commit names its token');
set client_min_messages = error;
select is((select baton.commit_offset('g', 'a', 12, lease_token) from polled limit 1), false, 'repeated after a lost connection it is no error');
reset client_min_messages;

-- order per key
insert into events (event_type, partition_key) values ('e', 'same'), ('e', 'same'), ('e', 'same');
select is((select array_agg(id) from baton.poll_outbox('g', 'a', 1)), '{13}'::bigint[], 'the first of a key');
select is((select count(*)::int from baton.poll_outbox('g', 'b')), 0, 'holds back the others of the key from other members');
select is((select count(*)::int from baton.poll_outbox('g', 'a')), 0, 'and from a member that may have been started anew');
select baton.commit_offset('g', 'a', 13);
select is((select array_agg(id) from baton.poll_outbox('g', 'b')), '{14,15}'::bigint[], 'until it is settled');
select lives_ok($$ select baton.release_lease('g', 'b') $$, 'a lease can be given back');
select is((select array_agg(id) from baton.poll_outbox('g', 'a')), '{14,15}'::bigint[], 'then another gets it at once');
select baton.commit_offset('g', 'a', 15);

select baton.create_consumer_group('free', 'events', 'latest', ordered => false);
insert into events (event_type, partition_key) values ('e', 'same'), ('e', 'same');
select is((select array_agg(id) from baton.poll_outbox('free', 'a', 1)), '{16}'::bigint[], 'without order a key ...');
select is((select array_agg(id) from baton.poll_outbox('free', 'b', 1)), '{17}'::bigint[], '... goes to several members');

-- sharing lanes
update baton_internal.group_positions set hungry = jsonb_build_object('b', clock_timestamp());
insert into events (event_type, partition_key) values ('e', 'single');
select ok((select count(*) > 0 from baton.poll_outbox('g', 'z')), 'who shares with a hungry member gets something when there is something');

-- own transaction
begin;
insert into events (event_type, partition_key) values ('mine', 'm');
select is((select count(*)::int from baton.poll_outbox('latest', 'own') where event_type = 'mine'), 0, 'nobody gets events of a transaction that may roll back, not even its own session');
rollback;

select throws_ok($$ select * from baton.poll_outbox('nope', 'c') $$, '42704', null, 'an unknown group');
select throws_ok($$ select * from baton.poll_outbox('g', '') $$, '22023', null, 'a consumer without a name');
select throws_ok($$ select * from baton.poll_outbox('g', 'c', 0) $$, '22023', null, 'a batch of nothing');
select throws_ok($$ select * from baton.poll_outbox('g', 'c', -5) $$, '22023', null, 'or of less');
select throws_ok($$ select * from baton.poll_outbox('g', null) $$, '22023', null, 'no consumer');
select throws_ok($$ select * from baton.poll_outbox(null, 'c') $$, '22023', null, 'no group');
select throws_ok($$ select baton.commit_offset('g', 'c', null) $$, '22004', null, 'no offset');
select throws_ok($$ select baton.extend_lease('g', 'c', 0) $$, '22023', null, 'no time');

select lives_ok($$ select baton.consumer_heartbeat('g', 'fresh') $$, 'a heartbeat registers');
select is((select healthy from baton.consumer_lag('g') where consumer = 'fresh'), true, 'and shows health');
update baton_internal.consumers set last_heartbeat_at = now() - interval '61 seconds' where consumer_id = 'fresh';
select is((select healthy from baton.consumer_lag('g') where consumer = 'fresh'), false, 'for a minute');

-- all that was handled, or nothing
select baton.create_consumer_group('strict', 'events', 'latest');
insert into events (event_type, partition_key) values ('e', 's1'), ('e', 's2');
create temp table first_stretch as select * from baton.poll_outbox('strict', 'gone');
select baton.release_lease('strict', 'gone');
insert into events (event_type, partition_key) values ('e', 's3');
create temp table both_stretches as select * from baton.poll_outbox('strict', 'slow');
select is((select count(*)::int from both_stretches), 3, 'one lease over two stretches');
select lives_ok($$ select baton.commit_events('strict', 'slow', array[(select min(id) from both_stretches)], (select lease_token from both_stretches limit 1)) $$,
                'what was handled can be committed');
select throws_ok($$ select baton.commit_events('strict', 'slow', array[(select min(id) from both_stretches)], (select lease_token from both_stretches limit 1)) $$,
                 'BT001', null, 'once');
update baton_internal.pieces p set leased_until = now() - interval '1 s' where p.piece_id = (select min(q.piece_id) from baton_internal.pieces q where q.consumer_id = 'slow');
select isnt((select count(*)::int from baton.poll_outbox('strict', 'quick')), 0, 'when one stretch is lost');
select throws_ok($$ select baton.commit_events('strict', 'slow', array[(select max(id) from both_stretches)], (select lease_token from both_stretches limit 1)) $$,
                 'BT001', null, 'the whole lease is');
select throws_ok($$ select baton.commit_events('strict', 'slow', '{}', gen_random_uuid()) $$, '22023', null, 'nothing cannot');
select throws_ok($$ select baton.commit_events('strict', 'slow', '{1}', null) $$, '22023', null, 'nor something without a token');

select is(baton.drop_consumer_group('free'), true, 'a group can be dropped');
select throws_ok($$ select baton.drop_consumer_group('free') $$, '42704', null, 'once');
select is(baton.drop_consumer_group('free', if_exists => true), false, 'or asked about');

select * from finish();
