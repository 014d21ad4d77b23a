-- What a relay needs of an adopted table beside the statements of every worker: claims that leave out waiting keys,
-- locks that are renewed and given back, and one owner at a time.
begin;
select no_plan();
set local client_min_messages = warning;

create table jobs (id int primary key, key text, body jsonb, state text not null default 'new', tries int not null default 0,
                   error text, due timestamptz not null default now(), taken timestamptz, taker varchar(8));
select baton.adopt_outbox('jobs', mapping => '{
    "columns": {"id": "id", "partition_key": "key", "payload": "body", "status": "state", "attempts": "tries", "last_error": "error",
                "available_at": "due", "locked_at": "taken", "locked_by": "taker"},
    "states": {"pending": "new", "done": "sent", "dead": "broken"}, "attempts": {"limit": 3}, "order": ["id"],
    "backoff": {"kind": "fixed", "base_seconds": 60}}');
insert into jobs (id, key, body) select n, 'k' || n % 2, jsonb_build_object('n', n) from generate_series(1, 6) n;
insert into jobs (id, key, body) values (7, null, '{"n": 7}');

-- Do what a relay does, and return the ids.
create function run(which text, variadic parameters text[]) returns setof text language plpgsql as $$
declare
    jobs int := (select outbox_id from baton.adopted_outboxes where table_name = 'jobs');
begin
    return query execute case which
        when 'claim' then 'select c.id from baton_internal.claim_rows_for_relay($1, $2[1], $2[2]::int, 30, $2[3]::text[], $2[4]::text[], 1000000, 1000000) c'
        when 'release' then 'select baton_internal.release_rows($1, $2[1]::text[], $2[2])'
        when 'renew' then 'select baton_internal.renew_rows($1, $2[1]::text[], $2[2])'
        when 'held' then 'select h.id from baton_internal.held_rows($1, $2[1]::text[], $2[2]) h'
    end using jobs, parameters;
end
$$;

select results_eq($$select run('claim', 'w', '10', '{k1}', '{}')$$, $$values ('2'), ('4'), ('6'), ('7')$$,
                  'a claim leaves out the keys that wait, and never a row without key');
select results_eq($$select run('claim', 'w', '10', '{k1}', '{3}')$$, $$values ('3')$$, 'apart from the row that the others wait for');
select is((select string_agg(id::text, ' ' order by id) from jobs where taker = 'w'), '2 3 4 6 7', 'what was claimed is locked');
select results_eq($$select run('release', '{6,7}', 'w')$$, $$values ('6'), ('7')$$, 'rows are given back');
select is((select (tries, error, taken, taker, state) is not distinct from (0, null::text, null::timestamptz, null::varchar, 'new') from jobs where id = 6),
          true, 'as they were, without an attempt');
select is_empty($$select run('release', '{2}', 'other')$$, 'not by another worker');
update jobs set taken = now() - interval '10 minutes' where id in (2, 3);
select results_eq($$select run('renew', '{2,3,6}', 'w')$$, $$values ('2'), ('3')$$, 'locks are renewed where they are still held');
select is_empty($$select run('renew', '{2}', 'other')$$, 'by their worker alone');
select set_eq($$select run('claim', 'other', '10', '{}', '{}')$$, $$values ('1'), ('5'), ('6'), ('7')$$, 'and are not stale then');
select set_eq($$select run('held', null, 'w')$$, $$values ('1'), ('5'), ('6')$$, 'rows that another worker holds make their keys wait');
select lives_ok($$select baton.ack_adopted('jobs', '{1,6}', 'other')$$, 'one of them');
select lives_ok($$select baton.fail_adopted('jobs', '5', 'no', false, 'other')$$, 'is settled, another fails');
select set_eq($$select run('held', null, 'w')$$, $$values ('5')$$, 'a failed row makes its key wait');
select set_eq($$select run('held', '{1,5,3}', 'w')$$, $$values ('5'), ('3')$$, 'of given rows, those that are not settled');
select set_eq($$select run('release', null, 'w')$$, $$values ('2'), ('3'), ('4')$$, 'a worker gives back all that it holds');

-- names that do not fit
select is((select baton_internal.adopted_worker(a, 'short') from baton.adopted_outboxes a where a.table_name = 'jobs'), 'short', 'a name that fits is kept');
select is((select length(baton_internal.adopted_worker(a, 'much too long for it')) from baton.adopted_outboxes a where a.table_name = 'jobs'), 8,
          'another is made to fit');
select isnt((select baton_internal.adopted_worker(a, 'much too long for it') from baton.adopted_outboxes a where a.table_name = 'jobs'),
            (select baton_internal.adopted_worker(a, 'much too long for this') from baton.adopted_outboxes a where a.table_name = 'jobs'), 'and stays apart from others');

