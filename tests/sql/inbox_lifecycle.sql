-- Creating, changing and dropping inboxes.
begin;
select no_plan();
create schema shop;
set search_path = shop, public;

select is(baton.create_inbox('payments'), 'shop.payments', 'create_inbox returns the qualified name, in the current schema');
select has_table('shop', 'payments', 'the table is made');
select columns_are('shop', 'payments', array['event_id', 'event_type', 'source', 'aggregate_id', 'payload', 'received_at', 'processed_at',
    'error', 'retry_count', 'trace_id', 'headers', 'tenant_id', 'sequence_num', 'priority', 'payload_raw', 'available_at',
    'lease_token', 'leased_by', 'leased_until', 'arrival', 'failures'], 'it has the documented columns');
select col_is_pk('shop', 'payments', 'event_id', 'event_id is the primary key');
select has_view('shop', 'pending_payments', 'pending view');
select has_view('shop', 'dlq_payments', 'dead-letter view');
select has_view('shop', 'stats_payments', 'stats view');
select results_eq($$select max_retries, schedule, retention_hours, with_dead_letter, with_stats, layout from baton.inboxes where name = 'payments'$$,
                  $$values (3, interval '1 second', null::int, true, true, 'managed')$$, 'defaults: 3 retries, 1 s, retention by setting');
select is(baton.setting('inbox_processed_retention_hours'), '72', 'that retention is 72 hours');
select isnt(obj_description('shop.payments'::regclass), null, 'the table says what it is');

select lives_ok($$select baton.create_inbox('returns', 'public', 5, '10s', false, false, 12)$$, 'arguments are positional as documented');
select has_table('public', 'returns', 'the schema argument is honoured');
select hasnt_view('public', 'dlq_returns', 'without dead letter there is no such view');
select hasnt_view('public', 'stats_returns', 'without stats there is no such view');
select lives_ok($$select baton.create_inbox('public.payments')$$, 'a qualified name may repeat a name of another schema');
select lives_ok($$select baton.create_inbox('"Odd Name"')$$, 'a quoted name works');
select has_view('shop', 'pending_Odd Name', 'and so do its views');
select is(baton.receive('"Odd Name"', 'o1', 't', '{}'), 'new', 'and its functions');

select throws_ok($$select baton.create_inbox('payments')$$, '42710', null, 'an inbox that exists: duplicate_object');
create table shop.taken (x int);
select throws_ok($$select baton.create_inbox('taken')$$, '42P07', null, 'a relation that exists: duplicate_table');
create table shop.pending_orders (x int);
select throws_ok($$select baton.create_inbox('orders')$$, '42P07', null, 'a relation with a view''s name is never replaced');
select hasnt_table('shop', 'orders', 'and nothing is left behind');
select throws_ok($$select baton.create_inbox('x', 'nowhere')$$, '3F000', null, 'unknown schema');
select throws_ok($$select baton.create_inbox('shop.x', 'public')$$, '22023', null, 'two different schemas');
select throws_ok($$select baton.create_inbox(null)$$, '22023', null, 'a name is needed');
select throws_ok($$select baton.create_inbox('a b')$$, '42602', null, 'an invalid name');
select throws_ok($$select baton.create_inbox(repeat('x', 64))$$, '42622', null, 'a name that the server would cut');
select throws_ok($$select baton.create_inbox('x', null, 0)$$, '22023', null, 'no attempts');
select throws_ok($$select baton.create_inbox('x', null, 3, 'soon')$$, '22023', null, 'a schedule that is no time');
select throws_ok($$select baton.create_inbox('x', null, 3, '-1s')$$, '22023', null, 'a negative schedule');
select throws_ok($$select baton.create_inbox('x', null, 3, '1s', true, true, -1)$$, '22023', null, 'a negative retention');

