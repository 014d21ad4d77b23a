-- Order of arrival: an ordered inbox without sequence numbers works the messages of an aggregate one by one, as they came.
begin;
select no_plan();
select baton.create_inbox('arr', max_retries => 2);
select baton.alter_inbox('arr', backoff_base => '1 h', backoff_cap => '1 h', backoff_jitter => 0);
select lives_ok($$select baton.enable_inbox_ordering('arr')$$, 'order needs no numbers');
select lives_ok($$select baton.enable_inbox_ordering('arr', 'aggregate_id')$$, 'asked for again, it is there');
select throws_ok($$select baton.enable_inbox_ordering('arr', 'aggregate_id', 'sequence_num')$$, '42710', null, 'another order is not');
select is((select order_mode from baton.inboxes where name = 'arr'), 'arrival', 'the catalog names the order');
select has_view('next_arr');
select has_view('stalled_arr');
select hasnt_view('gaps_arr');
select is_empty($$select * from baton.inbox_ordering_gaps('arr')$$, 'nothing can be missing');

-- one after the other, in the order of the batch and not of the ids
select baton.receive_many('arr', '[{"event_id": "z1", "aggregate_id": "a"}, {"event_id": "y2", "aggregate_id": "a"}, {"event_id": "x1", "aggregate_id": "b"}]');
select baton.receive('arr', 'a3', 't', '{}', aggregate_id => 'a');
select results_eq('select event_id from next_arr order by 1', $$values ('x1'), ('z1')$$, 'the first of each aggregate is next');
create temp table w1 as select * from baton.claim_inbox('arr', 'w1');
select results_eq('select event_id from w1 order by 1', $$values ('x1'), ('z1')$$, 'and is what a claim gets');
select is_empty($$select * from baton.claim_inbox('arr', 'w2')$$, 'nobody else gets a message of these aggregates');
select is(baton.complete('arr', 'z1', (select lease_token from w1 limit 1)), 1::bigint, 'when the first is done');
create temp table w2 as select * from baton.claim_inbox('arr', 'w2');
select results_eq('select event_id from w2', $$values ('y2')$$, 'the second is offered');
select is(baton.extend_inbox_lease('arr', '{y2}', (select lease_token from w2)) > now(), true, 'its lease can be extended');

-- a failed message holds its aggregate
select baton.fail('arr', 'y2', 'no luck', lease_token => (select lease_token from w2));
select is_empty($$select * from baton.claim_inbox('arr', 'w3')$$, 'a failed message holds its aggregate until its next attempt');
select results_eq('select aggregate, reason, event_id from stalled_arr', $$values ('a', 'retry', 'y2')$$, 'which is seen');
select results_eq($$select (h ->> 'stalled_aggregates')::int, (h ->> 'oldest_stall_sec')::float8 >= 0 from baton.inbox_health('arr') h$$,
                  $$values (1, true)$$, 'in the inbox''s health too');
update arr set available_at = now() where event_id = 'y2';
select is_empty('select * from stalled_arr', 'when its time has come nothing is stalled');
create temp table w3 as select * from baton.claim_inbox('arr', 'w3');
select results_eq('select event_id, attempt from w3', $$values ('y2', 2)$$, 'the same message is tried again before its successor');
select baton.fail('arr', 'y2', 'no luck', lease_token => (select lease_token from w3));
select results_eq('select event_id from dlq_arr', $$values ('y2')$$, 'when it is dead');
create temp table w4 as select * from baton.claim_inbox('arr', 'w4');
select results_eq('select event_id from w4', $$values ('a3')$$, 'its successor is offered');

-- a message that is replayed takes its old place, but not while another is in work
select baton.receive('arr', 'a4', 't', '{}', aggregate_id => 'a');
select baton.replay_inbox_messages('arr', '{y2}');
select is_empty($$select * from baton.claim_inbox('arr', 'w5')$$, 'a replayed message does not come beside one in work');
select baton.release_inbox('arr', '{a3}', (select lease_token from w4));
create temp table w5 as select * from baton.claim_inbox('arr', 'w5');
select results_eq('select event_id from w5', $$values ('y2')$$, 'then it comes first');