-- one owner at a time
create temporary table outbox as select outbox_id as id from baton.adopted_outboxes where table_name = 'jobs';
select is((select epoch from outbox, baton_internal.take_adopted(id, 'one', '1 minute')), 1::bigint, 'a relay takes the table');
select is((select held_by from outbox, baton_internal.take_adopted(id, 'two', '1 minute')), 'one', 'another is told who has it');
select is((select epoch from outbox, baton_internal.take_adopted(id, 'one', '1 minute')), 2::bigint, 'the same relay may begin anew');
select throws_ok($$select baton_internal.keep_adopted(id, 1) from outbox$$, 'BT001', 'the relay has lost the adopted outbox', 'its earlier epoch is over then');
select lives_ok($$select baton_internal.keep_adopted(id, 2, '1 hour') from outbox$$, 'the owner keeps it');
select is((select owned_until > now() + interval '50 minutes' from baton_internal.adopted_owners), true, 'for longer');
update baton_internal.adopted_owners set owned_until = now() - interval '1 second';
select lives_ok($$select baton_internal.keep_adopted(id, 2) from outbox$$, 'also late, while nobody else came');
select is((select epoch from outbox, baton_internal.take_adopted(id, 'two', '1 minute')), 3::bigint, 'whose lease is over is replaced');
select throws_ok($$select baton_internal.keep_adopted(id, 2, '1 hour') from outbox$$, 'BT001', null, 'and cannot come back');
select lives_ok($$select baton_internal.leave_adopted(id, 2) from outbox$$, 'nor give away what it has no more');
select is((select owner from baton_internal.adopted_owners), 'two', 'which stays where it is');
select lives_ok($$select baton_internal.leave_adopted(id, 3) from outbox$$, 'the owner leaves');
select is((select epoch from outbox, baton_internal.take_adopted(id, 'one', '1 minute')), 4::bigint, 'and the next need not wait');
select throws_ok($$select baton_internal.take_adopted(id, '', '1 minute') from outbox$$, '22023', null, 'an owner has a name');

-- a relay's role is enough
update jobs set due = now();
create role adopt_relay_member;
grant baton_relay to adopt_relay_member;
grant adopt_relay_member to current_user;
grant select, update on jobs to adopt_relay_member;
grant select on outbox to adopt_relay_member;
set local role adopt_relay_member;
select set_eq($$select run('claim', 'r', '10', '{}', '{}')$$, $$values ('2'), ('3'), ('4'), ('5')$$, 'the relay''s role claims');
select set_eq($$select run('renew', '{2}', 'r')$$, $$values ('2')$$, 'renews');
select set_eq($$select run('release', '{3}', 'r')$$, $$values ('3')$$, 'gives back');
select set_eq($$select run('held', null, 'r')$$, $$values ('5')$$, 'looks');
select lives_ok($$select baton.ack_adopted('jobs', '{2}', 'r')$$, 'settles');
select lives_ok($$select baton_internal.keep_adopted(id, 4) from outbox$$, 'and owns');
reset role;

-- What a relay has no room for comes with its bytes alone.
create table wide (id bigint generated always as identity primary key, doc jsonb, meta jsonb, done_at timestamptz);
insert into wide (doc, meta) select jsonb_build_object('pad', repeat('x', n)), jsonb_build_object('m', repeat('y', m))
  from (values (10, 0), (100000, 0), (10, 100000), (20000, 0), (20000, 0), (10, 0)) v (n, m);
select baton.adopt_outbox('wide', mapping => '{"columns": {"id": "id", "payload": "doc", "headers": "meta", "processed_at": "done_at"}, "order": ["id"]}');
select results_eq($$select c.id, c.payload is null, c.headers is null, c.withheld_bytes > 50000
                      from baton.adopted_outboxes a, baton_internal.claim_rows_for_relay(a.outbox_id, 'w', 10, 30, '{}', '{}', 50000, 30000) c where a.table_name = 'wide'$$,
                  $$values ('1', false, false, null::boolean), ('2', true, true, true), ('3', true, true, true), ('4', false, false, null), ('5', true, true, false), ('6', true, true, false)$$,
                  'payloads and headers over the limit of one, and all after the limit of the batch');
select results_eq($$select c.id, c.payload is null
                      from baton.adopted_outboxes a, baton_internal.claim_rows_for_relay(a.outbox_id, 'w', 4, 30, '{}', '{}', 50000, 1) c where a.table_name = 'wide'$$,
                  $$values ('1', false), ('2', true), ('3', true), ('4', true)$$, 'the first that may be loaded always comes');

select * from finish();
rollback;