-- names that share their first 60 characters keep apart
select lives_ok(format($$select baton.create_inbox('%s_a'), baton.create_inbox('%1$s_b')$$, repeat('n', 58)), 'two long names are two inboxes');
select is((select count(*) from pg_class where relnamespace = 'shop'::regnamespace and relname like 'pending_nnn%' and relkind = 'v'), 2::bigint,
          'with a pending view each');
select is((select count(*) from pg_class where relnamespace = 'shop'::regnamespace and relname like 'nnn%\_processed' and relkind = 'i'), 2::bigint,
          'and an index each');

-- lookup by name
select throws_ok($$select baton.receive('nothing', '1', 't', '{}')$$, '42704', null, 'an unknown inbox: undefined_object');
select is(baton.receive('payments', 'p1', 't', '{}'), 'new', 'an unqualified name goes by search path');
select is((select count(*) from shop.payments), 1::bigint, 'so it landed in shop');
set local search_path = public;
select is(baton.receive('shop.payments', 'p1', 't', '{}'), 'duplicate', 'a qualified name is exact');
select is(baton.receive('payments', 'p1', 't', '{}'), 'new', 'the other schema has its own');
create schema other;
select baton.create_inbox('twins', 'shop'), baton.create_inbox('twins', 'other');
select throws_ok($$select baton.receive('twins', 'p1', 't', '{}')$$, '42P09', null, 'a name off the path that is not unique: ambiguous');
select is(baton.receive('"Odd Name"', 'o2', 't', '{}'), 'new', 'one that is unique is found');
set local search_path = shop, public;

-- alter
select baton.alter_inbox('payments', max_retries => 5, schedule => '2s', retention_hours => 1, backoff_base => '0', backoff_cap => '1s', backoff_jitter => 0);
select results_eq($$select max_retries, schedule, retention_hours from baton.inboxes where name = 'payments' and schema_name = 'shop'$$,
                  $$values (5, interval '2 seconds', 1)$$, 'alter_inbox changes policies');
update payments set retry_count = 4;
select is((select count(*) from pending_payments), 1::bigint, 'the views follow the new number of retries');
select throws_ok($$select baton.alter_inbox('payments', backoff_jitter => 2)$$, '22023', null, 'impossible jitter');
select throws_ok($$select baton.alter_inbox('payments', max_retries => 0)$$, '22023', null, 'impossible retries');
select throws_ok($$select baton.alter_inbox('nothing')$$, '42704', null, 'unknown inbox');

-- drop
select throws_ok($$select baton.drop_inbox('nothing')$$, '42704', null, 'dropping what is not there');
select is(baton.drop_inbox('nothing', true), false, 'if_exists forgives it');
select is(baton.drop_inbox('payments'), true, 'drop_inbox');
select has_table('shop', 'payments', 'without cascade the table stays');
select hasnt_view('shop', 'pending_payments', 'the views go');
select lives_ok($$insert into payments (event_id, event_type) values ('after', 't')$$, 'the table that stays works without baton');
select baton.drop_inbox('public.payments', false, true);
select hasnt_table('public', 'payments', 'with cascade a managed table goes');
select is((select count(*) from baton_internal.inbox_objects o where not exists (select 1 from baton.inboxes i where i.id = o.inbox)), 0::bigint, 'no notes remain');
select is((select count(*) from pg_proc where pronamespace = 'baton_internal'::regnamespace and proname ~ '^inbox_\d+_'),
          (select count(*) from baton.inboxes), 'no functions remain');

-- the user drops the table behind our back
select baton.create_inbox('lost');
drop table lost cascade;
select throws_ok($$select baton.receive('lost', '1', 't', '{}')$$, '42P01', 'the table of inbox "lost" is gone', 'a dropped table is named');
select throws_ok($$select * from baton.claim_inbox('lost', 'w')$$, '42P01', null, 'in every function');
select is(baton.drop_inbox('lost', false, true), true, 'drop_inbox cleans up');
select lives_ok($$select baton.create_inbox('lost')$$, 'and the name is free again');

select * from finish();
rollback;
