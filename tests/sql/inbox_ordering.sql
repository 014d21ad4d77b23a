-- Ordered inboxes: one message at a time per aggregate, in sequence; gaps and poison are visible.
begin;
select no_plan();
select baton.create_inbox('ord', max_retries => 2);
select baton.alter_inbox('ord', backoff_base => '0');
select lives_ok($$select baton.enable_inbox_ordering('ord', sequence_num_col => 'sequence_num')$$, 'order is switched on');
select lives_ok($$select baton.enable_inbox_ordering('ord', 'aggregate_id', 'sequence_num')$$, 'again with the same columns is no error');
select throws_ok($$select baton.enable_inbox_ordering('ord', 'source', 'sequence_num')$$, '42710', null, 'with others it is');
select has_view('next_ord');
select has_view('gaps_ord');

-- out of order arrivals
select baton.receive('ord', 'a3', 't', '{}', aggregate_id => 'a', sequence_num => 3);
select is_empty('select * from next_ord', 'a third message without the first is withheld');
select is_empty($$select * from baton.claim_inbox('ord', 'w')$$, 'by claims too');
select results_eq($$select aggregate, expected, found from gaps_ord$$, $$values ('a', 1::bigint, 3::bigint)$$, 'the missing first is a gap');
select ok((select gap_age_sec between 0 and 60 from gaps_ord), 'with its age');
select baton.receive('ord', 'a1', 't', '{}', aggregate_id => 'a', sequence_num => 1);
select results_eq($$select event_id from next_ord$$, $$values ('a1')$$, 'the first is next');
select results_eq($$select aggregate, expected, found from baton.inbox_ordering_gaps('ord')$$, $$values ('a', 2::bigint, 3::bigint)$$, 'the gap is now in the middle');
create temp table w1 as select * from baton.claim_inbox('ord', 'w1');
select results_eq('select event_id, sequence_num from w1', $$values ('a1', 1::bigint)$$, 'a claim gets the first');
select baton.receive('ord', 'a2', 't', '{}', aggregate_id => 'a', sequence_num => 2);
select is_empty($$select * from baton.claim_inbox('ord', 'w2')$$, 'while it is worked, nobody else gets one of that aggregate');
select is(baton.complete('ord', 'a1', (select lease_token from w1)), 1::bigint, 'completing it');
select is((select last_sequence from baton_internal.inbox_sequences where aggregate = 'a'), 1::bigint, 'moves the aggregate on');
create temp table w2 as select * from baton.claim_inbox('ord', 'w2');
select results_eq('select event_id from w2', $$values ('a2')$$, 'then the second');
select baton.complete('ord', 'a2', (select lease_token from w2));
select is((select count(*) from gaps_ord), 0::bigint, 'no gap is left');
update ord set processed_at = now() where event_id = 'a3';
select is((select last_sequence from baton_internal.inbox_sequences where aggregate = 'a'), 3::bigint, 'a plain update moves the aggregate on as well');

-- a gap right after processed messages
select baton.receive('ord', 'a5', 't', '{}', aggregate_id => 'a', sequence_num => 5);
select results_eq($$select aggregate, expected, found from gaps_ord$$, $$values ('a', 4::bigint, 5::bigint)$$, 'a gap right after the processed ones is seen');
select is_empty($$select * from baton.claim_inbox('ord', 'w')$$, 'and 5 is not served while 4 never came');
select throws_ok($$update ord set processed_at = now() where event_id = 'a5'$$, '55000', null, 'nor can it be finished before its turn');
delete from ord where processed_at is not null;
select results_eq($$select aggregate, expected, found from gaps_ord$$, $$values ('a', 4::bigint, 5::bigint)$$, 'that does not depend on processed rows');
insert into ord (event_id, event_type, aggregate_id, sequence_num, received_at) values ('a9', 't', 'a', 9, now() - interval '1 hour');
select results_eq($$select expected, found, round(gap_age_sec / 3600) from gaps_ord order by 1$$,
                  $$values (4::bigint, 5::bigint, 1::float8), (6, 9, 1)$$, 'a gap is as old as the first message that came after it');

