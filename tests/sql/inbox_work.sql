-- Claiming and settling.
begin;
select no_plan();
select baton.create_inbox('inb');
select baton.receive('inb', 'm' || n, 't', jsonb_build_object('n', n), 'src', 'agg', '{"h": 1}', 'tr') from generate_series(1, 5) n;

create temp table mine as select * from baton.claim_inbox('inb', 'w1', 2, 60);
select results_eq('select event_id, event_type, source, aggregate_id, payload, headers, trace_id, attempt from mine',
    $$values ('m1', 't', 'src', 'agg', '{"n": 1}'::jsonb, '{"h": 1}'::jsonb, 'tr', 1), ('m2', 't', 'src', 'agg', '{"n": 2}', '{"h": 1}', 'tr', 1)$$,
    'a claim returns the oldest messages, whole');
select is((select count(distinct lease_token) from mine), 1::bigint, 'with one token for the claim');
select ok((select min(leased_until) between clock_timestamp() + interval '50 s' and clock_timestamp() + interval '60 s' from mine), 'leased for as long as asked');
select results_eq($$select event_id from baton.claim_inbox('inb', 'w2', 2)$$, $$values ('m3'), ('m4')$$, 'another claim gets others');
select ok((select bool_and(leased_until between clock_timestamp() + interval '25 s' and clock_timestamp() + interval '30 s') from inb where leased_by = 'w2'),
          'the default lease is 30 seconds');
select results_eq($$select event_id from baton.claim_inbox('inb', 'w3')$$, $$values ('m5')$$, 'the rest is one');
select is_empty($$select * from baton.claim_inbox('inb', 'w3')$$, 'then nothing is left');
select is((select count(*) from pending_inb), 5::bigint, 'leased messages are still pending');

-- completing
select is(baton.complete_inbox('inb', array['m1', 'm2', 'm1'], (select lease_token from mine limit 1)), 2::bigint, 'complete counts the messages it finished');
select results_eq($$select event_id, processed_at is not null, lease_token, leased_by, leased_until from inb where event_id in ('m1', 'm2') order by 1$$,
    $$values ('m1', true, null::uuid, null::text, null::timestamptz), ('m2', true, null, null, null)$$, 'they are processed and free');
prepare again as select baton.complete_inbox('inb', array['m1'], (select lease_token from mine limit 1));
select throws_ok('again', 'BT001', 'lease lost on message "m1" of inbox "public.inb"', 'completing again: lease lost, so that the effect is not repeated');

-- fencing
create temp table w2 as select event_id, lease_token from inb where leased_by = 'w2';
update inb set leased_until = clock_timestamp() - interval '1 s' where leased_by = 'w2';
select is(baton.complete('inb', 'm3', (select lease_token from w2 limit 1)), 1::bigint, 'a lease that ran out but was not taken may still complete');
select results_eq($$select event_id, attempt from baton.claim_inbox('inb', 'w4')$$, $$values ('m4', 2)$$, 'a lease that ran out is offered again, as a further attempt');
select matches((select error from inb where event_id = 'm4'), 'lease of worker "w2" ran out', 'and the message says why');
select throws_ok(format($$select baton.complete('inb', 'm4', %L)$$, (select lease_token from w2 limit 1)), 'BT001', null, 'the first holder lost it');
select throws_ok(format($$select baton.fail('inb', 'm4', 'x', false, %L)$$, (select lease_token from w2 limit 1)), 'BT001', null, 'and cannot fail it');
select throws_ok(format($$select baton.extend_inbox_lease('inb', '{m4}', %L)$$, (select lease_token from w2 limit 1)), 'BT001', null, 'nor extend it');
select throws_ok(format($$select baton.release_inbox('inb', '{m4}', %L)$$, (select lease_token from w2 limit 1)), 'BT001', null, 'nor give it back');
select throws_ok($$select baton.complete('inb', 'm4')$$, 'BT003', null, 'without a token: owned by somebody else');
select throws_ok($$select baton.complete('inb', 'nosuch', gen_random_uuid())$$, 'BT002', null, 'an unknown message is not in lease');
select throws_ok(format($$select baton.complete('inb', array['m4', 'm5'], %L)$$, (select lease_token from inb where event_id = 'm4')), 'BT001', null,
                 'all of the messages must be in the lease');