-- a lease that ran out
update arr set leased_until = now() - interval '1 s' where event_id = 'y2';
update baton_internal.inbox_sequences set leased_until = now() - interval '1 s' where aggregate = 'a';
create temp table w6 as select * from baton.claim_inbox('arr', 'w6');
select results_eq('select event_id, attempt from w6', $$values ('y2', 2)$$, 'a lease that ran out gives the message to the next worker');
select throws_ok($$select baton.complete('arr', 'y2', (select lease_token from w5))$$, 'BT001', null, 'the first worker cannot finish it');
update arr set leased_until = now() - interval '1 s' where event_id = 'y2';
update baton_internal.inbox_sequences set leased_until = now() - interval '1 s' where aggregate = 'a';
select is_empty($$select * from baton.claim_inbox('arr', 'w7')$$, 'a message that kills its workers dies');
select results_eq('select event_id from dlq_arr', $$values ('y2')$$, 'visibly');
select results_eq($$select event_id from baton.claim_inbox('arr', 'w7')$$, $$values ('a3')$$, 'and lets the next through at once');

-- who lost its aggregate to a message that came back cannot finish
create temp table w8 as select event_id, lease_token from arr where event_id = 'a3';
update arr set leased_until = now() - interval '1 s' where event_id = 'a3';
update baton_internal.inbox_sequences set leased_until = now() - interval '1 s' where aggregate = 'a';
select baton.replay_inbox_messages('arr', '{y2}');
create temp table w9 as select * from baton.claim_inbox('arr', 'w9');
select results_eq('select event_id from w9', $$values ('y2')$$, 'the aggregate goes to another worker with another message');
select throws_ok($$select baton.complete('arr', 'a3', (select lease_token from w8))$$, 'BT001', null, 'the worker before cannot finish beside it');
select throws_ok($$select baton.extend_inbox_lease('arr', '{a3}', (select lease_token from w8))$$, 'BT001', null, 'nor stay');
select baton.complete('arr', 'y2', (select lease_token from w9));

-- plain updates, skipping, messages for later and messages without an aggregate
select results_eq($$select event_id from baton.claim_inbox('arr', 'w10')$$, $$values ('a3')$$, 'in order again');
update arr set processed_at = now() where event_id = 'a3';
select results_eq($$select event_id from baton.claim_inbox('arr', 'w10')$$, $$values ('a4')$$, 'a plain update frees the aggregate as well');
select baton.receive('arr', 'a5', 't', '{}', aggregate_id => 'a', available_at => now() + interval '1 h');
select baton.receive('arr', 'a6', 't', '{}', aggregate_id => 'a');
select baton.complete('arr', 'a4', (select lease_token from arr where event_id = 'a4'));
select is_empty($$select * from baton.claim_inbox('arr', 'w11')$$, 'a message for later holds its aggregate');
select results_eq('select aggregate, reason, event_id from stalled_arr', $$values ('a', 'scheduled', 'a5')$$, 'visibly');
select is(baton.advance_inbox_sequence('arr', 'a'), 1::bigint, 'an operator skips it');
select results_eq($$select event_id, error ~ 'skipped by' from dlq_arr$$, $$values ('a5', true)$$, 'it stays as a dead letter');
select results_eq($$select event_id from baton.claim_inbox('arr', 'w11')$$, $$values ('a6')$$, 'and the next is offered');
select is(baton.advance_inbox_sequence('arr', 'nobody'), 0::bigint, 'where nothing waits nothing is skipped');
select throws_ok($$select baton.advance_inbox_sequence('arr', 'a', 7)$$, '22023', null, 'there is no number to go to');
select baton.receive('arr', 'free' || n, 't', '{}') from generate_series(1, 3) n;
select is((select count(*) from baton.claim_inbox('arr', 'w12')), 3::bigint, 'messages without an aggregate have no order');

-- idle aggregates are forgotten, those in work are not
select baton.complete('arr', 'x1', (select lease_token from w1 limit 1));
select baton.run_inbox_maintenance();
select results_eq('select aggregate from baton_internal.inbox_sequences', $$values ('a')$$, 'maintenance forgets aggregates without work');