-- skipping
select is(baton.advance_inbox_sequence('ord', 'a'), 4::bigint, 'advance skips the missing one');
select results_eq($$select event_id from next_ord$$, $$values ('a5')$$, 'and the next is offered');
select is(baton.advance_inbox_sequence('ord', 'a', 8), 8::bigint, 'advance to a given sequence');
select results_eq($$select event_id, error ~ 'skipped by' from dlq_ord$$, $$values ('a5', true)$$, 'skipped messages are dead letters, never lost');
select results_eq($$select event_id from next_ord$$, $$values ('a9')$$, 'and the one after is offered');
select throws_ok($$select baton.advance_inbox_sequence('ord', 'a', 3)$$, '22023', null, 'it cannot go back');
select throws_ok($$select baton.advance_inbox_sequence('ord', null)$$, '22023', null, 'it needs an aggregate');
select is(baton.advance_inbox_sequence('ord', 'fresh', 100), 100::bigint, 'an aggregate may start where it is told to');
select baton.receive('ord', 'f101', 't', '{}', aggregate_id => 'fresh', sequence_num => 101);
select results_eq($$select event_id from next_ord where aggregate_id = 'fresh'$$, $$values ('f101')$$, 'and goes on from there');
delete from ord;

-- poison
select baton.receive('ord', 'p' || n, 't', '{}', aggregate_id => 'p', sequence_num => n) from generate_series(1, 3) n;
select baton.receive('ord', 'q1', 't', '{}', aggregate_id => 'q', sequence_num => 1);
create temp table w3 as select * from baton.claim_inbox('ord', 'w3');
select results_eq('select event_id from w3 order by 1', $$values ('p1'), ('q1')$$, 'one message per aggregate');
select baton.complete('ord', 'q1', (select lease_token from w3 limit 1));
select baton.fail('ord', 'p1', 'bad', false, (select lease_token from w3 limit 1));
update ord set available_at = now();
select results_eq($$select event_id, attempt from baton.claim_inbox('ord', 'w3')$$, $$values ('p1', 2)$$, 'a failed message is retried before its successors');
select baton.fail('ord', 'p1', 'bad', false, (select lease_token from ord where event_id = 'p1'));
select is_empty($$select * from baton.claim_inbox('ord', 'w3')$$, 'a dead one blocks its aggregate');
select results_eq('select event_id, blocks_aggregate from dlq_ord', $$values ('p1', true)$$, 'visibly');
select is((select count(*) from gaps_ord), 0::bigint, 'it is no gap');
select is(baton.replay_inbox_messages('ord', '{p1}'), 1::bigint, 'replay');
create temp table w4 as select * from baton.claim_inbox('ord', 'w4');
select results_eq('select event_id, attempt from w4', $$values ('p1', 1)$$, 'offers it again');
select baton.fail('ord', 'p1', 'still bad', true, (select lease_token from w4));
select is(baton.advance_inbox_sequence('ord', 'p'), 1::bigint, 'or it is skipped');
select results_eq('select event_id, blocks_aggregate from dlq_ord', $$values ('p1', false)$$, 'then it stays a dead letter that blocks nothing');
select results_eq($$select event_id from next_ord$$, $$values ('p2')$$, 'and its successor is next');

-- replay of something behind the last sequence
create temp table w5 as select * from baton.claim_inbox('ord', 'w5');
select baton.complete('ord', 'p2', (select lease_token from w5));
select is(baton.replay_inbox_messages('ord', '{p1,p2,p3}'), 2::bigint, 'processed and dead ones are replayed, pending ones are not touched');
create temp table w6 as select * from baton.claim_inbox('ord', 'w6');
select is((select count(*) from w6), 1::bigint, 'still one message at a time');
select results_eq('select event_id from w6', $$values ('p1')$$, 'replayed ones in sequence and first');
select baton.complete('ord', 'p1', (select lease_token from w6));
create temp table w7 as select * from baton.claim_inbox('ord', 'w7');
select baton.complete('ord', (select event_id from w7), (select lease_token from w7));
create temp table w8 as select * from baton.claim_inbox('ord', 'w8');
select results_eq('select a.event_id, b.event_id from w7 a, w8 b', $$values ('p2', 'p3')$$, 'then the rest in sequence');
select is((select last_sequence from baton_internal.inbox_sequences where aggregate = 'p'), 2::bigint, 'a replay does not move the aggregate');
select is((select count(*) from baton_internal.inbox_replays), 0::bigint, 'no mark is left');