select is((select processed_at from inb where event_id = 'm4'), null, 'or none is completed');

-- extending and releasing
select ok(baton.extend_inbox_lease('inb', '{m4}', (select lease_token from inb where event_id = 'm4'), 600) > clock_timestamp() + interval '590 s', 'extend returns the new end');
select ok((select leased_until > clock_timestamp() + interval '590 s' from inb where event_id = 'm4'), 'and stores it');
select is(baton.release_inbox('inb', '{m4}', (select lease_token from inb where event_id = 'm4')), 1::bigint, 'release');
select results_eq($$select event_id, attempt from baton.claim_inbox('inb', 'w5')$$, $$values ('m4', 2)$$, 'a released message is offered at once, without a further attempt counted');
select throws_ok($$select baton.extend_inbox_lease('inb', '{m4}', null)$$, '22023', null, 'extending needs a token');

-- failing
select baton.alter_inbox('inb', backoff_base => '10s', backoff_cap => '15s', backoff_jitter => 0.5);
select is(baton.fail_inbox('inb', 'm5', 'no luck', lease_token => (select lease_token from inb where event_id = 'm5')), 1::bigint, 'fail');
select results_eq($$select retry_count, error, lease_token, processed_at from inb where event_id = 'm5'$$,
                  $$values (1, 'no luck', null::uuid, null::timestamptz)$$, 'it counts the attempt, keeps the error and frees the message');
select ok((select available_at - clock_timestamp() between interval '4 s' and interval '10 s' from inb where event_id = 'm5'), 'it waits between half and all of the base');
select is_empty($$select * from baton.claim_inbox('inb', 'w6')$$, 'it is not offered before its time');
update inb set available_at = now() where event_id = 'm5';
select results_eq($$select event_id, attempt from baton.claim_inbox('inb', 'w6')$$, $$values ('m5', 2)$$, 'and then as the second attempt');
select baton.fail_inbox('inb', array['m5'], 'again', lease_token => (select lease_token from inb where event_id = 'm5'));
select ok((select available_at - clock_timestamp() between interval '7 s' and interval '15 s' from inb where event_id = 'm5'), 'the wait doubles up to the cap');
update inb set available_at = now() where event_id = 'm5';
select is((select count(*) from baton.claim_inbox('inb', 'w6')), 1::bigint, 'third attempt');
select baton.fail('inb', 'm5', 'for good', false, (select lease_token from inb where event_id = 'm5'));
select results_eq('select event_id, retry_count, error from dlq_inb', $$values ('m5', 3, 'for good')$$, 'after max_retries failures it is dead');
update inb set available_at = now() where event_id = 'm5';
select is_empty($$select * from baton.claim_inbox('inb', 'w6')$$, 'and not offered any more');
select is(baton.fail('inb', 'm4', 'never', true, (select lease_token from inb where event_id = 'm4')), 1::bigint, 'a permanent failure');
select is((select retry_count from dlq_inb where event_id = 'm4'), 3, 'is dead at once');
select is((select min(baton_internal.backoff_delay('1s', '5min', 0, n)) from generate_series(1, 60) n), interval '1 s', 'backoff starts at its base');
select is((select max(baton_internal.backoff_delay('1s', '5min', 0, n)) from generate_series(1, 60) n), interval '5 min', 'and never passes its cap');