-- switching on while messages are in work
select baton.create_inbox('late');
select baton.receive('late', 'l' || n, 't', '{}', aggregate_id => 'a') from generate_series(1, 3) n;
create temp table l1 as select * from baton.claim_inbox('late', 'w', 1);
update late set available_at = now() - interval '1 day' where event_id = 'l3';
create temp table l3 as select * from baton.claim_inbox('late', 'w', 1);
select baton.release_inbox('late', '{l1}', (select lease_token from l1));
select baton.enable_inbox_ordering('late');
select is_empty($$select * from baton.claim_inbox('late', 'w')$$, 'an aggregate that was in work before is given to nobody else');
select lives_ok($$select baton.disable_inbox_ordering('late')$$, 'order is switched off');
select hasnt_view('stalled_late');
select is((select count(*) from baton.claim_inbox('late', 'w')), 2::bigint, 'after which everything is offered');

-- an adopted table goes by its own time of receipt
create table own (msg int primary key, kind text, at timestamptz default clock_timestamp(), done timestamptz, tries int default 0, problem text, aggregate_id bigint);
select baton.adopt_inbox('adopted', 'own', 'msg', 'done', 'tries', 'problem', 'at', 'kind');
select lives_ok($$select baton.enable_inbox_ordering('adopted')$$, 'an adopted table can be in order of arrival');
select is((select count(*) from pg_trigger where tgrelid = 'own'::regclass and not tgisinternal), 0::bigint, 'and gets no trigger');
insert into own (msg, aggregate_id) values (9, 1), (8, 1), (7, 2);
update own set at = at + msg * interval '-1 s' where msg = 9;
create temp table o1 as select * from baton.claim_inbox('adopted', 'w');
select results_eq('select event_id from o1 order by 1', $$values ('7'), ('9')$$, 'the first of each aggregate');
select is_empty($$select * from baton.claim_inbox('adopted', 'w')$$, 'one at a time');
select baton.fail('adopted', '9', 'bad', lease_token => (select lease_token from o1 limit 1), retry_after => '1 h');
select is_empty($$select * from baton.claim_inbox('adopted', 'w')$$, 'a failed one holds its aggregate');
select results_eq('select aggregate, reason, event_id from stalled_adopted', $$values ('1', 'retry', '9')$$, 'visibly');
select is(baton.inbox_health('adopted') ->> 'stalled_aggregates', '1', 'in its health too');
select baton.advance_inbox_sequence('adopted', '1');
create temp table o2 as select * from baton.claim_inbox('adopted', 'w');
select results_eq('select event_id from o2', $$values ('8')$$, 'until it is skipped');
insert into own (msg, aggregate_id) values (10, 1);
select baton.complete('adopted', '8', (select lease_token from o2));
select results_eq($$select event_id from baton.claim_inbox('adopted', 'w')$$, $$values ('10')$$, 'the next follows its completion at once');

-- an inbox that is ordered by number says which messages have none, and what is stalled
select baton.create_inbox('numbered', max_retries => 1);
select baton.enable_inbox_ordering('numbered', 'aggregate_id', 'sequence_num');
select baton.receive('numbered', 'n0', 't', '{}', aggregate_id => 'a');
select results_eq($$select (h ->> 'unsequenced_count')::int, h ->> 'health_status' from baton.inbox_health('numbered') h$$,
                  $$values (1, 'degraded')$$, 'messages without a number are counted, for they have no order');
select baton.receive('numbered', 'n2', 't', '{}', aggregate_id => 'a', sequence_num => 2);
select results_eq('select aggregate, reason, event_id from stalled_numbered', $$values ('a', 'gap', null)$$, 'a missing number stalls its aggregate');
select baton.receive('numbered', 'n1', 't', '{}', aggregate_id => 'a', sequence_num => 1);
select is_empty('select * from stalled_numbered', 'until it comes');
select baton.fail('numbered', 'n1', 'bad', true);
select results_eq('select aggregate, reason, event_id from stalled_numbered', $$values ('a', 'dead', 'n1')$$, 'a dead letter stalls a sequence');
select baton.receive('numbered', 'o1', 't', '{}', aggregate_id => 'o', sequence_num => 1);
select baton.fail('numbered', 'o1', 'bad', true);
select is((select count(*) from stalled_numbered), 1::bigint, 'where nobody waits nothing is stalled');

select * from finish();
rollback;
