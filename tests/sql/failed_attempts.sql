-- What went wrong with an event before: its failed attempts are kept, the latest ten, also over a replay.
select no_plan();
update baton.jobs set enabled = false;
create function told(failures jsonb) returns text language sql as $$
    select string_agg(concat_ws(' ', f ->> 'attempt', f ->> 'error'), ', ' order by n) from jsonb_array_elements(failures) with ordinality e (f, n) $$;

-- of a group
select baton.create_outbox('orders');
select baton.create_consumer_group('billing', 'orders', 'earliest', max_attempts => 3);
select baton.publish('orders', 'made', '{}', aggregate_id => 'a');
create function fail_next(error text, permanent boolean default false, of_group text default 'billing') returns text language sql as $$
    update baton_internal.parked set due_at = '-infinity' where state = 'retry';
    select string_agg(f.state, ' ') from baton.poll_outbox(of_group, 'c', 1) p
      cross join lateral baton.fail_events(of_group, 'c', array[p.id], error, permanent, p.lease_token) f $$;
select is(fail_next('no route'), 'retry', 'a first attempt fails');
select is(told((select failures from baton_internal.parked)), '1 no route', 'and is noted');
select is(fail_next('timeout'), 'retry', 'a second one');
select is(fail_next('refused'), 'dead', 'and the last');
select is((select told(failures) from baton.dead_letters), '1 no route, 2 timeout, 3 refused', 'a dead letter says what went wrong each time');
select ok((select bool_and((f ->> 'at')::timestamptz between now() - interval '1 hour' and clock_timestamp()) from baton.dead_letters, jsonb_array_elements(failures) f), 'and when');
select is((select error from baton.dead_letters), 'refused', 'its error is the last one''s');
select is((select told(failures) from baton.all_dead_letters()), '1 no route, 2 timeout, 3 refused', 'the list of everything says it, too');
select is((select told(failures) from baton.event_deliveries('orders', 1)), '1 no route, 2 timeout, 3 refused', 'and the event''s way');
select ok((select parked_at is not null and leased_at is null from baton.event_deliveries('orders', 1)), 'with the time');
select baton.replay_dead_letters();
select is(fail_next('no route again'), 'retry', 'it is replayed and fails again');
select is((select told(failures) from baton_internal.parked), '1 no route, 2 timeout, 3 refused, 1 no route again', 'a replay forgets nothing');
update baton_internal.parked set due_at = '-infinity';
select is((select count(*) from baton.poll_outbox('billing', 'c', 1)), 1::bigint, 'it is leased');
select ok((select leased_at is not null and state = 'leased' from baton.event_deliveries('orders', 1)), 'since when is told');
update baton_internal.parked set leased_until = '-infinity';
select * from baton.poll_outbox('billing', 'other', 1);
select is((select failures -> -1 ->> 'error' ~ 'lease of consumer "c" ran out' from baton_internal.parked), true, 'a lease that ran out is a failed attempt');
update baton_internal.parked set lease_token = null, consumer_id = null, leased_until = null, lost = 0, attempt = 1, state = 'retry';
update baton.consumer_groups set max_attempts = 100;
select fail_next('e' || n) from generate_series(1, 12) n;
select is((select told(failures) from baton_internal.parked), (select string_agg(format('%s e%s', n + 1, n), ', ' order by n) from generate_series(3, 12) n), 'the latest ten are kept');
select is(fail_next(repeat('x', 5000)), 'retry', 'a long error');
select is((select length(failures -> -1 ->> 'error') || ' ' || length(error) from baton_internal.parked), '1000 5000', 'is cut in the history only');
select is(fail_next(null), 'retry', 'nobody need say why');
select is((select told(jsonb_build_array(failures -> -1)) from baton_internal.parked), '15', 'and then nothing is said');

-- of an inbox
select baton.create_inbox('box', max_retries => 3);
create function fail_message(error text) returns bigint language sql as $$
    update box set available_at = '-infinity' where processed_at is null and available_at < 'infinity';
    select sum(baton.fail_inbox('box', c.event_id, error, lease_token => c.lease_token)) from baton.claim_inbox('box', 'w', 1) c $$;