-- a message that kills its workers
select baton.receive('inb', 'killer', 't', '{}');
select is((select attempt from baton.claim_inbox('inb', 'v1')), 1, 'first worker');
update inb set leased_until = now() - interval '1 s' where event_id = 'killer';
select is((select attempt from baton.claim_inbox('inb', 'v2')), 2, 'second worker');
update inb set leased_until = now() - interval '1 s' where event_id = 'killer';
select is((select attempt from baton.claim_inbox('inb', 'v3')), 3, 'third worker');
update inb set leased_until = now() - interval '1 s' where event_id = 'killer';
select is_empty($$select * from baton.claim_inbox('inb', 'v4')$$, 'there is no fourth');
select results_eq($$select retry_count, error, leased_by, lease_token from dlq_inb where event_id = 'killer'$$,
                  $$values (3, 'the lease of worker "v3" ran out', null::text, null::uuid)$$, 'it is a dead letter that names the last one');

-- the handler's transaction
select baton.receive('inb', 'tx', 't', '{}');
create temp table effects (event_id text);
do $$
declare m record;
begin
    for m in select * from baton.claim_inbox('inb', 'w') loop
        insert into effects values (m.event_id);
        perform baton.complete('inb', m.event_id, m.lease_token);
    end loop;
    raise exception 'crash';
exception when raise_exception then null;
end $$;
select is_empty('select * from effects', 'a rolled back handler has no effect');
select is((select lease_token from inb where event_id = 'tx'), null, 'and leaves no trace on the message');
do $$
declare m record;
begin
    for m in select * from baton.claim_inbox('inb', 'w') loop
        insert into effects values (m.event_id);
        perform baton.complete('inb', m.event_id, m.lease_token);
    end loop;
end $$;
select results_eq('select * from effects', $$values ('tx')$$, 'claim, effect and completion fit one transaction');
select baton.receive('inb', 'direct', 't', '{}');
select is(baton.complete('inb', 'direct'), 1::bigint, 'what nobody holds can be completed without a lease');

-- a delay of the handler's own
select baton.receive('inb', 'later', 't', '{}');
create temp table w9 as select * from baton.claim_inbox('inb', 'w');
select baton.fail('inb', 'later', 'busy', false, (select lease_token from w9), retry_after => '1 hour');
select ok((select available_at between clock_timestamp() + interval '59 min' and clock_timestamp() + interval '1 hour'
             from inb where event_id = 'later'), 'a failed message comes back after the time given');

-- claims that make no sense
select throws_ok($$select * from baton.claim_inbox('inb', '')$$, '22023', null, 'a worker has a name');
select throws_ok($$select * from baton.claim_inbox('inb', 'w', 0)$$, '22023', null, 'a batch has a size');
select throws_ok($$select * from baton.claim_inbox('inb', 'w', 1, 0)$$, '22023', null, 'a lease has a length');
select throws_ok($$select * from baton.claim_inbox('nosuch', 'w')$$, '42704', null, 'an inbox exists');

-- tenants
select baton.receive_many('inb', '[{"event_id": "ta", "tenant_id": "a"}, {"event_id": "tb", "tenant_id": "b"}, {"event_id": "tn"}]');
set local baton.tenant_id = 'b';
select results_eq($$select event_id from baton.claim_inbox('inb', 'w')$$, $$values ('tb')$$, 'a session with a tenant claims that tenant''s messages');
set local baton.tenant_id = '';
select results_eq($$select event_id from baton.claim_inbox('inb', 'w')$$, $$values ('ta'), ('tn')$$, 'one without claims all');

-- privileges
create role inbox_test_worker;
grant baton_consumer to inbox_test_worker;
grant inbox_test_worker to current_user;
select baton.receive('inb', 'role', 't', '{}');
set local role inbox_test_worker;
select is((select count(*) from baton.claim_inbox('inb', 'w')), 1::bigint, 'a consumer claims without rights on the table');
select is((select count(*) from pending_inb) >= 1, true, 'reads the views');
select throws_ok($$select * from inb$$, '42501', null, 'but not the table');
select throws_ok($$select baton.create_inbox('other')$$, '42501', null, 'and makes no inboxes');
select throws_ok($$select baton_internal.settle_inbox(null, 'complete', '{}', null)$$, '42501', null, 'inner functions are closed');
reset role;

select * from finish();
rollback;
