-- Who loses the right to read a source loses the right to read its changes, too. Extension only: elsewhere nothing is captured.
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
\if :is_extension
select 'reader_' || current_database() as reader, 'other_' || current_database() as other \gset
create role :"reader";
create role :"other";
grant baton_operator to :"reader", :"other";
create table secret (id int, word text);
insert into secret values (1, 'open');
create schema mine;
grant all on schema mine to :"reader", :"other";
grant select, trigger on secret to :"reader", :"other";
set role :"reader";
select baton.create_stream_table('mine.one', 'select id, word from public.secret', null, 'DIFFERENTIAL');
reset role;
set role :"other";
select baton.create_stream_table('mine.two', 'select id, word from public.secret', null, 'DIFFERENTIAL');
reset role;
insert into secret values (2, 'later');
select baton_internal.trim_changes();
select format('select word from baton_internal.changes_%s', 'secret'::regclass::oid) as look \gset
select set_config('tests.look', replace(:'look', 'word', 'c2'), false) as look \gset
set role :"reader";
select results_eq(:'look', $$ values ('later') $$, 'who may read the table may read its changes');
reset role;
revoke all on secret from :"reader";
insert into secret values (3, 'TOP SECRET');
select baton_internal.trim_changes();
set role :"reader";
select throws_ok(:'look', '42501', null, 'who may not any more may not read them either');
reset role;
set role :"other";
select is((select inserted from baton.refresh_stream_table('mine.two')), 2::bigint, 'others go on');
select baton.drop_stream_table('mine.two');
reset role;
select baton_internal.trim_changes();
set role :"other";
select throws_ok(:'look', '42501', null, 'who has no stream table any more has no use for them');
reset role;
select throws_ok($$ select baton.refresh_stream_table('mine.one') $$, '0A000', null, 'a query that may not be run is not');
drop owned by :"reader", :"other" cascade;
drop role :"reader", :"other";
\else
select pass('nothing is captured');
\endif
select * from finish();