-- a lease that ran out frees its aggregate; two messages with one sequence
update ord set leased_until = now() - interval '1 s' where event_id = 'p3';
update baton_internal.inbox_sequences set leased_until = now() - interval '1 s' where aggregate = 'p';
select results_eq($$select event_id, attempt from baton.claim_inbox('ord', 'w9')$$, $$values ('p3', 2)$$, 'a lease that ran out is offered again');
select baton.receive('ord', 'p3-twin', 't', '{}', aggregate_id => 'p', sequence_num => 3);
select is_empty($$select * from baton.claim_inbox('ord', 'w10')$$, 'a second message with the same sequence is not given to another worker');
select baton.complete('ord', 'p3', (select lease_token from ord where event_id = 'p3'));
select is_empty($$select * from baton.claim_inbox('ord', 'w10')$$, 'nor after the first is done');

-- messages without a place
select baton.receive('ord', 'free1', 't', '{}'), baton.receive('ord', 'free2', 't', '{}', aggregate_id => 'p');
select results_eq($$select event_id from baton.claim_inbox('ord', 'w11') order by 1$$, $$values ('free1'), ('free2')$$, 'messages without aggregate or sequence are not stuck');

-- switching off
select lives_ok($$select baton.disable_inbox_ordering('ord')$$, 'order is switched off');
select hasnt_view('next_ord');
select hasnt_view('gaps_ord');
select throws_ok($$select baton.disable_inbox_ordering('ord')$$, 'BT004', null, 'once');
select lives_ok($$select baton.disable_inbox_ordering('ord', true)$$, 'or with if_exists');
select throws_ok($$select * from baton.inbox_ordering_gaps('ord')$$, 'BT004', null, 'a plain inbox has no gaps');
select throws_ok($$select baton.advance_inbox_sequence('ord', 'p')$$, 'BT004', null, 'nor sequences');
select baton.receive('ord', 'z9', 't', '{}', aggregate_id => 'z', sequence_num => 9);
select ok('z9' in (select event_id from baton.claim_inbox('ord', 'w')), 'a plain inbox offers everything');
update ord set processed_at = now(), lease_token = null, leased_until = null where event_id = 'z9';
insert into ord (event_id, event_type, aggregate_id, sequence_num) values ('z4', 't', 'z', 4), ('z10', 't', 'z', 10);
select baton.enable_inbox_ordering('ord', 'aggregate_id', 'sequence_num');
select is((select last_sequence from baton_internal.inbox_sequences where aggregate = 'z'), 9::bigint, 'switching on learns from what was processed');
select is((select last_sequence from baton_internal.inbox_sequences where aggregate = 'p'), 3::bigint, 'and keeps what it knew, though rows may be gone');
create temp table w12 as select * from baton.claim_inbox('ord', 'w12');
select ok(exists (select 1 from w12 where event_id = 'z4'), 'what waits behind is offered first, not stuck');

-- errors
select throws_ok($$select baton.enable_inbox_ordering('nosuch')$$, '42704', null, 'unknown inbox');
select baton.create_inbox('other');
select throws_ok($$select baton.enable_inbox_ordering('other', 'nosuch', 'sequence_num')$$, '42703', null, 'unknown column');
select throws_ok($$select baton.enable_inbox_ordering('other', 'aggregate_id', 'payload')$$, '42804', null, 'a column that cannot be a sequence');
select is((select order_mode from baton.inboxes where name = 'other'), null, 'after which it is plain');

select * from finish();
rollback;
