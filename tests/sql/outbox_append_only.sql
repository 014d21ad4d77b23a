-- Nobody changes or removes events of an outbox by accident, not even the owner's login; a repair is possible and told.
select no_plan();
select baton.create_outbox('guarded', partition_interval => '1 hour', retention => '0', archive_for => '1 hour');
select baton.publish('guarded', 'e', jsonb_build_object('n', n)) from generate_series(1, 3) n;
select throws_ok($$ update guarded set payload = '{}' $$, '55000', null, 'an update is refused');
select throws_ok($$ update guarded set payload = '{}' where false $$, '55000', null, 'whatever it would change');
select throws_ok($$ delete from guarded $$, '55000', null, 'a delete is refused');
select throws_ok($$ truncate guarded $$, '55000', null, 'a truncate is refused');
select throws_ok($$ update guarded_p1 set payload = '{}' $$, '55000', null, 'on a partition as well: an update');
select throws_ok($$ delete from guarded_p1 $$, '55000', null, 'a delete');
select throws_ok($$ truncate guarded_p1 $$, '55000', null, 'and a truncate');
select throws_ok($$ insert into guarded (event_type) values ('e') on conflict (id) do update set payload = '{}' $$, '55000', null, 'an upsert that updates, too');
select is((select count(*)::int from guarded), 3, 'the events are there');
select lives_ok($$ insert into guarded (event_type) values ('e') $$, 'inserts go on');
select is((select count(*)::int from pg_trigger t join baton_internal.outbox_partitions p on p.relation = t.tgrelid where t.tgname = 'baton_append_only'),
          (select count(*)::int from baton_internal.outbox_partitions), 'every partition is guarded, also those ahead');
select is((select count(*)::int from pg_trigger t where t.tgrelid = 'guarded'::regclass and t.tgname = 'baton_append_only' and t.tgtype & 4 = 4), 0,
          'the guard does not see inserts');

-- a repair
select throws_ok($$ select baton.repair_outbox('guarded', ' ') $$, '22023', null, 'a repair needs a reason');
create table public.plain_table (n int);
select throws_ok($$ select baton.repair_outbox('plain_table', 'x') $$, '42704', null, 'and an outbox');
begin;
select baton.repair_outbox('guarded', 'a payload that kills every consumer');
select lives_ok($$ update guarded set payload = '{"n": 0}' where id = 1 $$, 'then the transaction may change events');
select lives_ok($$ delete from guarded_p1 where id = 2 $$, 'and remove them');
commit;
select throws_ok($$ delete from guarded $$, '55000', null, 'the next transaction may not');
select is((select details ->> 'reason' from baton.audit_trail where action = 'repair_outbox'), 'a payload that kills every consumer', 'the reason is kept');
select baton.create_outbox('other');
begin;
select baton.repair_outbox('other', 'not this one');
select throws_ok($$ delete from guarded $$, '55000', null, 'another outbox stays guarded');
commit;

-- what removes whole partitions is not in its way
select lives_ok($$ select baton.drop_outbox('other') $$, 'an outbox is dropped');
select lives_ok($$ select baton.drop_outbox('guarded') $$, 'with its guarded partitions');
select * from finish();
