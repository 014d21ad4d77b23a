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

-- a right on some columns
create table people (id int, name text, pin text);
grant select, trigger on people to :"reader", :"other";
set role :"reader";
select baton.create_stream_table('mine.names', 'select id, name from public.people', null, 'DIFFERENTIAL');
select baton.create_stream_table('mine.pins', 'select id, pin from public.people', null, 'DIFFERENTIAL');
reset role;
set role :"other";
select baton.create_stream_table('mine.all_pins', 'select id, pin from public.people', null, 'DIFFERENTIAL');
reset role;
select format('select c3 from baton_internal.changes_%s', 'people'::regclass::oid) as pins, format('select c2 from baton_internal.changes_%s', 'people'::regclass::oid) as names \gset
revoke select on people from :"reader";
grant select (id, name) on people to :"reader";
select baton_internal.maintain_streams();
insert into people values (1, 'ann', 'PIN 1234');
set role :"reader";
select throws_ok(:'pins', '42501', null, 'who may not read a column any more may not read its changes, from the next maintenance on, also where there were none yet');
select results_eq(:'names', $$ values ('ann') $$, 'those of other columns stay open');
reset role;
set role :"other";
select results_eq(:'pins', $$ values ('PIN 1234') $$, 'and to others all do');
reset role;
grant select on people to :"reader";
set role :"reader";
select lives_ok($$ select baton.repair_stream_table('mine.pins') $$, 'with the right again');
select lives_ok(:'pins', 'they may be read again');
select baton.drop_stream_table('mine.pins');
reset role;
select baton_internal.maintain_streams();
set role :"reader";
select throws_ok(:'pins', '42501', null, 'but not without a stream table that needs them');
select lives_ok(:'names', 'while another one needs other columns');
reset role;
drop owned by :"reader", :"other" cascade;
drop role :"reader", :"other";
\else
select pass('nothing is captured');
\endif
select * from finish();
