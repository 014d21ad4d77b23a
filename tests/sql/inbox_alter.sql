-- Changing an inbox in use: the new values hold at once, nothing is rebuilt and nobody waits.
create function pg_temp.strong_locks(relation regclass) returns bigint language sql as
    $$ select count(*) from pg_locks l where l.pid = pg_backend_pid() and l.relation = $1 and l.granted
          and l.mode not in ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock') $$;

select baton.create_inbox('changing', max_retries => 3);
select baton.create_inbox('tiered', max_retries => 3);
select baton.enable_inbox_priority('tiered');
select baton.create_inbox('ordered', max_retries => 3);
select baton.enable_inbox_ordering('ordered', 'aggregate_id', 'sequence_num');
create table own (msg text primary key, kind text, at timestamptz default now(), done timestamptz, tries int default 0, problem text);
select baton.adopt_inbox('adopted', 'own', 'msg', 'done', 'tries', 'problem', 'at', 'kind');
create temp table parts as
    select c.oid, coalesce(pg_relation_filenode(c.oid), 0) as file from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'public' and c.relname ~ '(changing|tiered|ordered|own|adopted)';

begin;
select no_plan();
select baton.alter_inbox(i, max_retries => 5, schedule => '2s', retention_hours => 5, backoff_base => '0', backoff_cap => '1 h', backoff_jitter => 0.1)
  from unnest('{changing,tiered,ordered,adopted}'::text[]) i;
select is(pg_temp.strong_locks(t::regclass), 0::bigint, 'changing ' || t || ' takes no lock that anybody waits for')
  from unnest('{changing,tiered,ordered,own,pending_changing,pending_tiered_critical,next_ordered,changing_pending,changing_dead,tiered_due,ordered_sequence}'::text[]) t;
select is_empty($$ select p.oid from parts p full join (select c.oid, coalesce(pg_relation_filenode(c.oid), 0) as file from pg_class c join pg_namespace n on n.oid = c.relnamespace
                      where n.nspname = 'public' and c.relname ~ '(changing|tiered|ordered|own|adopted)') n using (oid, file) where p.oid is null or n.oid is null $$,
                'every table, index and view is the one it was');

-- more attempts
select baton.alter_inbox('changing', max_retries => 3);
select baton.receive('changing', e, 't', '{}') from unnest('{dead,alive,untried}'::text[]) e;
update changing set retry_count = 2 where event_id in ('dead', 'alive');
create temp table c1 as select * from baton.claim_inbox('changing', 'w');
select baton.fail('changing', 'dead', 'bad', lease_token => (select lease_token from c1 limit 1));
select baton.release_inbox('changing', '{alive,untried}', (select lease_token from c1 limit 1));
select results_eq('select event_id from dlq_changing', $$values ('dead')$$, 'a message without attempts is dead');
select is((select available_at from changing where event_id = 'dead'), 'infinity', 'and never due, so that no claim meets it');
select baton.alter_inbox('changing', max_retries => 4);
select is((select count(*) from dlq_changing), 0::bigint, 'with one attempt more it is not dead');
select results_eq('select event_id from pending_changing order by 1', $$values ('alive'), ('dead'), ('untried')$$, 'but pending');
create temp table c2 as select * from baton.claim_inbox('changing', 'w');
select results_eq('select event_id, attempt from c2 order by 1', $$values ('alive', 3), ('dead', 4), ('untried', 1)$$, 'and offered');
select baton.release_inbox('changing', '{alive,dead,untried}', (select lease_token from c2 limit 1));

-- fewer attempts
select baton.alter_inbox('changing', max_retries => 2);
select results_eq('select event_id from dlq_changing order by 1', $$values ('alive'), ('dead')$$, 'with fewer attempts, what used them up is dead');
select results_eq($$select event_id from changing where available_at = 'infinity' order by 1$$, $$values ('alive'), ('dead')$$, 'and never due');
select results_eq($$select event_id from baton.claim_inbox('changing', 'w')$$, $$values ('untried')$$, 'the rest is offered');

-- a lease keeps the attempt that it was given; who holds a row is not waited for
select is((select leased_until is not null from changing where event_id = 'untried'), true, 'a lease goes on');
select baton.alter_inbox('changing', max_retries => 1);
select baton.fail('changing', 'untried', 'bad', lease_token => (select lease_token from changing where event_id = 'untried'));
select is((select count(*) from dlq_changing), 3::bigint, 'and a failure counts by the number that holds then');

-- plain updates: a worker of one's own counts by itself
select baton.alter_inbox('changing', max_retries => 3);
select baton.receive('changing', 'plain', 't', '{}');
update changing set retry_count = 3 where event_id = 'plain';
select ok(exists (select from dlq_changing where event_id = 'plain'), 'what a plain update makes dead is dead');
select baton.run_inbox_maintenance();
select is((select available_at from changing where event_id = 'plain'), 'infinity', 'and maintenance takes it out of the claims'' way');

-- dead on arrival
select baton.receive_malformed('changing', 'noise', '\x00', 'no JSON');
select is((select available_at from changing where event_id = 'noise'), 'infinity', 'a malformed message is never due');
select baton.replay_inbox_messages('changing', '{noise}');
select ok((select available_at <= clock_timestamp() from changing where event_id = 'noise'), 'until it is replayed');

-- tiers and dead letters
select baton.receive('tiered', 't1', 't', '{}', priority => 1);
select baton.fail('tiered', 't1', 'bad', true);
select results_eq('select event_id from dlq_tiered', $$values ('t1')$$, 'a tier''s message can be dead');
select is_empty($$select * from baton.claim_inbox('tiered', 'w')$$, 'and is not offered');
select is(baton.replay_inbox_messages('tiered', '{t1}'), 1::bigint);
select results_eq($$select event_id from baton.claim_inbox('tiered', 'w')$$, $$values ('t1')$$, 'before it is replayed');
select * from finish();
rollback;
select baton.drop_inbox(i, cascade => true) from unnest('{changing,tiered,ordered,adopted}'::text[]) i;
drop table own;