select baton.receive('box', 'm1', 'made', '{}');
select fail_message('first'), fail_message('second'), fail_message('third');
select is((select told(failures) || ' / ' || state from baton.inbox_messages('box', id => 'm1')), '1 first, 2 second, 3 third / dead', 'a message keeps its failed attempts');
select is((select told(failures) from baton.all_dead_letters(of_kind => 'inbox')), '1 first, 2 second, 3 third', 'as a dead letter');
select baton.replay_inbox_messages('box', '{m1}'::text[], dead_only => true);
select fail_message('fourth');
select is((select told(failures) from box), '1 first, 2 second, 3 third, 1 fourth', 'over a replay');
update box set available_at = '-infinity';
select is((select count(*) from baton.claim_inbox('box', 'lost', 1)), 1::bigint, 'a worker takes it');
update box set leased_until = '-infinity';
select is((select count(*) from baton.claim_inbox('box', 'w', 1)), 1::bigint, 'and another, when its lease has run out');
select is((select told(failures) from box), '1 first, 2 second, 3 third, 1 fourth, 2 the lease of worker "lost" ran out', 'which is a failed attempt');
select baton.complete_inbox('box', '{m1}'::text[], (select lease_token from box));
select is((select failures from baton.inbox_messages('box', 'processed') where event_id = 'm1') is not null, true, 'what was handled at last keeps them');
select baton.receive('box', 'm2', 'made', '{}');
select is((select failures from baton.inbox_messages('box')), '[]', 'there are none at first');

-- tables of others have one place for an error
create table arrivals (event_id text primary key, event_type text, payload jsonb, received_at timestamptz default now(), processed_at timestamptz, retry_count int not null default 0, error text);
select baton.adopt_inbox('arrivals');
select baton.receive('arrivals', 'a1', 'made', '{}');
select baton.fail_inbox('arrivals', 'a1', 'no', permanent => true);
select is((select failures || to_jsonb(error) from baton.all_dead_letters() where place like '%arrivals'), '["no"]', 'an adopted table has the last error');

-- many at once, of which some are gone: somebody else was quicker
select baton.create_consumer_group('quick', 'orders', 'earliest', max_attempts => 1);
select baton.publish('orders', 'made', '{}', aggregate_id => n) from generate_series(1, 6) n;
select count(*) from (select baton.fail_events('quick', 'c', array_agg(id), 'no', true, (array_agg(lease_token))[1]) from baton.poll_outbox('quick', 'c', 100)) f;
create temporary table listed as select id, event_offset from baton.dead_letters where group_name = 'quick' order by id;
select is(baton.replay_dead_letters(array(select id from listed limit 2)), 2, 'two are replayed');
select throws_ok($$ select baton.replay_dead_letters(array(select id from listed)) $$, '42704', null, 'then all are not');
select is((select count(*) from baton.dead_letters where group_name = 'quick'), 5::bigint, 'and nothing is done');
select is(baton.discard_dead_letters(array(select id from listed limit 3), 'none', missing_ok => true), 1, 'unless those that are gone may be passed over');
select is(baton.replay_dead_letters(array(select id from listed), missing_ok => true), 4, 'which goes for both');
select is(baton.replay_dead_letters(array(select id from listed), missing_ok => true), 0, 'also when all are gone');
select baton.receive_many('box', '[{"event_id": "d1"}, {"event_id": "d2"}, {"event_id": "d3"}]');
select baton.fail_inbox('box', '{d1,d2,d3}'::text[], 'no', permanent => true);
select baton.replay_inbox_messages('box', '{d1}'::text[]);
select baton.complete_inbox('box', '{d1}'::text[]);
select is(baton.replay_inbox_messages('box', '{d1,d2}'::text[], dead_only => true), 1::bigint, 'what was handled meanwhile is not replayed as a dead message');
select is((select state from baton.inbox_messages('box', id => 'd1')), 'processed', 'it stays as it is');
select throws_ok($$ select baton.discard_inbox_messages('box', '{d2,d3}', 'why') $$, '42704', null, 'a message that is not dead any more is not given up');
select is(baton.discard_inbox_messages('box', '{d2,d3}', 'why', missing_ok => true), 1::bigint, 'but passed over, where that is wanted');
select is(baton.discard_inbox_messages('box', '{d2,d3}', 'why', missing_ok => true), 0::bigint, 'none may be left');
select is((select state from baton.inbox_messages('box', id => 'd2')), 'pending', 'what is passed over stays');
select * from finish();
