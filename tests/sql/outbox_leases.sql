-- What a lease covers: commits and extensions, with its token and without.
select no_plan();
select baton.create_outbox('events');
select baton.create_consumer_group('g', 'events', 'earliest', retry_base => '1 ms', retry_limit => '1 ms');
-- Let leases run out.
create function lose(consumer text) returns void language sql as $$
    update baton_internal.pieces set leased_until = now() - interval '1 second' where consumer_id = consumer;
    update baton_internal.parked set leased_until = now() - interval '1 second' where consumer_id = consumer;
$$;

-- without a token a commit settles the lease that holds the event, and nothing else
insert into events (event_type) select 'e' from generate_series(1, 5);
select is((select array_agg(id) from baton.poll_outbox('g', 'c', 3)), '{1,2,3}'::bigint[], 'a consumer takes three events and dies');
select is((select array_agg(id) from baton.poll_outbox('g', 'c', 3)), '{4,5}'::bigint[], 'it comes back under its name and takes others');
select is(baton.commit_offset('g', 'c', 5), true, 'which it settles without a token');
select is((select array_agg(upto_id) from baton_internal.pieces), '{3}'::bigint[], 'what it had before is not settled with them');
set client_min_messages = error;
select is(baton.commit_offset('g', 'c', 4), false, 'what is settled is settled');
reset client_min_messages;
select is(baton.commit_offset('g', 'c', 2), true, 'another of its leases can be settled by an id of its own');
select lose('c');
select is((select array_agg(id) from baton.poll_outbox('g', 'd')), '{3}'::bigint[], 'what nobody settled comes again when its lease runs out');
select throws_ok($$ select baton.commit_offset('g', 'c', 3) $$, 'BT001', null, 'and is not settled by the one who lost it, although a higher id was');
select is(baton.commit_offset('g', 'd', 3), true, 'but by the one who has it');

-- the same holds for parked events
insert into events (event_type) select 'e' from generate_series(6, 8);
select is((select array_agg(id) from baton.poll_outbox('g', 'c')), '{6,7,8}'::bigint[], 'three more');
select is((select count(*)::int from baton.fail_events('g', 'c', '{6,7}', 'not now')), 2, 'two of them are parked');
update baton_internal.parked set due_at = now() - interval '1 second';
select is((select array_agg(id) from baton.poll_outbox('g', 'c', 1)), '{6}'::bigint[], 'one is leased again, and its consumer dies');
select is((select array_agg(id) from baton.poll_outbox('g', 'c', 1)), '{7}'::bigint[], 'back under its name it gets the other');
select is(baton.commit_offset('g', 'c', 7), true, 'which it settles');
select is((select array_agg(id) from baton_internal.parked), '{6}'::bigint[], 'and no other parked event');
select is((select array_agg(upto_id) from baton_internal.pieces), '{8}'::bigint[], 'nor the rest of the lease from which it was parked');
select is(baton.commit_offset('g', 'c', 8), true, 'that rest is a lease of its own');
select is((select array_agg(id) from baton_internal.parked), '{6}'::bigint[], 'whose commit leaves the parked event alone');
select is(baton.commit_offset('g', 'c', 6), true, 'until it is settled itself');

-- who settled a part and lost the rest is told so, whatever the ids
insert into events (event_type) select 'e' from generate_series(9, 11);
select is((select count(*)::int from baton.poll_outbox('g', 'c')), 3, 'three events');
select is((select count(*)::int from baton.fail_events('g', 'c', '{11}', 'not now')), 1, 'the highest is parked');
update baton_internal.parked set due_at = now() - interval '1 second';
select baton.release_lease('g', 'c');
create temp table lease as select id, lease_token as token from baton.poll_outbox('g', 'c');
select is((select array_agg(id) from lease), '{11,9,10}'::bigint[], 'then all come in one lease, the parked one first');
select is((select baton.commit_offset('g', 'c', 11, token) from lease limit 1), true, 'the parked one is settled');
select lose('c');
select isnt((select count(*)::int from baton.poll_outbox('g', 'd', 1)), 0, 'the lease runs out, and another takes over');
select throws_ok($$ select baton.commit_offset('g', 'c', 10, (select token from lease limit 1)) $$, 'BT001', null, 'a lower id that was not settled is lost');
select throws_ok($$ select baton.commit_offset('g', 'c', 10) $$, 'BT001', null, 'without a token, too');
set client_min_messages = error;
select is((select baton.commit_offset('g', 'c', 11, token) from lease limit 1), false, 'the last commit, repeated, is no error even so');
reset client_min_messages;
select is(baton.commit_offset('g', 'd', 9), true, 'the other one settles');
select throws_ok($$ select baton.commit_offset('g', 'c', 9, (select token from lease limit 1)) $$, 'BT001', null,
                 'what another has settled since is lost, not settled already');

-- without a token an extension is for the lease that was taken last
select baton.create_consumer_group('x', 'events', 'earliest');
select is((select array_agg(id) from baton.poll_outbox('x', 'c', 3, 60)), '{1,2,3}'::bigint[], 'a consumer takes a lease for long, and dies');
select is((select array_agg(id) from baton.poll_outbox('x', 'c', 3, 5)), '{4,5,6}'::bigint[], 'back under its name it takes another for a moment');
select ok(baton.extend_lease('x', 'c', 300) > now() + interval '250 seconds', 'and extends it');
select results_eq($$ select upto_id, leased_until > now() + interval '250 seconds' from baton_internal.pieces p join baton.consumer_groups using (group_id)
                      where group_name = 'x' order by 1 $$, $$ values (3::bigint, false), (6, true) $$, 'the one from before runs out in its time');
select lives_ok($$ select baton.extend_lease('x', 'c', 300, (select lease_token from baton_internal.pieces join baton.consumer_groups using (group_id)
                                                              where group_name = 'x' and upto_id = 3)) $$, 'unless its token is named');
select ok((select bool_and(leased_until > now() + interval '250 seconds') from baton_internal.pieces join baton.consumer_groups using (group_id)
            where group_name = 'x'), 'then it is extended too');

-- a commit of certain events settles these and no others
select baton.create_consumer_group('some', 'events', 'earliest');
create temp table batch as select id, lease_token as token from baton.poll_outbox('some', 'c', 6);
select is((select array_agg(id) from batch), '{1,2,3,4,5,6}'::bigint[], 'a consumer takes six');
select lives_ok($$ select baton.commit_events('some', 'c', '{2,5,6}', (select token from batch limit 1)) $$, 'and commits three of them');
select throws_ok($$ select baton.commit_events('some', 'c', '{2}', (select token from batch limit 1)) $$, 'BT001', null, 'which it does not hold any more');
select lose('c');
select is((select array_agg(id order by id) from baton.poll_outbox('some', 'd') where id < 7), '{1,3,4}'::bigint[], 'the others come again');

-- one that was failed waits for all that its lease holds of the key before it
insert into events (event_type, partition_key) select 'e', 'one key' from generate_series(1, 3);
select baton.create_consumer_group('line', 'events', 'earliest', retry_base => '0 s', retry_limit => '0 s');
create temp table line as select id, lease_token as token, row_number() over (order by id) as n from baton.poll_outbox('line', 'c', 1000) where partition_key = 'one key';
select baton.fail_events('line', 'c', array(select id from line where n = 3), 'not now');
select baton.commit_events('line', 'c', array(select id from line where n = 2), (select token from line limit 1));
select is((select count(*)::int from baton.poll_outbox('line', 'd') p join line using (id)), 0, 'the third does not overtake the first, which is held still');
select baton.commit_events('line', 'c', array(select id from line where n = 1), (select token from line limit 1));
select is((select array_agg(n) from baton.poll_outbox('line', 'd') p join line using (id)), '{3}'::bigint[], 'and comes after it');

select * from finish();
